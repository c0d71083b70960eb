"""The papers' tables in their own shape: measured beside published, with the difference, and
everything in which the two are not alike.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from raxalign.analysis.cells import MEANS, Cell, Name, Value, languages_of, over_runs
from raxalign.config.published import Note, Publication, PublishedTable, Rule, read
from raxalign.report._marks import Judge, remarks
from raxalign.report._matching import (
    Match,
    differing,
    encoder_differs,
    find,
    match_row,
    sweep,
    untouched,
)
from raxalign.report._numbers import Unit, published_unit, signed
from raxalign.report._own import measured
from raxalign.report._results import Results
from raxalign.report._untouched import UNTOUCHED
from raxalign.report.document import (
    Analysis,
    Entry,
    Fill,
    Line,
    Notes,
    Section,
    Table,
    lifted,
    renumbered,
)
from raxalign.report.tables import FEW

RECORD = (
    "publication",
    "table",
    "row",
    "column",
    "metric",
    "published",
    "measured",
    "low",
    "high",
    "seeds",
    "difference",
    "method",
    "params",
    "encoder",
    "sentences",
    "notes",
)
_SHORT = {"exact_match": "EM", "f1": "F1"}


@dataclass(frozen=True)
class Measured:
    """A measured value of one published figure, its name among the results, and what is to be said
    of it.
    """

    value: Value
    name: Name | None
    remarks: tuple[str, ...] = ()


@dataclass
class _Maker:
    """Makes one table."""

    results: Results
    judge: Judge
    publication: Publication
    table: PublishedTable
    anchor: str
    measure: Callable[[Cell], Fill | None] | None = None
    notes: Notes = field(default_factory=Notes)
    records: list[tuple[object, ...]] = field(default_factory=list)
    _fill: Fill | None = None  # of the row that is being made, as are the numbers of its notes
    _of_row: tuple[int, ...] = ()

    def make(self) -> Table:
        """The table, its marks included."""
        lines = [self._line(row) for row in self.table.rows]
        whole = [note.text for note in self.table.notes if note.row is None and note.column is None]
        caption = " ".join(
            [f"{self.publication.short}, {self.table.source}.", self._unit_in_words(), *whole]
        )
        measured = [entry for line in lines for entry in line.entries if entry.state == "value"]
        everywhere, lines = lifted(lines, measured)
        caption += "".join(f" {self.notes.texts[number - 1]}" for number in everywhere)
        caption += (
            " Nothing of it was run."
            if (self.table.match or self.table.analysis) and not measured
            else ""
        )
        table = Table(
            self.anchor,
            self.table.title,
            self._headings(),
            tuple(lines),
            caption,
            tuple(self.notes.texts),
            folded=not measured,
        )
        return renumbered(table)

    def _unit_in_words(self) -> str:
        split = (
            {"dev": "on the development set", "test": "on the test set"}[self.table.split]
            if self.table.match
            else ""
        )
        unit = (
            (self.table.unit or "")
            .replace("_", " ")
            .replace("em and", "exact match and")
            .replace("percent", "in percent")
            .replace("f1", "F1")
        )
        text = " ".join(part for part in (unit, split) if part)
        return f"{text[0].upper()}{text[1:]}." if text else ""

    def _headings(self) -> tuple[str, ...]:
        parts = self._parts()
        return tuple(
            f"{column} {_SHORT.get(part, part)}" if part else column
            for column in self.table.columns
            for part in parts
        )

    def _parts(self) -> tuple[str, ...]:
        rule = self.table.match
        return rule.metrics if rule is not None and rule.metrics else ("",)

    def _line(self, row: str) -> Line:
        match = match_row(self.results, self.table, row)
        self._fill = (
            self.measure(match.cell) if self.measure is not None and match is not None else None
        )
        self._of_row = self._row_notes(row, match)
        entry = self.table.rows[row]
        printed = [figure for value in entry.values for figure in _figures(value)]
        unit = published_unit(
            entry.unit or self.table.unit, [figure for figure in printed if figure is not None]
        )
        group, _, rest = (
            row.partition("/") if all("/" in other for other in self.table.rows) else ("", "", row)
        )
        entries: list[Entry] = []
        for column, value in zip(self.table.columns, entry.values, strict=True):
            found = self._measured(row, column, match)
            for part, figure in enumerate(_figures(value, len(self._parts()))):
                here = found[part] if part < len(found) else None
                entries.append(self._entry(row, column, part, unit, figure, here, match))
        return Line(
            rest,
            tuple(entries),
            measured(match.cell, self.results.plan) if match is not None else "",
            self._of_row,
            group,
        )

    def _row_notes(self, row: str, match: Match | None) -> tuple[int, ...]:
        texts = [note.text for note in self.table.notes if note.row == row and note.column is None]
        if match is not None:
            rule = self.table.rows[row].match
            texts += [self._fill.remark] if self._fill is not None else []
            texts += [f"Measured with {text}." for text in match.differs]
            texts += [f"Measured with {match.chosen}."] if match.chosen else []
            size = match.cell.sentences
            if (
                rule is not None
                and rule.sentences is not None
                and size is not None
                and size != rule.sentences
            ):
                scale = "Scale reduced" if size < rule.sentences else "Scale"
                texts.append(
                    f"{scale}: {size:,} sentence pairs a language (published: {rule.sentences:,})."
                )
            if encoder_differs(self.publication, match.cell):
                texts.append(
                    f"Measured on {match.cell.encoder} (published: {self.publication.encoder[0]})."
                )
        return self.notes.numbers(texts)

    def _measured(self, row: str, column: str, match: Match | None) -> list[Measured | None]:
        """The values beside a printed cell, one for each metric of the rule."""
        if match is None:
            return []
        if self.table.analysis is not None:
            value = self._fill.values.get(column) if self._fill is not None else None
            return [Measured(value, None)] if isinstance(value, Value) else []
        scope = self.table.means.get(column)
        if scope is not None:
            return self._mean(row, match, scope)
        rule = self.table.rule(row, column)
        if rule is None:
            return []
        if rule.stem or rule.best_of:
            return [self._of_sweep(match, rule)]
        names = find(self.results, match.cell, rule, self.table.split)
        by_metric = {name[2]: name for name in names}
        wanted = rule.metrics or (rule.metric,)
        return [
            (
                Measured(
                    match.cell.values[name], name, tuple(self._remarks(match.cell, name, rule))
                )
                if (name := by_metric.get(metric or ""))
                else None
            )
            for metric in wanted
        ]

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
        pairs = cell.values.get((task, lang, f"{metric}_pairs", split))
        if pairs is not None and pairs.mean < FEW:
            yield f"Over fewer than {FEW} word pairs: too few to tell anything."

    def _of_sweep(self, match: Match, rule: Rule) -> Measured | None:
        points = sweep(self.results, match.cell, rule, self.table.split)
        if rule.best_of is None:
            found = {
                (layer, alpha): name
                for (layer, alpha), name in points.items()
                if (layer, alpha) == (rule.layer, rule.alpha)
            }
            return next((Measured(match.cell.values[name], name) for name in found.values()), None)
        if not points:
            return None
        (layer, alpha), name = max(points.items(), key=lambda item: match.cell.values[item[1]].mean)
        value = match.cell.values[name]
        chosen = "The best point was chosen on the evaluated data, as in the paper."
        if rule.show != "value":
            return Measured(
                Value(layer if rule.show == "layer" else alpha, None, value.n), None, (chosen,)
            )
        return Measured(value, name, (chosen,))

    def _mean(self, row: str, match: Match, scope: str) -> list[Measured | None]:
        """The mean over the columns that were measured, seed by seed."""
        columns = [
            entry
            for entry in self.table.columns
            if entry not in self.table.means and (scope == "all" or entry != "en")
        ]
        parts = [self._measured(row, entry, match) for entry in columns]
        means: list[Measured | None] = []
        for part in range(len(self._parts())):
            there = [
                (entry, found[part])
                for entry, found in zip(columns, parts, strict=True)
                if part < len(found) and found[part] is not None
            ]
            names = [
                found.name for _, found in there if found is not None and found.name is not None
            ]
            if not names or len({name[3] for name in names}) > 1:
                means.append(None)
                continue
            value = _mean_value([match.cell.by_seed[name] for name in names])
            remarks = {
                text: None for _, found in there if found is not None for text in found.remarks
            }
            missing = (
                f"Mean over {len(names)} of {len(columns)} columns; a difference is to the"
                " published mean over the same."
                if len(names) < len(columns)
                else ""
            )
            means.append(
                Measured(
                    value,
                    self._mean_name(match.cell, names),
                    (*remarks, *([missing] if missing else ())),
                )
            )
        return means

    def _mean_name(self, cell: Cell, names: Sequence[Name]) -> Name | None:
        """The name of the mean over languages that is the mean of these; None where it is a mean
        that no table of the grid has.
        """
        (task, _, metric, split), langs = names[0], {name[1] for name in names}
        if len({(name[0], *name[2:]) for name in names}) > 1:
            return None
        there = [name for mean in MEANS if (name := (task, mean, metric, split)) in cell.values]
        return next(
            (
                name
                for name in there
                if set(languages_of(cell, name, self.results.plan.pivot)) == langs
            ),
            None,
        )

    def _comparable(
        self, row: str, column: str, part: int, figure: float | None, match: Match | None
    ) -> float | None:
        """The figure that the difference is to: what the printed one should be, and for a mean over
        some columns the mean over the same.
        """
        for note in self.table.notes:
            if note.row == row and note.column == column and note.instead is not None:
                figure = _figures(note.instead, len(self._parts()))[part]
        scope = self.table.means.get(column)
        if scope is None or match is None:
            return figure
        values = []
        columns = [
            entry
            for entry in self.table.columns
            if entry not in self.table.means and (scope == "all" or entry != "en")
        ]
        there = [
            entry
            for entry in columns
            if (found := self._measured(row, entry, match))
            and part < len(found)
            and found[part] is not None
        ]
        if len(there) == len(columns):
            return figure
        for entry in there:
            printed = _figures(
                self.table.rows[row].values[self.table.columns.index(entry)], len(self._parts())
            )[part]
            if printed is None:
                return None
            values.append(printed)
        return math.fsum(values) / len(values) if values else None

    def _entry(
        self,
        row: str,
        column: str,
        part: int,
        unit: Unit,
        figure: float | None,
        found: Measured | None,
        match: Match | None,
    ) -> Entry:
        own: list[Note] = [
            note for note in self.table.notes if note.column == column and note.row in (row, None)
        ]
        known = (
            self.judge.of(match.cell, found.name)
            if found is not None and match is not None
            else None
        )
        told = (
            *(found.remarks if found is not None else ()),
            *(remarks(known, unit) if known is not None else ()),
        )
        marks = self.notes.numbers([*(note.text for note in own), *told])
        printed = "" if figure is None else Unit(1, unit.decimals).show(figure)
        record = [
            self.anchor.partition("-")[0],
            self.anchor.partition("-")[2],
            row,
            column,
            self._parts()[part],
            figure,
        ]
        if found is None:
            measurable = column in self.table.means or self.table.rule(row, column) is not None
            measurable = (
                measurable
                and self.table.rows[row].match is not None
                and self.table.match is not None
            )
            measurable = measurable or self.table.analysis is not None
            rule = self.table.rule(row, column)
            reason = untouched(self.results, rule) if measurable and rule is not None else None
            how = (
                UNTOUCHED if reason is not None else "not run" if measurable else "published alone"
            )
            self.records.append((*record, *[None] * 9, how))
            if reason is not None:
                return Entry(
                    how,
                    below=printed,
                    notes=tuple(sorted({*marks, self.notes.number(reason)})),
                    state="absent",
                )
            if not measurable:
                return Entry(printed or "–", notes=marks, state="published" if printed else "empty")
            why = self._fill.values.get(column) if self._fill is not None else None
            return Entry(
                why if isinstance(why, str) else "not run",
                below=printed,
                notes=marks,
                state="absent",
            )
        against = self._comparable(row, column, part, figure, match)
        difference = None if against is None else found.value.mean * unit.scale - against
        assert match is not None, "what is measured is of a cell"
        low, high = self.judge.interval(match.cell, found.name) or (None, None)
        params = json.dumps(match.cell.params, sort_keys=True, ensure_ascii=False)
        texts = " ".join(self.notes.texts[n - 1] for n in (*self._of_row, *marks))
        bounds = (
            None if low is None else low * unit.scale,
            None if high is None else high * unit.scale,
        )
        numbers = (found.value.mean * unit.scale, *bounds, found.value.n, difference)
        self.records.append(
            (
                *record,
                *numbers,
                match.cell.method,
                params,
                match.cell.encoder,
                match.cell.sentences,
                texts,
            )
        )
        delta = "" if difference is None else signed(difference, unit.decimals)
        spread, mark = unit.show_interval(low, high), self.judge.mark(match.cell, found.name)
        judged = (
            rule := self.table.rule(row, column)
        ) is None or rule.show == "value"  # a layer or a weight is no better for being larger
        worse = difference < 0 if judged and difference else None
        return Entry(
            unit.show(found.value.mean), spread, printed, delta, mark=mark, notes=marks, worse=worse
        )


def published_sections(
    results: Results, judge: Judge, names: Sequence[str], analyses: Sequence[Analysis] = ()
) -> tuple[list[Section], list[tuple[object, ...]]]:
    """A section a publication, and a record a figure (`RECORD`); analyses fill the tables that name
    them.
    """
    sections, records, measures = (
        [],
        [],
        {analysis.name: analysis.measure for analysis in analyses if analysis.name},
    )
    for name in names:
        publication = read(name)
        makers = [
            _Maker(
                results,
                judge,
                publication,
                table,
                f"{name}-{key}",
                measures.get(table.analysis or ""),
            )
            for key, table in publication.tables.items()
        ]
        tables = tuple(maker.make() for maker in makers)
        records += [record for maker in makers for record in maker.records]
        sections.append(
            Section(name, publication.short, publication.paper, tables, remarks=publication.notes)
        )
    return sections, records


def _figures(value: float | Sequence[float] | None, parts: int = 1) -> list[float | None]:
    if value is None or isinstance(value, int | float):
        return [value] * max(parts, 1)
    return list(value)


def _mean_value(columns: Sequence[object]) -> Value:
    """The mean over columns, seed by seed; a column that all seeds share counts for each of
    them.
    """
    by_column = [dict(column) for column in columns]  # type: ignore[call-overload]
    seeds = {seed for column in by_column for seed in column if seed is not None} or {None}
    for column in by_column:
        seeds &= set(column) | (seeds if None in column else set())
    means = [
        math.fsum(column.get(seed, column.get(None, math.nan)) for column in by_column)
        / len(by_column)
        for seed in sorted(seeds, key=str)
    ]
    return over_runs(means) if means else Value(math.nan, None, 0)
