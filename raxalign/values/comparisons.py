"""Every value of a grid's tables with its interval and its difference to a baseline: the runs are
read from a ledger, tested, corrected for the number of tests, and judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from raxalign.analysis.cells import MEANS, Cell, Name, Value
from raxalign.analysis.power import Design, LanguageSample
from raxalign.analysis.significance import (
    LEVEL,
    Comparison,
    Interval,
    Runs,
    at_look,
    holm,
    lies_within,
)
from raxalign.catalog import catalog
from raxalign.errors import RaxalignError
from raxalign.grid.metrics import Added
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.measured import Measured
from raxalign.printing import counted
from raxalign.store.key import digest
from raxalign.store.ledger import EarlierLook, Ledger
from raxalign.values.numbers import NumberFormat
from raxalign.values.predictions import Predictions
from raxalign.values.results import FLOOR

Verdict = Literal["better", "worse", "no difference", "not after correction", "cannot tell", "="]
ONE_BY_ONE = (
    "Intervals are not corrected for multiple comparisons; the verdicts are (Holm, per table). “Not"
    " after correction”: the interval does not contain 0 (p below 0.05), but among all comparisons"
    " of the table the difference may be random variation."
)
MINIMUM = "minimum detectable effect (80 % power)"
ALL = "all"
NO_PREDICTIONS = "no predictions"
OTHER_LANGUAGES = "other languages"
LEFT = "not aligned, and left as it is"
"""Why a value of a language is not compared that readouts were not fitted for."""
_NEUTRAL = Measured.undeclared("")
_OWN = ("margin", "detectable", "at_chance", "falls_far", "outdated")


@dataclass(frozen=True)
class Compared:
    """A value of a table, compared with a baseline where there is one.

    The verdict follows from `p_adjusted`: `not after correction` where the p-value of the
    comparison by itself is below the level of significance, and the adjusted one is not; `no
    difference` where the interval lies within plus and minus `margin`; `=` where both are equal by
    construction, or in each example of each run, which is not a test.
    """

    cell: Cell
    name: Name
    value: Value
    interval: Interval | None = None
    baseline: Cell | None = None
    comparison: Comparison | None = None
    p_adjusted: float | None = None  # by Holm, over the table's comparisons (task, metric, split)
    verdict: Verdict | None = None
    margin: float | None = None  # the smallest difference that the user cares about
    over_languages: LanguageSample | None = None  # a mean's difference for languages like these
    untested: str = ""  # why there is no interval or no test
    at_chance: bool = False  # whether the interval of a classifier holds `guessing`
    guessing: float | None = None  # what guessing gets
    outdated: str = ""  # why the value is under readouts that the task's training has outdated
    stays: bool = False  # whether the method leaves the metric as it is, whatever it finds
    measured: Measured = _NEUTRAL  # what is declared of the metric
    earlier: tuple[EarlierLook, ...] = ()  # the looks at it before, for which p is corrected

    FIELDS: ClassVar = (
        *("cell", "method", "params", "encoder", "sentences", "task", "lang", "metric", "split"),
        *("better", "unit", "value", "low", "high", "runs", "examples"),
        *("baseline", "baseline_value", "baseline_runs"),
        *("difference", "difference_low", "difference_high", "p", "p_adjusted", "paired"),
        *("verdict", "look", "margin", "detectable", "reason", "at_chance", "falls_far"),
        *("outdated", "unseen"),
        *("languages_low", "languages_high", "languages_p", "languages_reason"),
    )
    """The columns of its row."""

    @property
    def table(self) -> tuple[str, str, str]:
        """Its table: (task, metric, split)."""
        return (self.name[0], self.name[2], self.name[3])

    @property
    def baseline_value(self) -> Value | None:
        """The value of the baseline."""
        return self.baseline.values[self.name] if self.baseline is not None else None

    @property
    def difference(self) -> float | None:
        """The difference to the baseline, tested or not. It is None without a baseline, and for
        means over other languages, which are never subtracted.
        """
        if self.comparison is not None:
            return self.comparison.difference
        against = self.baseline_value
        if against is None or self.untested == OTHER_LANGUAGES:
            return None
        return self.value.mean - against.mean

    @cached_property
    def detectable(self) -> float | None:
        """The minimum detectable effect: the smallest true difference that four of five such
        comparisons call real, from the spread of this one; None where nothing is tested, and where
        fewer than five runs of a side say too little of it.
        """
        return self.detectable_among(1)

    def detectable_among(self, count: int) -> float | None:
        """Return the minimum detectable effect of one of so many comparisons that Holm's correction
        is over, where none of the others is significant.
        """
        spread = self.comparison.spread if self.comparison is not None and self.tested else None
        return Design.detectable(spread, count) if spread is not None else None

    def at_look(self, p: float) -> float:
        """Return a p-value of this comparison, corrected for the earlier looks at it."""
        return at_look(p, 1 + len(self.earlier))

    @property
    def says(self) -> str:
        """The verdict in words, with the difference that was or would have been seen."""
        scale = self.measured.scale
        if self.verdict == "no difference" and self.margin is not None:
            return f"no difference above {scale * self.margin:g}"
        if self.verdict == "cannot tell" and self.detectable:
            low, high = self.measured.limits
            if self.detectable > high - low:
                return "cannot tell (too few runs and examples)"
            return f"cannot tell (MDE {scale * self.detectable:.2g})"
        return self.verdict or ""

    @property
    def is_significant(self) -> bool:
        """Whether it is better or worse than its baseline."""
        return self.verdict in ("better", "worse")

    @property
    def falls_far(self) -> bool:
        """Whether it is less than half of its baseline, and significantly so where it is tested.
        Only metrics that begin at 0 and of which more is better fall, and no shares near the floor.
        """
        against = self.baseline_value
        if against is None or self.difference is None:
            return False
        near = self.measured.unit == "share" and against.mean < FLOOR
        if near or self.measured.better != "higher" or self.measured.limits[0] != 0:
            return False
        return self.value.mean < against.mean / 2 and (self.verdict == "worse" or not self.tested)

    @property
    def tested(self) -> bool:
        """Whether the difference to the baseline has a p-value, and is not 0 throughout (`=`)."""
        known = self.comparison is not None and self.comparison.p is not None
        return known and self.verdict != "="

    def row(self, plan: Plan) -> dict[str, Any]:
        """Return it as a row for programs (`FIELDS`); None for what there is not. `examples` are
        clusters that are taken for independent; `reason` says why nothing was tested.
        """
        cell, found, around, base = self.cell, self.comparison, self.interval, self.baseline
        own, sample = ("method", "params", "encoder", "sentences"), self.over_languages
        examples, against = found or around, self.baseline_value
        row = {
            "cell": plan.cell_name(cell),
            **{name: getattr(cell, name) for name in own},
            **dict(zip(("task", "lang", "metric", "split"), self.name, strict=True)),
            "better": self.measured.better,
            "unit": self.measured.unit,
            "value": self.value.mean,
            **{end: getattr(around, end, None) for end in ("low", "high")},
            "runs": self.value.n,
            "examples": examples and examples.examples,
            "baseline": base and plan.cell_name(base),
            "baseline_value": against and against.mean,
            "baseline_runs": against and against.n,
            "difference": self.difference,
            **{f"difference_{end}": getattr(found, end, None) for end in ("low", "high")},
            "p": found and found.p,
            "p_adjusted": self.p_adjusted,
            "paired": found and found.paired,
            "verdict": self.verdict,
            "look": 1 + len(self.earlier) if self.tested else None,
            "reason": self.untested,
            "unseen": self.name[1] in cell.unseen or self.name[1] == "avg_unseen",
            **{name: getattr(self, name) for name in _OWN},
            **{f"languages_{n}": getattr(sample, n, None) for n in ("low", "high", "p")},
            "languages_reason": sample.untested if sample else "",
        }
        return {**row, "params": dict(cell.params)}

    def remarks(self, unit: NumberFormat) -> Iterator[str]:
        """Yield what must be said of the value under its table, in its unit."""
        why = f"{self.untested}{_WHY.get(self.untested, '')}."
        based = self.baseline is not None
        if self.interval is None and self.untested and (based or self.untested != NO_PREDICTIONS):
            yield f"No interval and no test: {why}"
        if self.stays:
            yield (
                "Not a result: the method moves each language as a whole, which leaves this measure"
                " as it is; this is the value of the original encoder."
            )
        if self.untested == LEFT:
            yield "Not aligned, and left as it is by the method: this is the value of the baseline."
        elif self.cell.set and self.name[1] in self.cell.unseen:
            yield "Not aligned: the language is not in the set."
        if self.interval is not None and self.untested in _WHY:
            yield f"No test: for the baseline, {why}"
        if self.verdict == "=" and not self.stays:
            yield "Equal in each example of each run (=): no test."
        if self.earlier:
            yield f"{_look_text(self.earlier)}."
        if self.verdict == "not after correction":
            yield f"Not after correction. {ONE_BY_ONE}"
        if self.untested == OTHER_LANGUAGES:
            yield "Not compared: the baseline's mean is over other languages."
        if self.at_chance and self.guessing is not None:
            guessing = unit.show(self.guessing)
            yield f"At chance: its interval contains {guessing}, the value of guessing."
        if self.falls_far and self.baseline is not None:
            yield (
                f"Falls far below the baseline {self.baseline.method}: to less than half of its"
                f" value{'' if self.tested else ', untested'}."
            )
        if self.outdated:
            yield (
                "Under stale post-hoc maps, fitted before the task's training run, which changes"
                f" the encoder: {self.outdated}."
            )


def baseline_cells(cells: Sequence[Cell], plan: Plan) -> list[Cell]:
    """Return the cells of the encoders as they were: those whose method changes nothing."""
    kinds = {trial.method: trial.kind for trial in plan.trials}
    known = catalog("methods")
    named = [(cell, kinds.get(cell.method, cell.method)) for cell in cells]
    return [cell for cell, kind in named if kind in known and known[kind].is_baseline]


def comparisons(
    cells: Sequence[Cell],
    plan: Plan,
    ledger: Ledger | None,
    *,
    baseline: str | None = None,
    tables: Collection[tuple[str, str, str]] | None = None,
    equivalence: float | None = None,
) -> list[Compared]:
    """Compare all values of the grid's tables, task by task and cell by cell; those of metrics
    without a better direction are not compared.

    Args:
        cells: All cells of the grid, since the correction is over whole tables.
        plan: Its plan.
        ledger: Where the predictions are, without which nothing is tested, and the looks.
        baseline: A name as `cell_name` writes it, of a cell with the same encoder and number of
            sentences. By default the cell with the same encoder whose method leaves it as it is.
            `all` compares every two such cells, each pair once, with the correction over all.
        tables: The tables (task, metric, split) to compare (None: all).
        equivalence: The smallest difference that matters, in points of shares and in the unit of
            other metrics; `no difference` is said where an interval lies within it (None: never).

    Raises:
        RaxalignError: No cell has the name, or several different ones have it.
    """
    entries = plan.tables_of(name for cell in cells for name in cell.values)
    entries = [entry for entry in entries if tables is None or entry in tables]
    found: list[Compared] = []
    for task in dict.fromkeys(entry[0] for entry in entries):
        of_task = {entry for entry in entries if entry[0] == task}
        guessing = plan.guessing(task)
        reader = _Task(plan, Predictions(plan, ledger), of_task, guessing)
        if baseline == ALL and not any(cell.method == ALL for cell in cells):
            found += reader.of_all_pairs(cells)
        else:
            found += reader.compared(cells, _chosen(cells, plan, baseline))
    return _adjusted(_looked(found, plan, ledger), equivalence)


def fallen(cells: Sequence[Cell], plan: Plan) -> list[Compared]:
    """Return the values of single languages that are less than half of those of the baseline. No
    predictions are read: nothing is tested.
    """
    tables = set(plan.tables_of(name for cell in cells for name in cell.values))
    by_cell = {id(cell): cell for cell in cells}
    found = (
        Compared(by_cell[at], name, value, baseline=base, measured=plan.measured(name[0], name[2]))
        for at, base in _chosen(cells, plan, None).items()
        for name, value in by_cell[at].values.items()
        if name in base.values and (name[0], name[2], name[3]) in tables and name[1] not in MEANS
    )
    return [entry for entry in found if entry.falls_far]


@dataclass
class _Task:
    """The tables of one task. The runs of baselines alone are kept in memory."""

    plan: Plan
    predictions: Predictions
    tables: set[tuple[str, str, str]]
    guessing: float | None
    kept: dict[int, dict[Name, Runs]] = field(default_factory=dict)

    def compared(self, cells: Sequence[Cell], baselines: Mapping[int, Cell]) -> list[Compared]:
        """Compare the values of all cells. `baselines` are by the id of the cell."""
        found: list[Compared] = []
        for cell in cells:
            names = self._names(cell)
            if not names:
                continue
            base = baselines.get(id(cell)) if any(map(self._competes, names)) else None
            if base is not None and id(base) not in self.kept:
                self.kept[id(base)] = self.predictions.runs(base, self._names(base))
            runs = self.kept.get(id(cell)) or self.predictions.runs(cell, names)
            against = base if base is not cell else None
            found += [
                self._one(cell, name, runs, against if self._competes(name) else None)
                for name in names
            ]
        return found

    def of_all_pairs(self, cells: Sequence[Cell]) -> list[Compared]:
        """Compare each cell with every earlier one of its encoder and number of sentences."""
        found: list[Compared] = []
        for cell in cells:
            self.kept[id(cell)] = self.predictions.runs(cell, self._names(cell))
        for place, base in enumerate(cells):
            later = [
                cell
                for cell in cells[place + 1 :]
                if cell.encoder == base.encoder
                and (cell.sentences == base.sentences or None in (cell.sentences, base.sentences))
            ]
            pairs = self.compared(later, {id(cell): base for cell in later})
            found += [entry for entry in pairs if entry.baseline is not None]
        return found

    def _competes(self, name: Name) -> bool:
        """Whether values of a metric are compared: its declaration says which are better."""
        return self.plan.measured(name[0], name[2]).better != "neither"

    def _names(self, cell: Cell) -> list[Name]:
        """The names of a cell's values in these tables, languages as the grid has them."""
        names = [name for name in cell.values if (name[0], name[2], name[3]) in self.tables]
        order = self.plan.ordered({name[1] for name in names})
        return sorted(names, key=lambda name: order.index(name[1]))

    def _one(
        self,
        cell: Cell,
        name: Name,
        runs: Mapping[Name, Runs],
        base: Cell | None,
    ) -> Compared:
        """Compare one value of a cell, from its runs and those of the baseline."""
        base = base if base is not None and name in base.values else None
        sides = [(one, name) for one in (cell, base) if one]
        apart = Cell.shared(sides, self.plan.pivot) is not None  # means over other languages
        trial, home = self._trial(cell), self.plan.home_of(name[0])
        equal: Verdict = "=" if base and self._equal(cell, base, name) else "cannot tell"
        found = Compared(
            cell,
            name,
            cell.values[name],
            baseline=base,
            verdict=None if base is None or apart else equal,
            untested=OTHER_LANGUAGES if apart else NO_PREDICTIONS,
            outdated=trial.outdated_in(*name[:2], home) if trial is not None else "",
            stays=trial is not None and self.plan.stays(trial, name[0], name[2], None),
            measured=self.plan.measured(name[0], name[2]),
        )
        own = runs.get(name)
        if own is None:
            return found
        found = self._with_interval(found, own)
        if base is None:
            return found
        if apart:
            return replace(found, untested=OTHER_LANGUAGES)
        same = cell.by_seed.get(name) == base.by_seed.get(name) and cell.by_seed.get(name)
        if same and self._leaves(cell, name) and self._leaves(base, name):
            return replace(found, baseline=None, verdict=None, untested=LEFT)
        other = self.kept[id(base)].get(name)
        if other is None:
            return replace(found, untested=NO_PREDICTIONS)
        found = self._tested(found, base, own, other)
        return self._over_languages(found, runs, self.kept[id(base)])

    def _trial(self, cell: Cell) -> Trial | None:
        """The first trial of a cell that is in the plan."""
        return next(filter(None, map(self.plan.by_key.get, cell.trials)), None)

    def _leaves(self, cell: Cell, name: Name) -> bool:
        """Whether the method of a cell changes nothing of a language, or of those of a mean."""
        trial, unseen = self._trial(cell), name[1] in cell.unseen or name[1] == "avg_unseen"
        return trial is not None and self.plan.leaves(trial, unseen=unseen)

    def _equal(self, cell: Cell, base: Cell, name: Name) -> bool:
        """Whether values are equal by construction: they come from the same evaluations, or neither
        method changes what the metric measures.
        """

        def kept(one: Cell) -> bool:
            trial = self._trial(one)
            return trial is not None and (
                self.plan.stays(trial, name[0], name[2], None)
                or self.plan.leaves(trial, unseen=False)
            )

        same = _evaluations(cell, name) == _evaluations(base, name) != set()
        return same or (kept(cell) and kept(base))

    def _with_interval(self, found: Compared, own: Runs) -> Compared:
        """Add the interval of a value, and whether it holds what guessing gets."""
        around = Interval.of(own)
        reason = Runs.ONE_EXAMPLE if own.testable else Runs.ONE_RUN
        found = replace(found, interval=around, untested="" if around else reason)
        main = self.plan.main_metric(found.name[0])
        if self.guessing is None or found.name[2] != main:
            return found
        widest = around or Interval.of(own, examples_alone=True)
        at_chance = widest is not None and widest.holds(self.guessing)
        return replace(found, guessing=self.guessing, at_chance=at_chance)

    def _tested(self, found: Compared, base: Cell, own: Runs, other: Runs) -> Compared:
        """Add the test against the baseline."""
        paired = self.predictions.pairs_up(base, found.cell, found.name)
        compared = Comparison.of(other, own, paired=paired)
        verdict: Verdict | None = "=" if compared.is_zero else found.verdict
        return replace(found, comparison=compared, untested=compared.untested, verdict=verdict)

    def _over_languages(
        self, found: Compared, runs: Mapping[Name, Runs], others: Mapping[Name, Runs]
    ) -> Compared:
        """Add the difference of a mean over languages for languages like these."""
        task, mean, metric, split = found.name
        test = found.comparison
        if mean not in MEANS or test is None:
            return found
        langs = found.cell.languages_of(found.name, self.plan.pivot)
        parts = [(task, lang, metric, split) for lang in langs]
        own, other = [runs[part] for part in parts], [others[part] for part in parts]
        return replace(found, over_languages=LanguageSample.of(other, own, paired=test.paired))


