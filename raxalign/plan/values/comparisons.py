"""Every value of a grid's tables with its interval and its difference to a baseline: the runs are
read from a ledger, tested, corrected for the number of tests, and judged.
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
from raxalign.plan.names import cell_name
from raxalign.plan.values.predictions import Predictions

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
    """A value of a table, compared with a baseline where there is one.

    Attributes:
        cell: The cell of the value.
        name: The name of the value in the cell.
        value: The value.
        interval: Its interval over runs and examples.
        baseline: The cell that it is compared with.
        comparison: The test of the difference.
        p_adjusted: The p-value after Holm's correction over all comparisons of the value's table
            (task, metric and split).
        verdict: What follows from it at the level of significance.
        untested: Why there is no interval or no test; empty where there is one.
        at_chance: Whether the interval of a classifier holds `guessing`.
        guessing: What guessing gets.
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
        """The value of the baseline."""
        return self.baseline.values[self.name] if self.baseline is not None else None

    @property
    def difference(self) -> float | None:
        """The difference to the baseline, tested or not. It is None without a baseline, and for
        means over other languages.
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


def baseline_cells(cells: Sequence[Cell], plan: Plan) -> list[Cell]:
    """Return the cells of the encoders as they were: those whose method changes nothing."""
    kinds = {trial.method: trial.kind for trial in plan.trials}
    return [cell for cell in cells if _is_baseline(kinds.get(cell.method, cell.method))]


def comparisons(
    cells: Sequence[Cell], plan: Plan, ledger: Ledger | None, *, baseline: str | None = None
) -> list[Compared]:
    """Compare all values of the grid's tables, task by task and cell by cell.

    Values of tasks where more is not better are not compared.

    Args:
        cells: The cells of the grid.
        plan: Its plan.
        ledger: Where the predictions are; without it nothing is tested.
        baseline: A name as `cell_name` writes it, of a cell with the same encoder and number of
            sentences. By default the cell with the same encoder whose method leaves it as it is.

    Raises:
        RaxalignError: No cell has the name, or several different ones have it.
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
    """The tables of one task. The runs of baselines are kept in memory, those of other cells are
    not.
    """

    plan: Plan
    predictions: Predictions
    tables: set[tuple[str, str, str]]
    competes: bool
    guessing: float | None
    main_metric: str | None

    def compared(self, cells: Sequence[Cell], baselines: Mapping[int, Cell]) -> list[Compared]:
        """Compare the values of all cells. `baselines` are by the id of the cell."""
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
        """Compare one value of a cell, from its runs and those of the baselines (`kept`)."""
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
        found = self._with_interval(found, own)
        if base is None:
            return found
        other = kept[id(base)].get(name)
        if other is None:
            return replace(found, untested=NO_PREDICTIONS)
        return self._tested(found, base, own, other)

    def _with_interval(self, found: Compared, own: Runs) -> Compared:
        """Add the interval of a value, and whether it holds what guessing gets."""
        from raxalign.analysis.significance import ONE_EXAMPLE, ONE_RUN, interval

        around = interval(own)
        reason = ONE_EXAMPLE if own.testable else ONE_RUN
        found = replace(found, interval=around, untested="" if around else reason)
        if self.guessing is None or found.name[2] != self.main_metric:
            return found
        widest = around or interval(own, examples_alone=True)
        at_chance = widest is not None and widest.holds(self.guessing)
        return replace(found, guessing=self.guessing, at_chance=at_chance)

    def _tested(self, found: Compared, base: Cell, own: Runs, other: Runs) -> Compared:
        """Add the test against the baseline. Means over other languages are not tested."""
        from raxalign.analysis.significance import compare

        cell, name, pivot = found.cell, found.name, self.plan.pivot
        if name[1] in MEANS and (
            set(languages_of(base, name, pivot)) != set(languages_of(cell, name, pivot))
        ):
            return replace(found, untested=OTHER_LANGUAGES)
        compared = compare(other, own, paired=self.predictions.pairs_up(base, cell, name))
        return replace(found, comparison=compared, untested=compared.untested)


def _kind(plan: Plan, task: str) -> tuple[bool, float | None, str | None]:
    """Return whether more of a task is better, what guessing gets, and its main metric."""
    keys = (trial.evaluations[task] for trial in plan.trials if task in trial.evaluations)
    maker = next((plan.stages[key].maker for key in keys if key in plan.stages), task)
    if maker not in catalog("tasks"):
        return True, None, None
    kind = catalog("tasks")[maker]
    return kind.competes, kind.guessing, kind.main_metric


def _adjusted(found: Sequence[Compared], plan: Plan) -> list[Compared]:
    """Add Holm's correction over the comparisons of each table, and the verdicts that follow."""
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
    """Return the baseline of each cell that has one, by the cell's id."""
    candidates = baseline_cells(cells, plan) if wanted is None else _named(cells, plan, wanted)
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


def _is_baseline(kind: str) -> bool:
    """Check whether a kind of method leaves the encoder as it is."""
    return kind in catalog("methods") and bool(catalog("methods")[kind].is_baseline)


def _named(cells: Sequence[Cell], plan: Plan, wanted: str) -> list[Cell]:
    """Return the cells that a name means: the whole name, or a method with one point."""
    asked = " ".join(wanted.split()).casefold().replace("λ", "lambda").replace("α", "alpha")
    whole = [cell for cell in cells if cell_name(cell, plan).casefold() == asked]
    found = whole or [cell for cell in cells if cell.method.casefold() == asked]
    names = list(dict.fromkeys(cell_name(cell, plan) for cell in found))
    if not found:
        known = ", ".join(dict.fromkeys(cell_name(cell, plan) for cell in cells))
        raise RaxalignError(f"--compare: no result is called {wanted!r}; there are: {known}")
    if len(names) > 1:
        raise RaxalignError(
            f"--compare: {wanted!r} may mean any of: {', '.join(names)}; name one of them"
        )
    return found
