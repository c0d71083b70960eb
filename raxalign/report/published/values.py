"""The measured values of a published row, with everything in which they are not as published."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raxalign.analysis.cells import MEANS, Cell, Name, Value, languages_of, over_runs
from raxalign.config.published import PublishedTable, Rule
from raxalign.report.cells import per_language
from raxalign.report.cells.numbers import FEW
from raxalign.report.cells.results import Results
from raxalign.report.published.fill import Fill
from raxalign.report.published.matching import Match, choices, differing, find, sweep


@dataclass(frozen=True)
class Measured:
    """A measured value of one published figure, its name among the results, and remarks on
    it; `cell` is its cell, where the row has another cell for each column.
    """

    value: Value
    name: Name | None
    remarks: tuple[str, ...] = ()
    cell: Cell | None = None


@dataclass(frozen=True)
class MeasuredRow:
    """A published row with the cell that measures it (`match`; None: nothing does), and where an
    analysis fills the table, what it found for the cell (`fill`).
    """

    results: Results
    table: PublishedTable
    row: str
    match: Match | None
    fill: Fill | None = None

    def at(self, column: str, part: int) -> Measured | None:
        """Return the value of a column, by the part of its figure (the metric of the rule)."""
        found = self._values(column)
        return found[part] if part < len(found) else None

    def comparable(self, column: str, part: int, figure: float | None) -> float | None:
        """Return the figure that the difference is to: what the printed one should be, and for a
        mean over some columns the mean over the same.
        """
        parts = parts_of(self.table)
        for note in self.table.notes:
            if (note.row, note.column) == (self.row, column) and note.instead is not None:
                figure = figures_of(note.instead, len(parts))[part]
        scope = self.table.means.get(column)
        if scope is None or self.match is None:
            return figure
        columns = self._meant(scope)
        there = [entry for entry in columns if self.at(entry, part) is not None]
        if len(there) == len(columns):
            return figure
        values = self.table.rows[self.row].values
        printed = [
            figures_of(values[self.table.columns.index(entry)], len(parts))[part] for entry in there
        ]
        known = [value for value in printed if value is not None]
        return math.fsum(known) / len(known) if known and len(known) == len(printed) else None

    def _values(self, column: str) -> Sequence[Measured | None]:
        """The values of a column, one for each metric of the rule."""
        if self.match is None:
            return []
        if self.table.analysis is not None:
            value = self.fill.values.get(column) if self.fill is not None else None
            return [Measured(value, None)] if isinstance(value, Value) else []
        scope = self.table.means.get(column)
        if scope is not None:
            columns = self._meant(scope)
            return [
                self._mean(self.match.cell, columns, part)
                for part in range(len(parts_of(self.table)))
            ]
        rule = self.table.rule(self.row, column)
        if rule is None:
            return []
        if rule.stem or rule.best_of:
            return [self._of_sweep(self.match.cell, rule)]
        if rule.per_language is not None:
            return [self._of_choice(self.match.cell, rule)]
        return self._of_metrics(self.match.cell, rule)

    def _meant(self, scope: str) -> list[str]:
        """The columns that a mean is over."""
        single = [entry for entry in self.table.columns if entry not in self.table.means]
        return [entry for entry in single if scope == "all" or entry != "en"]

    def _of_metrics(self, cell: Cell, rule: Rule) -> list[Measured | None]:
        by_metric = {name[2]: name for name in find(self.results, cell, rule, self.table.split)}
        found: list[Measured | None] = []
        for metric in rule.metrics or (rule.metric,):
            name = by_metric.get(metric or "")
            found.append(
                None
                if name is None
                else Measured(cell.values[name], name, tuple(self._remarks(cell, name, rule)))
            )
        return found

    def _remarks(self, cell: Cell, name: Name, rule: Rule) -> Iterator[str]:
        task, lang, metric, split = name
        params = self.results.task_params.get(task, {})
        yield from (f"Task {task} with {text}." for text in differing(params, rule.expects))
        selection = params.get("selection")
        if split != self.table.split:
            yield f"Measured on the {split} set (published: {self.table.split})."
        if split == "dev" and selection not in (None, "last"):
            yield f"The {split} set also chose the checkpoint (selection: {selection})."
        if selection == "target-dev":
            yield "The checkpoint was chosen on the target language's dev set: not zero-shot."
        counted = self.results.plan.count_of(task, metric)
        pairs = cell.values.get((task, lang, counted, split))
        if pairs is not None and pairs.mean < FEW:
            yield f"Over fewer than {FEW} word pairs: too few for a conclusion."

    def _of_sweep(self, cell: Cell, rule: Rule) -> Measured | None:
        """The point of a sweep that a rule names, or the best one."""
        points = sweep(self.results, cell, rule, self.table.split)
        if rule.best_of is None:
            named = [name for point, name in points.items() if point == (rule.layer, rule.alpha)]
            return Measured(cell.values[named[0]], named[0]) if named else None
        if not points:
            return None
        plan = self.results.plan
        (layer, alpha), name = max(
            points.items(),
            key=lambda item: plan.measured(item[1][0], item[1][2]).sign * cell.values[item[1]].mean,
        )
        value = cell.values[name]
        chosen = "The best point was chosen on the evaluated data, as in the paper."
        if rule.show == "value":
            return Measured(value, name, (chosen,))
        shown = layer if rule.show == "layer" else alpha
        return Measured(Value(shown, None, value.n), None, (chosen,))

    def _of_choice(self, cell: Cell, rule: Rule) -> Measured | None:
        """The value of a column at the param that its dev value chooses, or that param."""
        param, table = rule.per_language or "", self.table
        there = choices(self.results, cell, rule)
        asked = [name for other in there for name in find(self.results, other, rule, table.split)]
        chosen = per_language.best(self.results, there, asked[0]) if asked else None
        if asked and chosen is None and len(there) == 1:
            chosen = cell  # one value needs no dev set
        names = find(self.results, chosen, rule, table.split) if chosen is not None else []
        if chosen is None or not names:
            return None
        name = names[0]
        if rule.show == "alpha":
            return Measured(Value(float(chosen.params[param]), None, 1), None, (), chosen)
        return Measured(chosen.values[name], name, tuple(self._remarks(chosen, name, rule)), chosen)

    def _mean(self, cell: Cell, columns: Sequence[str], part: int) -> Measured | None:
        """The mean over the columns that were measured, seed by seed."""
        there = [found for entry in columns if (found := self.at(entry, part)) is not None]
        names = [found.name for found in there if found.name is not None]
        if not names or len({name[3] for name in names}) > 1:
            return None
        remarks = dict.fromkeys(text for found in there for text in found.remarks)
        if len(names) < len(columns):
            missing = (
                f"Mean over {len(names)} of {len(columns)} columns; a difference is to the"
                " published mean over the same."
            )
            remarks[missing] = None
        cells = [found.cell or cell for found in there if found.name is not None]
        value = mean_value([own.by_seed[name] for own, name in zip(cells, names, strict=True)])
        one = all(own is cell for own in cells)
        return Measured(value, self._mean_name(cell, names) if one else None, tuple(remarks))

    def _mean_name(self, cell: Cell, names: Sequence[Name]) -> Name | None:
        """The name of the mean over languages that is the mean of these; None where it is a mean
        that no table of the grid has.
        """
        (task, _, metric, split), langs = names[0], {name[1] for name in names}
        if len({(name[0], *name[2:]) for name in names}) > 1:
            return None
        pivot = self.results.plan.pivot
        for mean in MEANS:
            name = (task, mean, metric, split)
            if name in cell.values and set(languages_of(cell, name, pivot)) == langs:
                return name
        return None


def parts_of(table: PublishedTable) -> tuple[str, ...]:
    """Return the metrics of each figure of a table; one empty name where a figure is one number."""
    return table.match.metrics if table.match is not None and table.match.metrics else ("",)


def figures_of(value: float | Sequence[float] | None, parts: int = 1) -> list[float | None]:
    """Return the numbers of a printed figure, one for each of its parts."""
    if value is None or isinstance(value, int | float):
        return [value] * max(parts, 1)
    return list(value)


def mean_value(columns: Sequence[Mapping[Any, float]]) -> Value:
    """Return the mean over columns (seed -> value), seed by seed; a column that all seeds share
    (seed None) counts for each of them.
    """
    seeds = {seed for column in columns for seed in column if seed is not None} or {None}
    for column in columns:
        seeds &= set(column) | (seeds if None in column else set())
    means = [
        math.fsum(column.get(seed, column.get(None, math.nan)) for column in columns) / len(columns)
        for seed in sorted(seeds, key=str)
    ]
    return over_runs(means) if means else Value(math.nan, None, 0)
