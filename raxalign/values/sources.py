"""Transfer from several languages: what a task trained on each of them (`train_on`) gets in each
language, the best one of each, what always using one costs, and what predicts it without labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.analysis.correlation import Correlation
from raxalign.analysis.significance import ContrastTest, Runs
from raxalign.store.ledger import Ledger
from raxalign.values.predictions import Predictions
from raxalign.values.scoreboard import Scoreboard, TableKey


@dataclass(frozen=True)
class SourceMatrix:
    """What a cell gets in each target from each source, by the main metric of a task. `tasks` are
    the grid's tasks by their sources.
    """

    results: Scoreboard
    ledger: Ledger | None
    name: str
    tasks: Mapping[str, str]
    cell: Cell

    @classmethod
    def of(cls, results: Scoreboard, ledger: Ledger | None) -> Iterator[SourceMatrix]:
        """Yield one per task with several sources and method."""
        families: dict[str, dict[str, str]] = {}
        for task in results.tasks:
            name, _, source = task.rpartition(".")
            if name and source == results.plan.home_of(task):
                families.setdefault(name, {})[source] = task
        for name, tasks in families.items():
            first = tasks.get(results.plan.pivot, next(iter(tasks.values())))
            metric = results.main_metric(first)
            if len(tasks) > 1 and metric is not None:
                for cell in results.representatives(first, metric):
                    yield cls(results, ledger, name, tasks, cell)

    @cached_property
    def table(self) -> TableKey:
        """The table of the pivot as a source, or of the first one."""
        task = self.tasks.get(self.results.plan.pivot) or next(iter(self.tasks.values()))
        return task, self.results.main_metric(task) or "", self.results.split(task)

    def at(self, source: str, target: str, split: str = "") -> Name:
        """Return the name of the value of a pair."""
        return self.tasks[source], target, self.table[1], split or self.table[2]

    def value(self, source: str, target: str, split: str = "") -> float | None:
        """Return the value of a pair, larger is better; None where there is none."""
        found = self.cell.values.get(self.at(source, target, split))
        sign = self.results.plan.measured(*self.table[:2]).sign or 1
        return None if found is None else sign * found.mean

    @cached_property
    def targets(self) -> list[str]:
        """The languages that are evaluated."""
        found = {name[1] for name in self.cell.values if name[0] in self.tasks.values()}
        return self.results.plan.ordered(found - {*MEANS})

    @cached_property
    def chosen_by(self) -> str:
        """The split by which the best sources are chosen: dev, or the one that is shown."""
        return "dev" if (*self.table[:2], "dev") in self.results.by_table else self.table[2]

    @cached_property
    def best(self) -> dict[str, str]:
        """The best source of each target but itself; none where one has no value in the target."""
        found = {}
        for target in self.targets:
            others = [source for source in self.tasks if source != target]
            values = [self.value(source, target, self.chosen_by) for source in others]
            known = [value for value in values if value is not None]
            if others and len(known) == len(others):
                found[target] = others[known.index(max(known))]
        return found

    @cached_property
    def _runs(self) -> Mapping[Name, Runs]:
        names = [self.at(s, t) for s in self.tasks for t in self.targets]
        there = [name for name in names if name in self.cell.values]
        return Predictions(self.results.plan, self.ledger).runs(self.cell, there)

    def regret(self, source: str, targets: Sequence[str] | None = None) -> ContrastTest | None:
        """Return how much more the best source of each target gets than one source, the mean over
        targets but that source itself; 0 for those of which it is the best. None where
        predictions are not stored.

        The training runs of two sources are independent; those of one are the same for all targets.
        """
        over = [t for t in targets or self.targets if t in self.best and t != source]
        lost = [target for target in over if self.best[target] != source]
        by_source: dict[str, list[Runs]] = {}
        for target in lost:
            for one in (self.best[target], source):
                if (runs := self._runs.get(self.at(one, target))) is None:
                    return None
                by_source.setdefault(one, []).append(runs)
        if not lost:
            return ContrastTest(0.0, 0.0, 0.0, None, (), 0) if over else None
        sign = self.results.plan.measured(*self.table[:2]).sign or 1
        weights = {one: sign * len(runs) / len(over) for one, runs in by_source.items()}
        weights[source] *= -1
        return ContrastTest.of([(weights[one], Runs.mean_of(by_source[one])) for one in weights])

    def measures(self) -> list[TableKey]:
        """Return the tables of measures without labels: of languages with the pivot, by tasks that
        train nothing.
        """
        plan = self.results.plan
        return [
            table
            for table in self.results.tables
            if table[2] == "test"
            and table[0] in plan.evaluated
            and "trained" not in plan.evaluated[table[0]].inputs
            and any(
                (table[0], f"{t}-{plan.pivot}", *table[1:]) in self.cell.values
                for t in self.targets
            )
        ]

    def predicted(self, measure: TableKey) -> tuple[float, tuple[float, float] | None, int] | None:
        """Return the rank correlation of a measure with transfer over all pairs of a source and
        another language; the lowest and highest of those without one language, where all are there;
        and the number of pairs. A pair without the pivot has the worse value of both languages with
        the pivot (the lower one, where neither is better). None for too few or equal values.
        """
        points = {
            (source, target): (nearness, value)
            for source in self.tasks
            for target in self.targets
            if target != source
            and (value := self.value(source, target)) is not None
            and (nearness := self._nearness(measure, source, target)) is not None
        }
        found = [
            Correlation.of(*zip(*kept, strict=True)).spearman if kept else None
            for left in ("", *dict.fromkeys(lang for pair in points for lang in pair))
            for kept in [[point for pair, point in points.items() if left not in pair]]
        ]
        known = [rho for rho in found if rho is not None]
        if found[0] is None:
            return None
        ends = (min(known[1:]), max(known[1:])) if len(known) == len(found) else None
        return found[0], ends, len(points)

    def _nearness(self, measure: TableKey, *pair: str) -> float | None:
        """The worse value of two languages with the pivot, larger is better."""
        task, metric, split = measure
        plan, values = self.results.plan, self.cell.values
        names = [(task, f"{t}-{plan.pivot}", metric, split) for t in pair if t != plan.pivot]
        if not names or any(name not in values for name in names):
            return None
        sign = plan.measured(task, metric).sign or 1
        return min(sign * values[name].mean for name in names)