def _evaluations(cell: Cell, name: Name) -> set[str]:
    """The evaluations behind a cell's values in the table of a name."""
    table = (name[0], *name[2:])
    several = [by for own, by in cell.evaluations.items() if (own[0], *own[2:]) == table]
    return {key for by_seed in several for keys in by_seed.values() for key in keys}


def _looked(found: list[Compared], plan: Plan, ledger: Ledger | None) -> list[Compared]:
    """Add the earlier looks at each comparison of two cells in a table, and record this one. What
    was looked at is named by the two cells, whichever is the baseline, and by the table; a metric
    that the grid adds, by its kind and its options too. A row has the looks at its languages.
    """
    if ledger is None or ledger.looks is None:
        return found
    names, tested = dict[tuple[object, ...], str](), dict[str, tuple[str, int, list[str]]]()
    pairs = [(id(e.cell), id(e.baseline), *e.table) for e in found]
    for entry, pair in zip(found, pairs, strict=True):
        test, base = entry.comparison, entry.baseline
        if pair in names or not entry.tested or test is None or base is None:
            continue
        sides = sorted([entry.cell.key, base.key])
        added = Added.marks(plan.metrics, entry.name[0], entry.name[2])
        names[pair] = name = digest([*sides, *pair[2:], *added])
        keys = _evaluations(entry.cell, entry.name) | _evaluations(base, entry.name)
        langs = {n[1] for n in entry.cell.values if (n[0], *n[2:]) == entry.table} - {*MEANS}
        tested[name] = (digest(sorted(keys)), max(test.runs, test.baseline_runs), sorted(langs))
    before, looked = ledger.looks.take(tested), list(found)
    for index, (entry, pair) in enumerate(zip(found, pairs, strict=True)):
        if entry.tested and pair in names:
            of = {*entry.cell.languages_of(entry.name, plan.pivot)}
            shared = (e for e in before[names[pair]] if e.languages is None or e.languages & of)
            looked[index] = replace(entry, earlier=tuple(shared))
    return looked


