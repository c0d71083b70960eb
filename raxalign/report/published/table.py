"""One table of a paper in its own shape: measured next to published, with the difference, and notes
on everything in which the two are not alike.

The measured values of a published row, with everything in which they are not as published.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raxalign.analysis.cells import MEANS, Cell, Name, Value, languages_of, over_runs
from raxalign.config.published import Publication, PublishedTable, Rule
from raxalign.report.cells import per_language
from raxalign.report.cells.judge import Judge, remarks
from raxalign.report.cells.names import capitalized, measured
from raxalign.report.cells.numbers import FEW, Unit, published_unit, signed
from raxalign.report.cells.results import Results
from raxalign.report.cells.untouched import UNTOUCHED
from raxalign.report.document import Entry, Line, Notes, Table, lifted, renumbered
from raxalign.report.published.fill import Fill, Measure
from raxalign.report.published.matching import (
    Match,
    choices,
    differing,
    encoder_differs,
    find,
    match_row,
    sweep,
    untouched,
)


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


RECORD = (
    *("publication", "table", "row", "column", "metric", "published"),
    *("measured", "low", "high", "seeds", "difference"),
    *("method", "params", "encoder", "sentences", "notes"),
)
"""The columns of published.csv: a figure, what was measured, and by which cell."""
_NOT_RUN = "not run"
_SHORT = {"exact_match": "EM", "f1": "F1"}


@dataclass(frozen=True)
class _Spot:
    """One printed figure: its row, column and part, and the unit in which it is shown; `of_row` are
    the notes of its row.
    """

    row: MeasuredRow
    column: str
    part: int
    figure: float | None
    unit: Unit
    of_row: tuple[int, ...]

    @property
    def printed(self) -> str:
        """The figure as text."""
        return "" if self.figure is None else Unit(1, self.unit.decimals).show(self.figure)

    @property
    def rule(self) -> Rule | None:
        """The rule by which it is measured."""
        return self.row.table.rule(self.row.row, self.column)


@dataclass
class TableMaker:
    """Makes the table `label` of the publication `name`; `measure` is the analysis that fills it.
    `records` then has a row (`RECORD`) per figure.
    """

    results: Results
    judge: Judge
    publication: Publication
    name: str
    label: str
    measure: Measure | None = None
    notes: Notes = field(default_factory=Notes)
    records: list[tuple[object, ...]] = field(default_factory=list)

    @property
    def table(self) -> PublishedTable:
        """The published table."""
        return self.publication.tables[self.label]

    def make(self) -> Table:
        """Returns the table, its marks included."""
        lines = [self._line(row) for row in self.table.rows]
        whole = [note.text for note in self.table.notes if note.row is None and note.column is None]
        caption = " ".join(
            [f"{self.publication.short}, {self.table.source}.", self._unit_in_words(), *whole]
        )
        found = [entry for line in lines for entry in line.entries if entry.state == "value"]
        everywhere, lines = lifted(lines, found)
        caption += "".join(f" {self.notes.texts[number - 1]}" for number in everywhere)
        absent = {entry.text for line in lines for entry in line.entries if entry.state == "absent"}
        if not found and absent & {_NOT_RUN, UNTOUCHED}:
            caption += " None of these cells were run."
        made = Table(
            f"{self.name}-{self.label}",
            self.table.title,
            self._headings(),
            tuple(lines),
            caption,
            tuple(self.notes.texts),
            corner="method" if self.table.match else "row",  # of sizes of data sets, say
            folded=not found,
        )
        return renumbered(made)

    def _unit_in_words(self) -> str:
        sets = {"dev": "on the development set", "test": "on the test set"}
        unit = (
            (self.table.unit or "")
            .replace("_", " ")
            .replace("em and", "exact match and")
            .replace("percent", "in percent")
            .replace("f1", "F1")
        )
        split = sets[self.table.split] if self.table.match and not self.table.counts else ""
        text = " ".join(part for part in (unit, split) if part)
        return f"{capitalized(text)}." if text else ""

    def _headings(self) -> tuple[str, ...]:
        parts = parts_of(self.table)
        return tuple(
            f"{column} {_SHORT.get(part, part)}" if part else column
            for column in self.table.columns
            for part in parts
        )

    def _line(self, label: str) -> Line:
        match = match_row(self.results, self.table, label)
        fill = self.measure(match.cell) if self.measure is not None and match is not None else None
        row = MeasuredRow(self.results, self.table, label, match, fill)
        notes = self.notes.numbers([*self._row_notes(row)])
        printed = self.table.rows[label]
        numbers = [number for value in printed.values for number in figures_of(value)]
        unit = published_unit(
            printed.unit or self.table.unit, [number for number in numbers if number is not None]
        )
        grouped = all("/" in other for other in self.table.rows)
        group, _, rest = label.partition("/") if grouped else ("", "", label)
        entries = tuple(
            self._entry(_Spot(row, column, part, figure, unit, notes))
            for column, value in zip(self.table.columns, printed.values, strict=True)
            for part, figure in enumerate(figures_of(value, len(parts_of(self.table))))
        )
        rule = self.table.rows[label].match
        apart = rule.per_language if rule is not None else None
        sub = measured(match.cell, self.results.plan, apart) if match is not None else ""
        return Line(rest, entries, sub, notes, group)

    def _row_notes(self, row: MeasuredRow) -> Iterator[str]:
        for note in self.table.notes:
            if note.row == row.row and note.column is None:
                yield note.text
        if row.match is not None:
            yield from [row.fill.remark] if row.fill is not None else []
            yield from self._match_notes(row.match, self.table.rows[row.row].match)

    def _match_notes(self, match: Match, rule: Rule | None) -> Iterator[str]:
        """In what the cell that measures a row is not as published."""
        yield from (f"Measured with {text}." for text in match.differs)
        if match.chosen:
            yield f"Measured with {match.chosen}."
        size, wanted = match.cell.sentences, rule.sentences if rule is not None else None
        if wanted is not None and size is not None and size != wanted:
            scale = "Scale reduced" if size < wanted else "Scale"
            yield f"{scale}: {size:,} sentence pairs per language (published: {wanted:,})."
        if encoder_differs(self.publication, match.cell):
            encoder = self.publication.encoder[0]
            yield f"Measured on {match.cell.encoder} (published: {encoder})."

    def _entry(self, spot: _Spot) -> Entry:
        texts = [
            note.text
            for note in self.table.notes
            if note.column == spot.column and note.row in (spot.row.row, None)
        ]
        found, match = spot.row.at(spot.column, spot.part), spot.row.match
        if found is None or match is None:
            return self._unmeasured(spot, self.notes.numbers(texts))
        known = self.judge.of(found.cell or match.cell, found.name)
        told = remarks(known, spot.unit) if known is not None else ()
        marks = self.notes.numbers([*texts, *found.remarks, *told])
        return self._measured(spot, found, match, marks)

    def _unmeasured(self, spot: _Spot, marks: tuple[int, ...]) -> Entry:
        """A figure that nothing measures, or that was not run: the entry says which."""
        label, rule = spot.row.row, spot.rule
        ruled = self.table.match is not None and self.table.rows[label].match is not None
        measurable = ruled and (
            self.table.analysis is not None or rule is not None or self._is_mean(spot)
        )
        reason = untouched(self.results, rule) if measurable and rule is not None else None
        how = UNTOUCHED if reason is not None else _NOT_RUN if measurable else "published alone"
        why = spot.row.fill.values.get(spot.column) if spot.row.fill is not None else None
        if how == _NOT_RUN and isinstance(why, str):
            how = why
        self._record(spot, *[None] * 9, how)
        if reason is not None:
            marks = tuple(sorted({*marks, self.notes.number(reason)}))
        elif not measurable:
            if not spot.printed:
                return Entry("–", notes=marks, state="empty")
            return Entry(spot.printed, notes=marks, state="published")
        return Entry(how, below=spot.printed, notes=marks, state="absent")

    def _is_mean(self, spot: _Spot) -> bool:
        """Whether a figure is a mean over columns; there is none of chosen params."""
        rule = self.table.rows[spot.row.row].match
        return spot.column in self.table.means and (rule is None or rule.show == "value")

    def _measured(
        self, spot: _Spot, found: Measured, match: Match, marks: tuple[int, ...]
    ) -> Entry:
        cell, unit, value = found.cell or match.cell, spot.unit, found.value
        against = spot.row.comparable(spot.column, spot.part, spot.figure)
        difference = None if against is None else value.mean * unit.scale - against
        low, high = self.judge.interval(cell, found.name) or (None, None)
        bounds = (None if bound is None else bound * unit.scale for bound in (low, high))
        params = json.dumps(cell.params, sort_keys=True, ensure_ascii=False)
        notes = " ".join(self.notes.texts[number - 1] for number in (*spot.of_row, *marks))
        numbers = (value.mean * unit.scale, *bounds, value.n, difference)
        self._record(spot, *numbers, cell.method, params, cell.encoder, cell.sentences, notes)
        plan, name = self.results.plan, found.name
        sign = plan.measured(name[0], name[2]).sign if name is not None else 1
        # a layer, a weight or a number of pairs is not better for being larger
        judged = not self.table.counts and (spot.rule is None or spot.rule.show == "value")
        return Entry(
            unit.show(value.mean),
            unit.show_interval(low, high),
            spot.printed,
            "" if difference is None else signed(difference, unit.decimals),
            mark=self.judge.mark(cell, found.name),
            notes=marks,
            worse=difference * sign < 0 if judged and difference and sign else None,
        )

    def _record(self, spot: _Spot, *found: object) -> None:
        metric = parts_of(self.table)[spot.part]
        place = (self.name, self.label, spot.row.row, spot.column, metric, spot.figure)
        self.records.append((*place, *found))
