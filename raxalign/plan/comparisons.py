"""Every value of a grid's tables with its interval, and its difference to a baseline: read from a
ledger, tested, corrected, judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from raxalign.analysis.cells import MEANS, Cell, Name, Value, languages_of, tables_of
from raxalign.analysis.metrics import less_is_better
from raxalign.catalog import catalog
from raxalign.errors import RaxalignError
from raxalign.plan.predictions import Predictions

if TYPE_CHECKING:
    from raxalign.analysis.runs import Runs
    from raxalign.analysis.significance import Comparison, Interval
    from raxalign.plan.plan import Plan
    from raxalign.store.ledger import Ledger

Verdict = Literal["better", "worse", "cannot tell"]
NO_PREDICTIONS = "no predictions"
OTHER_LANGUAGES = "other languages"


@dataclass(frozen=True)
class Compared:
    """A value of a table: `interval` over runs and examples, and where there is a `baseline`, the
    difference to it.

    `p_adjusted` is Holm's over all comparisons of the value's table (task, metric and split).
    `untested` says why there is no interval or no test, and is empty where there is. `at_chance`
    marks a classifier whose interval holds what guessing gets (`guessing`).
    """

    cell: Cell
    name: Name
    value: Value
    interval: Interval | None = None
    baseline: Cell | None = None
    comparison: Comparison | None = None
    p_adjusted: float | None = None
    verdict: Verdict | None = None
    untested: str = ""
    at_chance: bool = False
    guessing: float | None = None

    @property
    def baseline_value(self) -> Value | None:
        """What the value is compared with."""
        return self.baseline.values[self.name] if self.baseline is not None else None

    @property
    def difference(self) -> float | None:
        """To the baseline, whether or not it is tested; None without one, and for means over other
        languages.
        """
        if self.comparison is not None:
            return self.comparison.difference
        against = self.baseline_value
        return (
            None
            if against is None or self.untested == OTHER_LANGUAGES
            else self.value.mean - against.mean
        )

    @property
    def falls_far(self) -> bool:
        """Whether it is significantly worse, and less than half of its baseline."""
        against = self.baseline_value
        return (
            self.verdict == "worse" and against is not None and self.value.mean < against.mean / 2
        )  # never so where less is better


def cell_name(cell: Cell, plan: Plan) -> str:
    """The method of a cell with the params that vary in the grid, as `results` prints it:
    ``rotation center=true``.
    """
    return " ".join(
        [
            cell.method,
            *(
                f"{axis}={plain(cell.params[axis])}"
                for axis in plan.axes.get(cell.method, ())
                if axis in cell.params
            ),
        ]
    )


def comparisons(
    cells: Sequence[Cell], plan: Plan, ledger: Ledger | None, *, baseline: str | None = None
) -> list[Compared]:
    """All values of the grid's tables, task by task and cell by cell, with what can be said of
    them.

    The baseline of a cell is the one of kind `none` with the same encoder; or that which `baseline`
    names as `cell_name` does, with the same encoder and number of sentences. Raises RaxalignError
    for a name that no cell or several different ones have. Values of tasks where more is not better
    are not compared.
    """
    chosen = _chosen(cells, plan, baseline)
    entries = tables_of(name for cell in cells for name in cell.values)
    found: list[Compared] = []
    for task in dict.fromkeys(entry[0] for entry in entries):
        of_task = {entry for entry in entries if entry[0] == task}
        kind = _kind(plan, task)
        found += _Task(plan, Predictions(plan, ledger), of_task, *kind).compared(cells, chosen)
    return _adjusted(found, plan)


@dataclass
class _Task:
    """The tables of one task: what is read of a baseline is kept, what is read of other cells is
    let go.
    """

    plan: Plan
    predictions: Predictions
    tables: set[tuple[str, str, str]]
    competes: bool
    guessing: float | None
    main_metric: str | None

    def compared(self, cells: Sequence[Cell], baselines: Mapping[int, Cell]) -> list[Compared]:
        kept: dict[int, dict[Name, Runs]] = {}
        found: list[Compared] = []
        for cell in cells:
            names = self._names(cell)
            if not names:
                continue
            base = baselines.get(id(cell)) if any(map(self._competes, names)) else None
            if base is not None and id(base) not in kept:
                kept[id(base)] = self.predictions.runs(base, self._names(base))
            runs = kept[id(cell)] if id(cell) in kept else self.predictions.runs(cell, names)
            against = base if base is not cell else None
            found += [
                self._one(cell, name, runs, against if self._competes(name) else None, kept)
                for name in names
            ]
        return found

    def _competes(self, name: Name) -> bool:
        """Whether values of a metric are compared: an added one says itself which are better."""
        return self.competes or bool(self.plan.added(name[0], name[2]))

    def _names(self, cell: Cell) -> list[Name]:
        return [name for name in cell.values if (name[0], name[2], name[3]) in self.tables]

    def _one(
        self,
        cell: Cell,
        name: Name,
        runs: Mapping[Name, Runs],
        base: Cell | None,
        kept: Mapping[int, Mapping[Name, Runs]],
    ) -> Compared:
        from raxalign.analysis.significance import ONE_EXAMPLE, ONE_RUN, compare, interval

        base = base if base is not None and name in base.values else None
        own = runs.get(name)
        found = Compared(
            cell,
            name,
            cell.values[name],
            baseline=base,
            verdict="cannot tell" if base is not None else None,
            untested=NO_PREDICTIONS,
        )
        if own is None:
            return found
        around = interval(own)
        found = replace(
            found,
            interval=around,
            untested="" if around else (ONE_EXAMPLE if own.testable else ONE_RUN),
        )
        if self.guessing is not None and name[2] == self.main_metric:
            widest = around or interval(own, examples_alone=True)
            found = replace(
                found,
                guessing=self.guessing,
                at_chance=widest is not None and widest.holds(self.guessing),
            )
        if base is None:
            return found
        other = kept[id(base)].get(name)
        if other is None:
            return replace(found, untested=NO_PREDICTIONS)
        if name[1] in MEANS and {*languages_of(base, name, self.plan.pivot)} != {
            *languages_of(cell, name, self.plan.pivot)
        }:
            return replace(found, untested=OTHER_LANGUAGES)
        compared = compare(other, own, paired=self.predictions.pairs_up(base, cell, name))
        return replace(found, comparison=compared, untested=compared.untested)


def _kind(plan: Plan, task: str) -> tuple[bool, float | None, str | None]:
    """Of a task of a grid: whether more is better, what guessing gets, and its main metric."""
    keys = (trial.evaluations[task] for trial in plan.trials if task in trial.evaluations)
    maker = next((plan.stages[key].maker for key in keys if key in plan.stages), task)
    if maker not in catalog("tasks"):
        return True, None, None
    kind = catalog("tasks")[maker]
    return kind.competes, kind.guessing, kind.main_metric


def _adjusted(found: Sequence[Compared], plan: Plan) -> list[Compared]:
    """With Holm's correction over the comparisons of each table, and the verdicts that follow."""
    from raxalign.analysis.significance import LEVEL, holm

    families: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for index, entry in enumerate(found):
        if entry.comparison is not None and entry.comparison.p is not None:
            families[entry.name[0], *entry.name[2:]].append(index)
    judged = list(found)
    for family in families.values():
        for index, adjusted in zip(
            family, holm([_p(found[index]) for index in family]), strict=True
        ):
            comparison = found[index].comparison
            assert comparison is not None
            up = (comparison.difference > 0) != _less_is_better(found[index].name, plan)
            verdict: Verdict = "cannot tell" if adjusted >= LEVEL else "better" if up else "worse"
            judged[index] = replace(found[index], p_adjusted=adjusted, verdict=verdict)
    return judged