def _adjusted(found: Sequence[Compared], equivalence: float | None) -> list[Compared]:
    """Add the corrections for earlier looks, and Holm's over the comparisons of each table, and the
    verdicts that follow.
    """
    families: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for index, entry in enumerate(found):
        if entry.tested:
            families[entry.name[0], *entry.name[2:]].append(index)
    judged = list(found)
    for family in families.values():
        scale = found[family[0]].measured.scale
        margin = None if equivalence is None else equivalence / scale
        alone = [_p(found[index]) for index in family]
        looked = [found[index].at_look(p) for index, p in zip(family, alone, strict=True)]
        for index, p, adjusted in zip(family, alone, holm(looked), strict=True):
            verdict: Verdict = "not after correction" if p < LEVEL else "cannot tell"
            if adjusted < LEVEL:
                up = (found[index].difference or 0.0) * found[index].measured.sign > 0
                verdict = "better" if up else "worse"
            elif (test := found[index].comparison) and lies_within(test.low, test.high, margin):
                verdict = "no difference"
            judged[index] = replace(
                found[index], p_adjusted=adjusted, verdict=verdict, margin=margin
            )
    return judged


def _p(entry: Compared) -> float:
    known = entry.comparison.p if entry.comparison is not None else None
    return 1.0 if known is None else known


