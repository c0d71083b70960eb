"""The papers' tables in their own shape, measured next to published."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from raxalign.analysis.cells import MEANS, Cell, Name, Value
from raxalign.grid.published import Publication, PublishedTable, Rule
from raxalign.measured import FEW
from raxalign.report.document import Entry, Line, Part, Share, Table, TableNotes
from raxalign.report.matching import Matcher, RowMatch
from raxalign.report.sections.base import Fill, Measure, Section
from raxalign.report.tables import row_parts
from raxalign.values.numbers import NumberFormat
from raxalign.values.scoreboard import UNTOUCHED, Scoreboard

RECORD = (
    *("publication", "table", "row", "column", "metric", "published"),
    *("measured", "low", "high", "seeds", "difference"),
    *("method", "params", "encoder", "sentences", "notes"),
)
"""The columns of published.csv: a figure, what was measured, and by which cell."""
_NOT_RUN = "not run"
_SHORT = {"exact_match": "EM", "f1": "F1"}
_SETS = {"dev": "on the development set", "test": "on the test set"}


@dataclass(frozen=True)
class MeasuredFigure:
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
    analysis fills the table, what it found for the cell (`fill`). `unit` is that of its figures,
    and `notes` are the numbers of its own notes.
    """

    matcher: Matcher
    table: PublishedTable
    row: str
    match: RowMatch | None
    fill: Fill | None
    unit: NumberFormat
    notes: tuple[int, ...]

    @property
    def results(self) -> Scoreboard:
        """The results of the grid."""
        return self.matcher.results

    @property
    def rule(self) -> Rule | None:
        """Its own rule."""
        return self.table.rows[self.row].match

    def at(self, column: str, part: int) -> MeasuredFigure | None:
        """Return the value of a column, by the part of its figure (the metric of the rule)."""
        found = self._values(column)
        return found[part] if part < len(found) else None

    def comparable(self, column: str, part: int, figure: float | None) -> float | None:
        """Return the figure that the difference is to: what the printed one should be, and for a
        mean over some columns the mean over the same.
        """
        parts = len(parts_of(self.table))
        for note in self.table.notes:
            if (note.row, note.column) == (self.row, column) and note.instead is not None:
                figure = figures_of(note.instead, parts)[part]
        if column not in self.table.means or self.match is None:
            return figure
        columns = self._meant(column)
        there = [entry for entry in columns if self.at(entry, part) is not None]
        if len(there) == len(columns):
            return figure
        values = dict(zip(self.table.columns, self.table.rows[self.row].values, strict=True))
        printed = [figures_of(values[entry], parts)[part] for entry in there]
        known = [value for value in printed if value is not None]
        return math.fsum(known) / len(known) if known and len(known) == len(printed) else None

    def _values(self, column: str) -> Sequence[MeasuredFigure | None]:
        """The values of a column, one for each metric of the rule."""
        if self.match is None:
            return []
        if self.table.analysis is not None:
            value = self.fill.values.get(column) if self.fill is not None else None
            return [MeasuredFigure(value, None)] if isinstance(value, Value) else []
        cell, rule = self.match.cell, self.table.rule(self.row, column)
        if column in self.table.means:
            return [self._mean(cell, column, part) for part in range(len(parts_of(self.table)))]
        if rule is None:
            return []
        if rule.stem or rule.best_of:
            return [self._of_sweep(cell, rule)]
        if rule.per_language is not None:
            return [self._of_choice(cell, rule)]
        by_metric = {name[2]: name for name in self.matcher.find(cell, rule, self.table.split)}
        names = [by_metric.get(metric or "") for metric in rule.metrics or (rule.metric,)]
        return [
            name and MeasuredFigure(cell.values[name], name, self._remarks(cell, name, rule))
            for name in names
        ]

    def _meant(self, column: str) -> list[str]:
        """The columns that a mean is over."""
        single = [entry for entry in self.table.columns if entry not in self.table.means]
        every = self.table.means[column] == "all"
        return [entry for entry in single if every or entry != "en"]

    def _remarks(self, cell: Cell, name: Name, rule: Rule) -> tuple[str, ...]:
        task, lang, metric, split = name
        params = self.results.task_params.get(task, {})
        told = [f"Task {task} with {text}." for text in Matcher.differing(params, rule.expects)]
        selection = params.get("selection")
        if split != self.table.split:
            told.append(f"Measured on the {split} set (published: {self.table.split}).")
        if split == "dev" and selection not in (None, "last"):
            told.append(f"The {split} set also chose the checkpoint (selection: {selection}).")
        if selection == "target-dev":
            told.append(
                "The checkpoint was chosen on the target language's dev set: not zero-shot."
            )
        counted = self.results.plan.count_of(task, metric)
        pairs = cell.values.get((task, lang, counted, split))
        if pairs is not None and pairs.mean < FEW:
            told.append(f"Over fewer than {FEW} word pairs: too few for a conclusion.")
        if cell.runs_of(name) == 1:
            told.append("One seed.")
        return tuple(told)

    def _of_sweep(self, cell: Cell, rule: Rule) -> MeasuredFigure | None:
        """The point of a sweep that a rule names, or the best one."""
        points = self.matcher.sweep(cell, rule, self.table.split)
        if rule.best_of is None:
            named = [name for point, name in points.items() if point == (rule.layer, rule.alpha)]
            return MeasuredFigure(cell.values[named[0]], named[0]) if named else None
        if not points:
            return None
        sign = self.results.plan.measured(*next(iter(points.values()))[::2]).sign
        best = max(points, key=lambda point: sign * cell.values[points[point]].mean)
        value, (layer, alpha) = cell.values[points[best]], best
        chosen = ("The best configuration was chosen on the evaluated data, as in the paper.",)
        if rule.show == "value":
            return MeasuredFigure(value, points[best], chosen)
        shown = Value(layer if rule.show == "layer" else alpha, None, value.n)
        return MeasuredFigure(shown, None, chosen)

    def _of_choice(self, cell: Cell, rule: Rule) -> MeasuredFigure | None:
        """The value of a column at the param that its dev value chooses, or that param."""
        split, there = self.table.split, self.matcher.choices(cell, rule)
        asked = [name for other in there for name in self.matcher.find(other, rule, split)]
        chosen = self.results.best_by(there, asked[0]) if asked else None
        if asked and chosen is None and len(there) == 1:
            chosen = cell  # one value needs no dev set
        names = self.matcher.find(chosen, rule, split) if chosen is not None else []
        if chosen is None or not names:
            return None
        if rule.show == "alpha":
            weight = Value(float(chosen.params[rule.per_language or ""]), None, 1)
            return MeasuredFigure(weight, None, (), chosen)
        told = self._remarks(chosen, names[0], rule)
        return MeasuredFigure(chosen.values[names[0]], names[0], told, chosen)

    def _mean(self, cell: Cell, column: str, part: int) -> MeasuredFigure | None:
        """The mean over the columns that were measured, seed by seed."""
        columns = self._meant(column)
        there = [found for entry in columns if (found := self.at(entry, part)) is not None]
        named = [(found.cell or cell, found.name) for found in there if found.name is not None]
        if not named or len({name[3] for _, name in named}) > 1:
            return None
        remarks = dict.fromkeys(text for found in there for text in found.remarks)
        if len(named) < len(columns):
            missing = (
                f"Mean over {len(named)} of {len(columns)} columns; a difference is to the"
                " published mean over the same."
            )
            remarks[missing] = None
        # the mean over languages of one cell that is the mean of these, where a table has it
        names, pivot, known = [name for _, name in named], self.results.plan.pivot, None
        if all(own is cell for own, _ in named) and len({(n[0], *n[2:]) for n in names}) == 1:
            task, _, metric, split = names[0]
            for name in ((task, mean, metric, split) for mean in reversed(MEANS)):
                own = set(cell.languages_of(name, pivot)) if name in cell.values else set()
                known = name if own == {name[1] for name in names} else known
        return MeasuredFigure(_mean_of([c.by_seed[n] for c, n in named]), known, tuple(remarks))


