"""What a report is made of: the grid's cells, with the kinds that rules ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from raxalign.analysis.cells import MEANS, Cell, Name, cells, tables_of
from raxalign.plan.names import ordered
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.plan.values.missing import Lacking
from raxalign.report.cells.numbers import FEW, NumberFormat, unit_of
from raxalign.store.ledger import Ledger

TableKey = tuple[str, str, str]
"""(task, metric, split), which name a table."""
UNTOUCHED = "untouched"
"""What tables have in place of a number where the method changes nothing that the task reads."""


def table_of(name: Name) -> TableKey:
    """Return the (task, metric, split) of a value."""
    return (name[0], name[2], name[3])


@dataclass(frozen=True)
class Results:
    """The cells of a grid's results, and the trials that are `lacking`; `kinds` and `tasks` map
    names to their kinds.
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
    _lines: dict[str, dict[str, list[Cell]]] = field(default_factory=dict, repr=False)
    _units: dict[tuple[str, str], NumberFormat] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, rows: Sequence[Mapping[str, Any]], plan: Plan, ledger: Ledger | None = None
    ) -> Results:
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
            [*cells(rows, plan.pivot, plan.measured), *(idle_cells(plan) if rows else ())],
            kinds,
            tasks,
            params,
            Lacking.of(plan, there, ledger),
            planned=len({key for _, key in wanted}),
            done=len(there),
            seeds=tuple(sorted({trial.seed for trial in plan.trials if trial.seed is not None})),
        )

    @cached_property
    def several_encoders(self) -> bool:
        """Whether the cells are of more than one encoder."""
        return len({cell.encoder for cell in self.cells}) > 1

    @cached_property
    def unseen(self) -> frozenset[str]:
        """The languages that no method has aligned, as names have them; of sets those in none."""
        cells_ = [cell for cell in self.cells if cell.values]
        every = frozenset[str]().union(*(cell.unseen for cell in cells_))
        return every.difference(
            *({name[1] for name in cell.values} - cell.unseen for cell in cells_ if cell.set)
        )

    @cached_property
    def names(self) -> tuple[Name, ...]:
        """Every name that some cell has a value of, in the order of first appearance."""
        return tuple(dict.fromkeys(name for cell in self.cells for name in cell.values))

    @cached_property
    def tables(self) -> tuple[TableKey, ...]:
        """What is worth a table: no counts, errors, directions or points of a sweep."""
        return tuple(tables_of(self.names, self.plan.measured))

    @cached_property
    def by_table(self) -> Mapping[TableKey, tuple[str, ...]]:
        """(task, metric, split) -> its languages as tables show them (`ordered`)."""
        found: dict[TableKey, dict[str, None]] = {}
        for name in self.names:
            found.setdefault(table_of(name), {})[name[1]] = None
        return {table: tuple(ordered(langs, self.plan)) for table, langs in found.items()}

    def names_of(self, table: TableKey) -> list[Name]:
        """Return the names of the values of a table, one per language."""
        task, metric, split = table
        return [(task, lang, metric, split) for lang in self.by_table[table]]

    def transferred(self, table: TableKey) -> list[str]:
        """Return the languages of a table without the pivot and the means."""
        langs = self.by_table.get(table, ())
        return [lang for lang in langs if lang not in MEANS and lang != self.plan.pivot]

    def line(self, cell: Cell, param: str) -> list[Cell]:
        """Return the cells that differ from a cell in nothing but a param, itself included, in
        ascending order of the param; none where the cell does not have it.
        """
        if param not in self._lines:
            lines = self._lines[param] = {}
            for other in self.cells:
                if param in other.params:
                    lines.setdefault(_rest(other, param), []).append(other)
            for cells_ in lines.values():
                cells_.sort(key=lambda other: other.params[param])
        return self._lines[param].get(_rest(cell, param), []) if param in cell.params else []

    def of_kind(self, kind: str) -> str | None:
        """Return the grid's name of its first task of a kind; None where it has none."""
        return next((name for name, found in self.tasks.items() if found == kind), None)

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
            self._units[task, metric] = unit_of(self.plan.measured(task, metric), values)
        return self._units[task, metric]

    def few(self, table: TableKey) -> bool:
        """Return whether a table is over fewer than `FEW` pairs in every language."""
        task, metric, split = table
        counted = self.plan.count_of(task, metric)
        names = [(task, lang, counted, split) for lang in self.by_table[table]]
        counts = [
            cell.values[name].mean for cell in self.cells for name in names if name in cell.values
        ]
        return bool(counts) and max(counts) < FEW

    def leading_tables(self) -> list[TableKey]:
        """Return the table that stands for each task, in the order of the grid: that of its main
        metric, or the first one over enough pairs; none where every one is over too few.
        """
        enough = [table for table in self.tables if not self.few(table)]
        found = []
        for task in self.tasks:
            own = [table for table in enough if table[0] == task]
            main = self.main_metric(task)
            found += [table for table in own if table[1] == main][:1] or own[:1]
        return found


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


def idle_cells(plan: Plan) -> list[Cell]:
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
