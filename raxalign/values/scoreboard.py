"""The scoreboard: what a grid's results are, which of them stand for what, and what they lack."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.catalog import catalog
from raxalign.errors import RaxalignError
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial, plain
from raxalign.measured import FEW, spoken
from raxalign.printing import are, counted
from raxalign.store.ledger import Ledger
from raxalign.values.comparisons import Compared, baseline_cells
from raxalign.values.numbers import NumberFormat

_OVER = {
    "contextual_accuracy": "contextual accuracy, pairs unseen in training",
    "contextual_accuracy_all": "contextual accuracy, all pairs",
    "noncontextual_accuracy": "non-contextual accuracy, pairs unseen in training",
    "noncontextual_accuracy_all": "non-contextual accuracy, all pairs",
}
_NAMED = 4  # kinds of trials that lack results; the others are counted


@dataclass(frozen=True)
class Lacking:
    """The trials of a plan that lack results: those that `failed` when they were last run, and the
    `missing` ones, which have not run to their end. What a search suggested is not among them: it
    may end early, and its test values are not shown.
    """

    plan: Plan
    failed: Sequence[Trial] = ()
    missing: Sequence[Trial] = ()

    @classmethod
    def of(cls, plan: Plan, there: AbstractSet[str], ledger: Ledger | None) -> Lacking:
        """Return what lacks a result, by the keys of the evaluations that are `there`."""
        asked = (t for t in plan.trials if t.searched is None or t.searched.confirmed)
        left = [trial for trial in asked if not there >= set(trial.evaluations.values())]
        failed = ledger.failures(t.run for t in left) if left and ledger is not None else {}
        missing = [trial for trial in left if trial.run not in failed]
        return cls(plan, [trial for trial in left if trial.run in failed], missing)

    def told(self, run: str = "raxalign grid FILE", see: str = "raxalign status FILE") -> str:
        """Return how many trials lack results, which, and what runs and shows them; nothing where
        all have results.
        """
        of, count = f"of {counted(len(self.plan.trials), 'trial')}", len(self.missing)
        lacks = f"{count:,} more {are(count)}" if self.failed else f"results of {count:,} {of} are"
        failed = "" if not see else f": {self._named(self.failed)}; see `{see}`"
        missing = "" if not run else f" ({self._named(self.missing)}): `{run}` runs them"
        said = [f"{len(self.failed):,} {of} failed{failed}."] if self.failed else []
        said += [f"{lacks} missing{missing}."] if self.missing else []
        return f"Unfinished: {' '.join(said)}" if said else ""

    @property
    def short(self) -> str:
        """What captions say of a grid that lacks results."""
        return self.told("", "")

    def _named(self, trials: Sequence[Trial]) -> str:
        """The widest names of which all trials are among these; of others, how many or which."""
        every, lacking = (
            Counter(name for trial in some for name in dict.fromkeys(self._names(trial)))
            for some in (self.plan.trials, trials)
        )
        found: dict[str, dict[str, None]] = {}
        for trial in trials:
            *names, last = self._names(trial)
            whole = next((name for name in names if lacking[name] == every[name]), None)
            some = f"{lacking[last]} of {every[last]}" * (lacking[last] < every[last])
            part = f"{last.removeprefix(names[-1])} {some}".strip() if whole is None else ""
            found.setdefault(whole or names[-1], {})[part] = None
        more = f"; {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        named = (f"{name} ({', '.join(parts)})" for name, parts in found.items())
        return "; ".join([name.removesuffix(" ()") for name in named][:_NAMED]) + more

    def _names(self, trial: Trial) -> tuple[str, ...]:
        """What a trial is one of, from the widest to the narrowest; languages that are not all of
        the grid's come last.
        """
        plan, method = self.plan, trial.method
        size = f" with {trial.sentences:,} pairs" if trial.sentences is not None else ""
        axes = (f" {name}={plain(of)}" for name, of in plan.varying(method, trial.params).items())
        where = f" on {trial.encoder}" if len(plan.encoders) > 1 else ""
        point = "".join([method, *axes, size, where])
        every = {*trial.languages, plan.pivot} >= {*plan.languages}
        return (
            method,
            f"{method}{size}",
            point,
            point + f" {'+'.join(trial.languages)}" * (not every),
        )


def why_uncompared(plan: Plan, cells: Sequence[Cell]) -> str:
    """Return why no cell of a table, or of a grid, is compared with a baseline: the grid has none,
    or what it has is not there yet; empty where both a baseline and others are there.
    """
    bases, known = baseline_cells(cells, plan), catalog("methods")
    kinds = {trial.method: trial.kind for trial in plan.trials}
    planned = [name for name, kind in kinds.items() if kind in known and known[kind].is_baseline]
    if not bases and planned:
        return f"the baseline {' and '.join(planned)} has no results yet"
    if not bases:
        return "the grid has no baseline (a method of kind none)"
    if len(bases) < len(cells):
        return ""
    if kinds.keys() > {base.method for base in bases}:
        return f"so far only the baseline {bases[0].method} has results"
    return f"the grid has no method besides its baseline {bases[0].method}"


TableKey = tuple[str, str, str]
"""(task, metric, split), which name a table."""
UNTOUCHED = "untouched"
"""What tables have in place of a number where the method changes nothing that the task reads."""


@dataclass(frozen=True)
class Scoreboard:
    """The one account of a grid's results: its cells, the trials that are `lacking`, and what is
    `compared` with a baseline. Terminal, report, LaTeX, model card and MLflow ask here which table
    stands for a task, by what cells are chosen, and what a test says. `kinds` and `tasks` map names
    to their kinds.
    """

    plan: Plan
    cells: Sequence[Cell]
    kinds: Mapping[str, str]
    tasks: Mapping[str, str]
    task_params: Mapping[str, Mapping[str, Any]]
    lacking: Lacking
    planned: int = 0
    done: int = 0
    seeds: tuple[int, ...] = ()
    compared: Sequence[Compared] = field(default=(), repr=False)
    _lines: dict[str, dict[str, list[Cell]]] = field(default_factory=dict, repr=False)
    _units: dict[tuple[str, str], NumberFormat] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, rows: Sequence[Mapping[str, Any]], plan: Plan, ledger: Ledger | None = None
    ) -> Scoreboard:
        """Group result rows; a name that the plan does not have is a kind itself. A `ledger` knows
        which trials failed.
        """
        kinds = {row["method"]: row["method"] for row in rows}
        kinds |= {trial.method: trial.kind for trial in plan.trials}
        params = {row["task"]: row["task_params"] or {} for row in rows}
        tasks = {name: name for name in params}
        wanted = [found for trial in plan.trials for found in trial.evaluations.items()]
        tasks |= {name: plan.stages[key].maker for name, key in wanted if key in plan.stages}
        there = {row["evaluation"] for row in rows}
        return cls(
            plan,
            [*Cell.grouped(rows, plan.pivot, plan.measured), *(_idle_cells(plan) if rows else ())],
            kinds,
            tasks,
            params,
            Lacking.of(plan, there, ledger),
            planned=len({key for _, key in wanted}),
            done=len(there),
            seeds=tuple(sorted({trial.seed for trial in plan.trials if trial.seed is not None})),
        )

    def tested(self, compared: Iterable[Compared]) -> Scoreboard:
        """Return the same results with what is compared of them."""
        return replace(self, compared=list(compared))

    @cached_property
    def several_encoders(self) -> bool:
        """Whether the cells are of more than one encoder."""
        return len({cell.encoder for cell in self.cells}) > 1

    @cached_property
    def unseen(self) -> frozenset[str]:
        """The languages that no method has aligned, as names have them; of sets those in none."""
        cells = [cell for cell in self.cells if cell.values]
        every = frozenset[str]().union(*(cell.unseen for cell in cells))
        return every.difference(
            *({name[1] for name in cell.values} - cell.unseen for cell in cells if cell.set)
        )

    @cached_property
    def names(self) -> tuple[Name, ...]:
        """Every name that some cell has a value of, in the order of first appearance."""
        return tuple(dict.fromkeys(name for cell in self.cells for name in cell.values))

    @cached_property
    def tables(self) -> tuple[TableKey, ...]:
        """What is worth a table: no counts, errors, directions or points of a sweep."""
        return tuple(self.plan.tables_of(self.names))

    @cached_property
    def by_table(self) -> Mapping[TableKey, tuple[str, ...]]:
        """(task, metric, split) -> its languages as tables show them (`ordered`)."""
        found: dict[TableKey, dict[str, None]] = {}
        for name in self.names:
            found.setdefault((name[0], name[2], name[3]), {})[name[1]] = None
        return {table: tuple(self.plan.ordered(langs)) for table, langs in found.items()}

    def names_of(self, table: TableKey) -> list[Name]:
        """Return the names of the values of a table, one per language."""
        task, metric, split = table
        return [(task, lang, metric, split) for lang in self.by_table[table]]

    def transferred(self, table: TableKey) -> list[str]:
        """Return the languages of a table without the one that is trained on and the means."""
        langs, home = self.by_table.get(table, ()), self.plan.home_of(table[0])
        return [lang for lang in langs if lang not in MEANS and lang != home]

    def line(self, cell: Cell, param: str) -> list[Cell]:
        """Return the cells that differ from a cell in nothing but a param, itself included, in
        ascending order of the param; none where the cell does not have it.
        """
        if param not in self._lines:
            lines = self._lines[param] = {}
            for other in self.cells:
                if param in other.params:
                    lines.setdefault(_rest(other, param), []).append(other)
            for cells in lines.values():
                cells.sort(key=lambda other: other.params[param])
        return self._lines[param].get(_rest(cell, param), []) if param in cell.params else []

    def of_kind(self, kind: str) -> str | None:
        """Return the grid's name of its first task of a kind, one that is trained on the pivot
        where there is such; None where it has none.
        """
        own = [name for name, found in self.tasks.items() if found == kind]
        return min(own, key=lambda name: self.plan.home_of(name) != self.plan.pivot, default=None)

    def split(self, task: str) -> str:
        """Return the split on which a task is shown: test, or dev where there is no test."""
        return next((split for name, _, split in self.tables if name == task), "test")

    def main_metric(self, task: str) -> str | None:
        """Return the metric by which a task is compared: what its plug-in calls its main one, where
        it is there, else the first of its tables.
        """
        there = list(dict.fromkeys(metric for t, metric, _ in self.tables if t == task))
        main = self.plan.main_metric(task)
        return main if main in there else next(iter(there), None)

    def unit(self, task: str, metric: str) -> NumberFormat:
        """Return the unit in which the values of a metric are shown, everywhere the same."""
        if (task, metric) not in self._units:
            values = (
                value.mean
                for cell in self.cells
                for name, value in cell.values.items()
                if (name[0], name[2]) == (task, metric)
            )
            self._units[task, metric] = NumberFormat.of(self.plan.measured(task, metric), values)
        return self._units[task, metric]

    def axis(self, task: str, metric: str) -> str:
        """Return the label of an axis of a metric, with a direction that readers may not expect."""
        lower = self.plan.measured(task, metric).better == "lower"
        percent = " (%)" if self.unit(task, metric).sign else ""
        return f"{_OVER.get(metric, spoken(metric))}{', lower is better' if lower else ''}{percent}"

    def few(self, table: TableKey) -> bool:
        """Return whether a table is over fewer than `FEW` pairs in every language."""
        task, metric, split = table
        counted = self.plan.count_of(task, metric)
        names = [(task, lang, counted, split) for lang in self.by_table[table]]
        counts = [
            cell.values[name].mean for cell in self.cells for name in names if name in cell.values
        ]
        return bool(counts) and max(counts) < FEW

    def leading(self, task: str) -> TableKey | None:
        """Return the table that stands for a task wherever one does: that of its main metric, or
        the first one over enough pairs; that of the main metric where every one is over too few.
        """
        own = [table for table in self.tables if table[0] == task]
        own = [table for table in own if not self.few(table)] or own
        main = [table for table in own if table[1] == self.main_metric(task)]
        return next(iter([*main, *own]), None)

    def leading_tables(self) -> list[TableKey]:
        """Return the leading table of each task, in the order of the grid; none where it is over
        too few pairs.
        """
        leading = filter(None, map(self.leading, self.tasks))
        return [table for table in leading if not self.few(table)]

    def compared_tables(self) -> list[TableKey]:
        """Return the leading table of each task, where it has comparisons."""
        there: dict[TableKey, set[str]] = {}
        for found in self.compared:
            if found.baseline is not None and found.baseline is not found.cell:
                there.setdefault(found.table, set()).add(found.name[1])
        tables = [table for table in self.leading_tables() if there.get(table)]
        # of a task for other languages, which are left as they are, the language trained on says 0
        alone = [t for t in tables if there[t] == {self.plan.home_of(t[0])} and self.transferred(t)]
        return [table for table in tables if table not in alone]

    def leader(self, table: TableKey) -> tuple[list[Cell], str, bool]:
        """Return the compared cells of a table, the one with the best mean on dev first; by which
        split that is, in words: the table's own where none has a mean on dev; and whether another
        one is as good on dev.
        """
        task, metric, split = table
        own = [found for found in self.select(table) if found.baseline is not None]
        cells = list({id(found.cell): found.cell for found in own}.values())
        ranks = [self.dev_of(cell, task, metric) for cell in cells]
        there = max(ranks) > -math.inf
        if not there:
            ranks = [self.dev_of(cell, task, metric, split) for cell in cells]
        tied = there and ranks.count(max(ranks)) > 1
        best = cells.pop(ranks.index(max(ranks)))
        over = self._over(task, metric, "dev" if there else split)
        return [best, *cells], f"dev{over}" if there else f"{split}{over} itself", tied

    def best_by(self, cells: Sequence[Cell], name: Name) -> Cell | None:
        """Return the cell with the best value of a name on dev, whatever its split is, the first of
        equals; None where none has one.
        """
        dev, sign = (*name[:3], "dev"), self.plan.measured(name[0], name[2]).sign
        there = [cell for cell in cells if dev in cell.values]
        return max(there, key=lambda cell: sign * cell.values[dev].mean, default=None)

    @cached_property
    def _found(self) -> Mapping[tuple[int, Name], Compared]:
        return {(id(entry.cell), entry.name): entry for entry in self.compared}

    @cached_property
    def baselines(self) -> list[Cell]:
        """The cells that others are compared with, each once."""
        bases = (entry.baseline for entry in self.compared)
        return list({id(base): base for base in bases if base is not None}.values())

    def select(self, table: TableKey, cell: Cell | None = None) -> list[Compared]:
        """Return what is compared of a table, or of a cell in it."""
        return [
            found
            for found in self.compared
            if found.table == table and (cell is None or found.cell is cell)
        ]

    def at(self, cell: Cell, name: Name | None) -> Compared | None:
        """Return the comparison of a value; None for a value that is in no table of the grid."""
        return self._found.get((id(cell), name)) if name is not None else None

    def mark(self, cell: Cell, name: Name | None) -> Literal["", "better", "worse"]:
        """Return what a test says; nothing where there was none, or where it cannot tell."""
        found = self.at(cell, name)
        if found is None or found.verdict not in ("better", "worse"):
            return ""
        return found.verdict

    def verdict(self, cell: Cell, name: Name) -> str:
        """Return what a test says of a value in words: `baseline`, `better`, `worse`, `equal`, `not
        significant` or `not tested`.
        """
        if any(cell is base for base in [*self.baselines, *baseline_cells(self.cells, self.plan)]):
            return "baseline"
        found, mark = self.at(cell, name), self.mark(cell, name)
        if found is not None and found.verdict == "=":
            return "equal"
        return mark or ("not significant" if found is not None and found.tested else "not tested")

    def interval(self, cell: Cell, name: Name | None) -> tuple[float, float] | None:
        """Return the 95 % interval of a value over runs and examples."""
        found = self.at(cell, name)
        if found is None or found.interval is None:
            return None
        return found.interval.low, found.interval.high

    def shown(self, cell: Cell, name: Name | None, unit: NumberFormat) -> str:
        """Return the interval of a value as tables show it, or nothing."""
        return unit.show_interval(*(self.interval(cell, name) or (None, None)))

    def ends(self, cell: Cell, name: Name | None, scale: float) -> tuple[float, float] | None:
        """Return the ends of a value's interval for a figure, multiplied by a scale."""
        around = self.interval(cell, name)
        return None if around is None else (scale * around[0], scale * around[1])

    def transfer_tasks(self) -> Iterator[tuple[str, str]]:
        """Yield the tasks whose languages are single ones (not pairs) with their main metrics."""
        for task in self.tasks:
            metric = self.main_metric(task)
            langs = self.by_table.get((task, metric or "", self.split(task)), ())
            pairs = ["-" in lang and lang not in self.plan.languages for lang in langs]
            if metric is not None and langs and not any(pairs):
                yield task, metric

    def single_languages(self, task: str, metric: str, cell: Cell) -> list[str]:
        """Return the languages of a cell's scores, without the means and the one trained on."""
        shown, left_out = (task, metric, self.split(task)), (*MEANS, self.plan.home_of(task))
        return [name[1] for name in cell.names_of(shown) if name[1] not in left_out]

    def baseline(self, task: str, metric: str) -> Cell | None:
        """Return the cell of the original encoder."""
        split = self.split(task)
        cells = baseline_cells(self.cells, self.plan)
        return next((cell for cell in cells if cell.mean(task, metric, split)), None)

    def measured_cells(self, task: str, metric: str) -> list[Cell]:
        """Return the cells that have a mean over languages, on the split that is shown."""
        split = self.split(task)
        return [c for c in self.cells if c.mean(task, metric, split) is not None]

    def representatives(self, task: str, metric: str) -> list[Cell]:
        """Return one cell per method: of its largest training set the one that dev chooses, without
        dev values the first; the baseline first. All are of one encoder, that of the baseline.
        """
        base = self.baseline(task, metric)
        there = self.measured_cells(task, metric)
        there = [cell for cell in there if cell.encoder == (base or there[0]).encoder]
        chosen: dict[str, Cell] = {base.method: base} if base is not None else {}
        ranks = {id(cell): (cell.sentences or 0, self.dev_of(cell, task, metric)) for cell in there}
        for cell in sorted(there, key=lambda cell: ranks[id(cell)], reverse=True):
            chosen.setdefault(cell.method, cell)  # of equals the first
        return sorted(chosen.values(), key=lambda cell: (cell is not base, self.colour_of(cell)))

    def named(self, cell: Cell) -> str:
        """Return the method of a cell with the params that vary: ``finetune λ=0.1``."""
        axes = [axis for axis in self.plan.axes.get(cell.method, ()) if axis in cell.params]
        values = (f"{self.symbol(axis)}={plain(cell.params[axis])}" for axis in axes)
        return " ".join([cell.method, *values, *self.plan.marks_of(cell)])

    def measured_by(self, cell: Cell, per_language: str | None = None) -> str:
        """Return the text under the name of a published row: the method, its params that vary,
        without the one that has a value per language, and the size of its training set.
        """
        size = f", {cell.sentences:,} pairs" if cell.sentences is not None else ""
        if per_language is None:
            return f"{self.named(cell)}{size}"
        rest = {name: value for name, value in cell.params.items() if name != per_language}
        name = self.named(replace(cell, params=rest))
        return f"{name}, {self.symbol(per_language)} per language{size}"

    @staticmethod
    def symbol(axis: str) -> str:
        """Return a param's Greek letter, or its name where it has none.

        >>> Scoreboard.symbol("lambda"), Scoreboard.symbol("strength")
        ('λ', 'strength')
        """
        return {"lambda": "λ", "alpha": "α"}.get(axis, axis)

    def column(self, lang: str) -> str:
        """Return the heading of a language's column, or of a mean's."""
        return f"{lang}, unseen" if lang in self.unseen else MEANS.get(lang, lang)

    def runs(self, table: TableKey, cells: Iterable[Cell]) -> list[int]:
        """Return the numbers of training runs, ascending, behind the values of some cells in a
        table; none where all are the same for every seed.
        """
        counts = {cell.runs_of(name) for cell in cells for name in cell.names_of(table)}
        return sorted(counts - {0})

    def basis(self, task: str, cells: Iterable[Cell], metric: str | None = None) -> str:
        """Return what the values of some cells by a metric (None: the main one) of a task stand
        on: ``pos, phrasebook test set, 5 training runs``.
        """
        split = self.split(task)
        runs = self.runs((task, metric or self.main_metric(task) or "", split), cells)
        data = self.task_params.get(task, {}).get("data")
        named = f"{data} " if isinstance(data, str) and data != "hub" else ""
        facts = [task, f"{named}{split} set"]
        if runs:
            several = f"{runs[0]} to " if len(runs) > 1 else ""
            one = " (one seed)" if runs == [1] else ""
            facts.append(f"{several}{counted(runs[-1], 'training run')}{one}")
        return ", ".join(facts)

    def titled(self, task: str) -> str:
        """Return a task's name, marked where its values are those of the dev set."""
        return task if self.split(task) == "test" else f"{task} (dev set)"

    def colour_of(self, cell: Cell) -> int:
        """Return one colour per method, the same in every cloud."""
        return list(self.kinds).index(cell.method)

    def points_of_methods(self, task: str) -> list[list[Cell]]:
        """Return the cells of each method, encoder and number of sentences that have values of a
        task on dev and test, the best on dev first; none where no direction of its main metric is
        better.
        """
        metric = self.main_metric(task) or ""
        groups: dict[tuple[str, str, int | None], list[Cell]] = defaultdict(list)
        for cell in self.cells:
            if self.plan.searched_mark(cell):  # a search chose it, among others
                continue
            if self.dev_of(cell, task, metric) > -math.inf and all(
                cell.mean_name(task, metric, split) for split in ("dev", "test")
            ):
                groups[cell.method, cell.encoder, cell.sentences].append(cell)
        return [
            sorted(cells, key=lambda cell: self.dev_of(cell, task, metric), reverse=True)
            for cells in groups.values()
        ]

    def dev_of(self, cell: Cell, task: str, metric: str, split: str = "dev") -> float:
        """Return what cells are chosen by, larger is better: the mean on a split over the languages
        that all cells have, turned round where lower ones are better; minus infinity without one.
        """
        value, sign = cell.mean(task, metric, split), self.plan.measured(task, metric).sign
        if value is None or not sign:
            return -math.inf
        shared = self._shared((task, metric, split)) or ()
        values = [cell.values[task, lang, metric, split].mean for lang in shared]
        return sign * (math.fsum(values) / len(values) if values else value.mean)

    @cached_property
    def _known(self) -> dict[TableKey, frozenset[str] | None]:
        return {}  # by `_shared`: few tables choose, of many

    def _shared(self, table: TableKey) -> frozenset[str] | None:
        if table not in self._known:
            named = [(cell, cell.compared_mean(*table)) for cell in self.cells]
            self._known[table] = Cell.shared(named, self.plan.pivot)
        return self._known[table]

    def _over(self, task: str, metric: str, split: str) -> str:
        """Return in words in which languages cells are ranked, where some have others too."""
        if (shared := self._shared((task, metric, split))) is None:
            return ""
        return f" (in {', '.join(self.plan.ordered(shared)) or 'no language that all have'})"

    def chosen_run(self) -> tuple[str, str]:
        """Return the key of the trial that dev chooses, and why: of the cells but the baselines the
        best on the grid's first task that has such values, and of its runs the best. Raises
        `RaxalignError` where there are none, or each language has an encoder of its own.
        """
        plan, bases = self.plan, baseline_cells(self.cells, self.plan)
        cells = [cell for cell in self.cells if cell not in bases]
        for task, metric, _ in self.leading_tables():
            ranks = [self.dev_of(cell, task, metric) for cell in cells]
            best = max(ranks, default=-math.inf)
            if best == -math.inf:
                continue
            cell, sign = cells[ranks.index(best)], plan.measured(task, metric).sign or 1
            name = cell.compared_mean(task, metric, "dev")
            runs = cell.by_seed[name] if name is not None else {}
            seed = max(runs, key=lambda seed: sign * runs[seed])
            own = [plan.by_key[key] for key in cell.trials if plan.by_key[key].seed in (seed, None)]
            if len(own) > 1:
                told = ", ".join(f"{trial.key[:12]} ({trial.languages[0]})" for trial in own)
                raise RaxalignError(f"--best: languages have own encoders; give a key: {told}")
            points = counted(sum(rank > -math.inf for rank in ranks), "configuration")
            how = f"{points} and {counted(len(runs), 'run')} of it, by {task} ({spoken(metric)})"
            told = f"{own[0].key[:12]} ({plan.trial_name(own[0])}) is the best on dev"
            return own[0].key, f"{told}{self._over(task, metric, 'dev')} of {how}"
        raise RaxalignError(f"--best: {plan.name} has no results on dev of a method. Run it first")