def parts_of(table: PublishedTable) -> tuple[str, ...]:
    """Return the metrics of each figure of a table; one empty name where a figure is one number."""
    return table.match.metrics if table.match is not None and table.match.metrics else ("",)


def figures_of(value: float | Sequence[float] | None, parts: int = 1) -> list[float | None]:
    """Return the numbers of a printed figure, one for each of its parts."""
    if value is None or isinstance(value, int | float):
        return [value] * max(parts, 1)
    return list(value)


def _mean_of(columns: Sequence[Mapping[Any, float]]) -> Value:
    """The mean over columns (seed -> value), seed by seed; a seed None counts for each."""
    seeds = {seed for column in columns for seed in column if seed is not None} or {None}
    for column in columns:
        seeds &= set(column) | (seeds if None in column else set())
    means = [
        math.fsum(column.get(seed, column.get(None, math.nan)) for column in columns) / len(columns)
        for seed in sorted(seeds, key=str)
    ]
    return Value.of(means) if means else Value(math.nan, None, 0)


@dataclass
class TableMaker:
    """Makes the table `label` of the publication that is called `name`; `measure` is the analysis
    that fills it. `records` then has a row (`RECORD`) per figure.
    """

    matcher: Matcher
    name: str
    label: str
    measure: Measure | None = None
    notes: TableNotes = field(default_factory=TableNotes)
    records: list[tuple[object, ...]] = field(default_factory=list)

    @property
    def results(self) -> Scoreboard:
        """The results of the grid."""
        return self.matcher.results

    @property
    def table(self) -> PublishedTable:
        """The published table."""
        return self.matcher.publication.tables[self.label]

    def make(self) -> Table:
        """Return the table, its marks included."""
        table = self.table
        lines = tuple(map(self._line, table.rows))
        whole = [note.text for note in table.notes if note.row is None and note.column is None]
        entries = [entry for line in lines for entry in line.entries]
        found = any(entry.state == "value" for entry in entries)
        if not found and {e.text for e in entries if e.state == "absent"} & {_NOT_RUN, UNTOUCHED}:
            whole.append("None of these cells were run.")
        unit = (table.unit or "").replace("_", " ").replace("em and", "exact match and")
        unit = unit.replace("percent", "in percent").replace("f1", "F1")
        split = _SETS[table.split] if table.match and not table.counts else ""
        words = " ".join(part for part in (unit, split) if part)
        words = words[:1].upper() + words[1:]
        licence = f"licence: {table.licence}" if table.licence else ""
        facts = "; ".join(fact for fact in (table.url, licence) if fact)
        source = f"{table.source} ({facts})" if facts else table.source
        caption = [f"{self.matcher.publication.short}, {source}.", words and f"{words}.", *whole]
        columns = tuple(
            f"{column} {_SHORT.get(part, part)}" if part else column
            for column in table.columns
            for part in parts_of(table)
        )
        made = Table(
            f"{self.name}-{self.label}",
            table.title,
            columns,
            lines,
            " ".join(caption),
            corner="method" if table.match else "row",  # of sizes of data sets, say
            folded=not found,
        )
        return self.notes.on(made)

    def _line(self, label: str) -> Line:
        match = self.matcher.match(self.table, label)
        printed = self.table.rows[label]
        fill = self.measure(match.cell) if self.measure is not None and match is not None else None
        notes = self.notes.numbers(self._row_notes(label, match, fill))
        numbers = [number for value in printed.values for number in figures_of(value)]
        known = [number for number in numbers if number is not None]
        unit = NumberFormat.published(printed.unit or self.table.unit, known)
        row = MeasuredRow(self.matcher, self.table, label, match, fill, unit, notes)
        entries = tuple(
            self._entry(row, column, part, figure)
            for column, value in zip(self.table.columns, printed.values, strict=True)
            for part, figure in enumerate(figures_of(value, len(parts_of(self.table))))
        )
        grouped = all("/" in other for other in self.table.rows)
        group, _, rest = label.partition("/") if grouped else ("", "", label)
        apart = row.rule.per_language if row.rule is not None else None
        sub = self.results.measured_by(match.cell, apart) if match is not None else ""
        return Line(rest, entries, sub, notes, group)

    def _row_notes(self, row: str, match: RowMatch | None, fill: Fill | None) -> Iterator[str]:
        """What must be said of a row: in what its cell is not as published."""
        for note in self.table.notes:
            if note.row == row and note.column is None:
                yield note.text
        if match is None:
            return
        if fill is not None:
            yield fill.remark
        yield from (f"Measured with {text}." for text in match.differs)
        if match.chosen:
            yield f"Measured with {match.chosen}."
        rule, size = self.table.rows[row].match, match.cell.sentences
        wanted = rule.sentences if rule is not None else None
        if wanted is not None and size is not None and size != wanted:
            scale = "Scale reduced" if size < wanted else "Scale"
            yield f"{scale}: {size:,} sentence pairs per language (published: {wanted:,})."
        whole = next((self.table.rule(row, column) for column in self.table.columns), None)
        if encoder := self.matcher.other_encoder(whole, match.cell):
            yield f"Measured on {match.cell.encoder} (published: {encoder})."

    def _entry(self, row: MeasuredRow, column: str, part: int, figure: float | None) -> Entry:
        """The entry of one printed figure, and its record."""
        texts = [
            note.text
            for note in self.table.notes
            if note.column == column and note.row in (row.row, None)
        ]
        printed = "" if figure is None else NumberFormat(1, row.unit.decimals).show(figure)
        found = row.at(column, part)
        place = (self.name, self.label, row.row, column, parts_of(self.table)[part], figure)
        if found is None or row.match is None:
            entry, told = self._unmeasured(row, column, printed, texts)
            self.records.append((*place, *[None] * 9, told))
            return entry
        cell, unit, value = found.cell or row.match.cell, row.unit, found.value
        known = self.results.at(cell, found.name)
        texts += [*found.remarks, *(known.remarks(unit) if known is not None else ())]
        marks = self.notes.numbers(texts)
        against = row.comparable(column, part, figure)
        difference = None if against is None else value.mean * unit.scale - against
        ends = self.results.ends(cell, found.name, unit.scale) or (None, None)
        rule, worse = self.table.rule(row.row, column), None
        sign = 1 if found.name is None else self.results.plan.measured(*found.name[::2]).sign
        # a layer, a weight or a number of pairs is not better for being larger
        if difference and sign and not self.table.counts and (not rule or rule.show == "value"):
            worse = difference * sign < 0
        params = json.dumps(cell.params, sort_keys=True, ensure_ascii=False)
        notes = " ".join(self.notes.texts[number - 1] for number in (*row.notes, *marks))
        numbers = (value.mean * unit.scale, *ends, value.n, difference)
        facts = (cell.method, params, cell.encoder, cell.sentences, notes)
        self.records.append((*place, *numbers, *facts))
        return Entry(
            unit.show(value.mean),
            self.results.shown(cell, found.name, unit),
            printed,
            "" if difference is None else NumberFormat.signed(difference, unit.decimals),
            mark=self.results.mark(cell, found.name),
            notes=marks,
            worse=worse,
        )

    def _unmeasured(
        self, row: MeasuredRow, column: str, printed: str, texts: Sequence[str]
    ) -> tuple[Entry, str]:
        """A figure that nothing measures, or that was not run: its entry, and which it is."""
        marks, rule = self.notes.numbers(texts), self.table.rule(row.row, column)
        # of params that were chosen there is no mean
        mean = column in self.table.means and (row.rule is None or row.rule.show == "value")
        ruled = self.table.match is not None and row.rule is not None
        if not ruled or (self.table.analysis is None and rule is None and not mean):
            state = Entry(printed or "–", notes=marks, state="published" if printed else "empty")
            return state, "published alone"
        if rule is not None:
            rule = self.matcher.stand_in(rule)
        reason = self.matcher.untouched(rule) if rule is not None else None
        why = row.fill.values.get(column) if row.fill is not None else None
        how = why if isinstance(why, str) else _NOT_RUN
        if reason is not None:
            how, marks = UNTOUCHED, tuple(sorted({*marks, self.notes.number(reason)}))
        return Entry(how, below=printed, notes=marks, state="absent"), how


