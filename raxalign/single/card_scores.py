"""The scores of an exported encoder for its card: its main results next to those of the encoder
that it was made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from raxalign.analysis.cells import MEANS, Cell, Name, cells, tables_of
from raxalign.plan.values.comparisons import Compared, comparisons
from raxalign.plan.values.predictions import Predictions
from raxalign.plan.values.results import rows

if TYPE_CHECKING:
    from raxalign.analysis.significance import Interval
    from raxalign.plan.plan import Plan
    from raxalign.plan.trial import Trial
    from raxalign.store.ledger import Ledger


@dataclass(frozen=True)
class Score:
    """One main score of an exported encoder.

    Attributes:
        task: The grid's name of the task.
        kind: The kind of the task.
        lang: The language, the pair of languages, or a mean over languages.
        metric: The metric.
        value: The score of this encoder.
        low: The lower end of its 95 % interval over examples (None: it cannot be computed).
        high: The upper end.
        examples: The independent clusters of examples behind it.
        base: The score of the encoder that it was made from, a mean over runs.
        difference: The difference between the two over all seeds of the grid.
        bounds: The 95 % interval of the difference over seeds and examples.
        verdict: What the test says about the difference, as in the grid's tables; empty without
            one.
        split: The split of the data.
        lower: Whether lower values are better.
        ways: The ways of loading the export that give it.
    """

    task: str
    kind: str
    lang: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    examples: int | None = None
    base: float | None = None
    difference: float | None = None
    bounds: tuple[float, float] | None = None
    verdict: str = ""
    split: str = "test"
    lower: bool = False
    ways: tuple[str, ...] = ("raxalign", "AutoModel")


def scores_of(
    plan: Plan,
    ledger: Ledger,
    trial: Trial,
    ways: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> list[Score]:
    """Return the main scores of a trial on test sets (dev where a task has no test), task by task,
    the means over languages last; `ways` are those of each task.
    """
    found = rows(plan, ledger)
    own = [row for row in found if row["trial"] == trial.key]
    if not own:
        return []
    (this,) = cells(own, plan.pivot, plan.measured)
    every = cells(found, plan.pivot, plan.measured)
    whole = next(cell for cell in every if trial.key in cell.trials)
    kinds = {task: plan.stages[key].maker for task, key in trial.evaluations.items()}
    names = list(_main(plan, this, kinds))
    tables = {(name[0], *name[2:]) for name in names}
    compared = {
        entry.name: entry
        for entry in comparisons(every, plan, ledger, tables=tables)
        if entry.cell is whole and entry.baseline is not None
    }
    intervals = _intervals(plan, ledger, this, names)
    return [
        replace(
            _score(this, name, kinds[name[0]], intervals.get(name), compared.get(name)),
            lower=plan.measured(name[0], name[2]).better == "lower",
            ways=ways.get(name[0], Score.ways),
        )
        for name in names
    ]


def _main(plan: Plan, cell: Cell, tasks: Iterable[str]) -> Iterator[Name]:
    """The names of the values of each task's main metric, the means last; of the first metric where
    a task names none.
    """
    tables = tables_of(cell.values, plan.measured)
    for task in tasks:
        there = [(metric, split) for name, metric, split in tables if name == task]
        main = plan.main_metric(task)
        shown = next((table for table in there if table[0] == main), next(iter(there), None))
        names = [name for name in cell.values if (name[0], name[2:]) == (task, shown)]
        yield from sorted(names, key=lambda name: name[1] in MEANS)


def _intervals(plan: Plan, ledger: Ledger, cell: Cell, names: list[Name]) -> dict[Name, Interval]:
    """The intervals over examples of the values of one run."""
    from raxalign.analysis.significance import interval

    runs = Predictions(plan, ledger).runs(cell, names)
    made = {name: interval(found, examples_alone=True) for name, found in runs.items()}
    return {name: found for name, found in made.items() if found is not None}


def _score(
    cell: Cell, name: Name, kind: str, around: Interval | None, against: Compared | None
) -> Score:
    task, lang, metric, split = name
    found = against.comparison if against is not None else None
    bounds = None
    if found is not None and found.low is not None and found.high is not None:
        bounds = (found.low, found.high)
    base = against.baseline_value if against is not None else None
    return Score(
        task,
        kind,
        lang,
        metric,
        cell.values[name].mean,
        around.low if around is not None else None,
        around.high if around is not None else None,
        around.examples if around is not None else None,
        base.mean if base is not None else None,
        against.difference if against is not None else None,
        bounds,
        (against.verdict or "") if against is not None and bounds is not None else "",
        split,
    )