def _chosen(cells: Sequence[Cell], plan: Plan, wanted: str | None) -> dict[int, Cell]:
    """Return the baseline of each cell that has one, by the cell's id."""
    candidates = baseline_cells(cells, plan) if wanted is None else _named(cells, plan, wanted)
    found = {}
    for cell in cells:
        same = [other for other in candidates if other.encoder == cell.encoder]
        there = [other for other in same if other.sentences in (None, cell.sentences)]
        if not there and len(same) == 1 and cell.sentences is None:
            there = same
        of_set = [other for other in there if other.set == cell.set]
        # the own set has the baseline, unless another one is named
        there = of_set if of_set or wanted is None else there
        if there:
            found[id(cell)] = there[0]
    return found


def _named(cells: Sequence[Cell], plan: Plan, wanted: str) -> list[Cell]:
    """Return the cells that the name of a baseline means; there has to be one."""
    found = named_cells(cells, plan, wanted, "--compare")
    if not found:
        known = ", ".join(dict.fromkeys(plan.cell_name(cell) for cell in cells))
        raise RaxalignError(f"--compare: no result is called {wanted!r}; there are: {known}")
    return found


def named_cells(cells: Sequence[Cell], plan: Plan, wanted: str, where: str) -> list[Cell]:
    """Return the cells that a name means: the whole name, or a method with one point.

    Raises:
        RaxalignError: several different cells have the name; the message begins with `where`.
    """
    asked = " ".join(wanted.split()).casefold().replace("λ", "lambda").replace("α", "alpha")
    whole = [cell for cell in cells if plan.cell_name(cell).casefold() == asked]
    found = whole or [cell for cell in cells if cell.method.casefold() == asked]
    names = list(dict.fromkeys(plan.cell_name(cell) for cell in found))
    if len({plan.name_without_set(cell) for cell in found}) > 1:
        raise RaxalignError(
            f"{where}: {wanted!r} may mean any of: {', '.join(names)}; name one of them"
        )
    return found