@final
class PublishedTables(Section):
    """The tables of each paper that the grid names (`published`): measured figures with the
    published ones below, the difference, and notes on everything in which the two are not alike.
    """

    VERSION = 1
    place = 60

    def share(self) -> Share | None:
        """Return a part per paper, and a record per figure in published.csv."""
        parts, records = [], []
        for name in self.material.published:
            part, rows = paper_part(self.results, name, self.material.measure)
            parts.append(part)
            records += [dict(zip(RECORD, row, strict=True)) for row in rows]
        files = {"published.csv": "".join(row_parts(records, "csv", RECORD))}
        return Share(tuple(parts), files=files) if parts else None


def paper_part(
    results: Scoreboard, name: str, measure: Callable[[str], Measure | None]
) -> tuple[Part, list[tuple[object, ...]]]:
    """Make the part of a paper, filled by what `measure` finds, and a record per figure."""
    short, paper = Publication.short_name(name), Publication.read(name)
    makers = []
    for label, table in paper.tables.items():
        fill = measure(table.analysis) if table.analysis else None
        makers.append(TableMaker(Matcher(results, paper), short, label, fill))
    tables = tuple(maker.make() for maker in makers)
    records = [record for maker in makers for record in maker.records]
    return Part(short, paper.short, paper.paper, tables, remarks=paper.notes), records