def _rest(cell: Cell, param: str) -> str:
    """Return everything of a cell but a param, as text."""
    rest = {name: value for name, value in cell.params.items() if name != param}
    return json.dumps([cell.method, rest, cell.encoder, cell.sentences], sort_keys=True)


def why_untouched(plan: Plan, cell: Cell, task: str) -> str | None:
    """Return why a task was not run for a cell, as a sentence: the method changes nothing that the
    task reads. None where it is the plan's to run.
    """
    trial = next((plan.by_key[key] for key in cell.trials if key in plan.by_key), None)
    found = trial.untouched.get(task) if trial is not None else None
    if found is None:
        return None
    told = found.told([cell.method], [task])
    return f"Untouched: {told}; the result would be that of the encoder itself."


def _idle_cells(plan: Plan) -> list[Cell]:
    """Return the cells of which nothing is run at all, so that no row of results has them."""
    groups: dict[str, list[Trial]] = {}
    for trial in plan.trials:
        if trial.untouched and not trial.evaluations:
            facts = [trial.method, trial.params, trial.encoder, trial.sentences]
            groups.setdefault(json.dumps(facts, sort_keys=True), []).append(trial)
    return [
        Cell(one.method, one.params, one.encoder, one.sentences, tuple(t.key for t in trials), {})
        for trials in groups.values()
        for one in trials[:1]
    ]