_ORDER = ("first", "second", "third", "fourth", "fifth", "sixth")
_WHY = {
    Runs.ONE_RUN: "; a result that depends on the seed needs at least two",
    NO_PREDICTIONS: " are stored from which the value could be computed",
}


def _look_text(earlier: Sequence[EarlierLook], of: str = "this comparison") -> str:
    """Return which look at comparisons this is, and when the ones before were."""
    before = (
        f"the {ordinal(number)} with {counted(look.runs, 'run')}, {look.when[:10]}"
        for number, look in enumerate(earlier)
    )
    told = f"{ordinal(len(earlier))} look at {of} ({', '.join(before)})"
    return f"{told[0].upper()}{told[1:]}: p-values are corrected for it"


def look_lines(entries: Sequence[Compared], plan: Plan) -> Iterator[str]:
    """Yield a line per number of earlier looks that some comparisons of a table have."""
    tested = [entry for entry in entries if entry.tested]
    for earlier in dict.fromkeys(entry.earlier for entry in tested if entry.earlier):
        alike = [entry.cell for entry in tested if entry.earlier == earlier]
        names = dict.fromkeys(plan.cell_name(cell) for cell in alike)
        yield _look_text(
            earlier, "these comparisons" if len(alike) == len(tested) else ", ".join(names)
        )


def ordinal(number: int) -> str:
    """Return a number from 0 as the place of a look: ``first``."""
    return _ORDER[number] if number < len(_ORDER) else f"{number + 1}th"
