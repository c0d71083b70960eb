"""One table of a paper in its own shape: measured next to published, with the difference, and notes
on everything in which the two are not alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from raxalign.config.published import Publication, PublishedTable, Rule
from raxalign.report.cells.judge import Judge, remarks
from raxalign.report.cells.names import capitalized, measured
from raxalign.report.cells.numbers import Unit, published_unit, signed
from raxalign.report.cells.results import Results
from raxalign.report.cells.untouched import UNTOUCHED
from raxalign.report.document import Entry, Line, Notes, Table, lifted, renumbered
from raxalign.report.published.fill import Measure
from raxalign.report.published.matching import Match, encoder_differs, match_row, untouched
from raxalign.report.published.values import Measured, MeasuredRow, figures_of, parts_of

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