def _less_is_better(name: Name, plan: Plan) -> bool:
    """Whether smaller values of a metric are better, as an added one declares or a name says."""
    added = plan.added(name[0], name[2])
    return added[0].metric.better == "lower" if added else less_is_better(name[2])


def _p(entry: Compared) -> float:
    return (
        entry.comparison.p
        if entry.comparison is not None and entry.comparison.p is not None
        else 1.0
    )


def _chosen(cells: Sequence[Cell], plan: Plan, wanted: str | None) -> dict[int, Cell]:
    """The baseline of each cell that has one, by the cell's id."""
    if wanted is None:
        kinds = {trial.method: trial.kind for trial in plan.trials}
        candidates = [cell for cell in cells if kinds.get(cell.method, cell.method) == "none"]
    else:
        candidates = _named(cells, plan, wanted)
    found = {}
    for cell in cells:
        there = [
            other
            for other in candidates
            if other.encoder == cell.encoder and other.sentences in (None, cell.sentences)
        ]
        if not there:
            sizes = [other for other in candidates if other.encoder == cell.encoder]
            there = sizes if len(sizes) == 1 and cell.sentences is None else []
        if there:
            found[id(cell)] = there[0]
    return found


def _named(cells: Sequence[Cell], plan: Plan, wanted: str) -> list[Cell]:
    """The cells that a name means: the whole name, or a method that has but one point."""
    asked = " ".join(wanted.split()).casefold().replace("λ", "lambda").replace("α", "alpha")
    whole = [cell for cell in cells if cell_name(cell, plan).casefold() == asked]
    found = whole or [cell for cell in cells if cell.method.casefold() == asked]
    names = list(dict.fromkeys(cell_name(cell, plan) for cell in found))
    if not found:
        known = ", ".join(dict.fromkeys(cell_name(cell, plan) for cell in cells))
        raise RaxalignError(f"--compare: no result is called {wanted!r}; there are: {known}")
    if len(names) > 1:
        raise RaxalignError(
            f"--compare: {wanted!r} may be any of: {', '.join(names)}; name one of them"
        )
    return found


def plain(value: object) -> str:
    """A param as a grid file has it, numbers without needless zeros: ``0.1``, ``false``, ``{blocks:
    1-6, embeddings: false}``.
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {plain(part)}' for name, part in value.items())}}}"
    return (
        f"{value:g}"
        if isinstance(value, float)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
