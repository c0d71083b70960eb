"""Every method in every language, the best one in each at each size, and the ranks of methods where
a table has more than two, in the manner of critical-difference diagrams, from the comparisons of
all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import final

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.measured import spoken
from raxalign.report.compared import Ranking
from raxalign.report.document import Entry, Line, Part, Share, Table, caption
from raxalign.report.drawing import Panel, Series, Sketch
from raxalign.report.sections.base import Section
from raxalign.report.tables import ShownLines
from raxalign.values.comparisons import ALL, Compared, comparisons
from raxalign.values.scoreboard import TableKey

_DOTS = 80  # of a panel, of which there are as many as it takes
_RANKED = 12  # methods whose pairs are all tested for the page


@final
class Languages(Section):
    """A figure per task: the value of each method in each language, with its interval; and one of
    the mean of each method over its rank, with the interval of the rank, and lines that join
    neighbours of which no two differ significantly. A table per task has the best method per
    language and number of sentence pairs.
    """

    VERSION = 2
    place = 8

    def share(self) -> Share | None:
        """Return the figures; None where every value is over too few pairs."""
        tables, count = self.results.leading_tables(), len(self.results.cells)
        lead = caption("unranked", count=count, most=_RANKED) if count > _RANKED else ""
        part = Part("languages", "Methods by language", lead)
        best = (one for table in self.results.compared_tables() for one in self._best(table))
        folded = (
            replace(one, folded=place > 0 or len(one.columns) < 2) for place, one in enumerate(best)
        )
        every = self.one_part(part, map(self._sketch, tables), folded)
        ranked = self.one_part(Part("ranks", "Ranks of methods"), self._ranked(tables))
        parts = (part for share in (every, ranked) if share is not None for part in share.parts)
        shown = tuple(parts)
        return Share(shown) if shown else None

    def _sketch(self, table: TableKey) -> Sketch:
        results, (task, metric, split) = self.results, table
        shown = ShownLines.of(results, table)
        cells, labels, scale = shown.cells, shown.labels, results.unit(task, metric).scale
        every = results.names_of(table)
        each = math.ceil(len(every) / math.ceil(len(every) * len(cells) / _DOTS))
        panels = []
        for start in range(0, len(every), each):  # about equally many languages per panel
            names = every[start : start + each]
            dots = []
            for place, (label, cell) in enumerate(zip(labels, cells, strict=True)):
                found = [cell.values.get(name) for name in names]
                means = [scale * value.mean if value else math.nan for value in found]
                ends = [results.ends(cell, name, scale) for name in names]
                dots.append(Series(label, (), means, ends, "dots", place))
            heads = [MEANS.get(name[1], name[1]).replace(", ", ",\n") for name in names]
            panels.append(Panel("", "", results.axis(task, metric), dots, heads))
        about = caption("by_language", split=split) + shown.one_per_method
        about += shown.untouched(task)
        for name in every:
            if Cell.shared([(cell, name) for cell in cells], results.plan.pivot) is not None:
                about += f" {results.column(name[1]).capitalize()}: {caption('uneven')}."
        basis = results.basis(task, cells, metric)
        return Sketch(f"languages-{task}", f"{task}: {spoken(metric)}", about, panels, basis)

    def _best(self, table: TableKey) -> Iterator[Table]:
        """Yield the table of the best method per language and size, where there are several."""
        results, (task, metric, _) = self.results, table
        names = [
            name
            for name in results.names_of(table)
            if Cell.shared([(cell, name) for cell in results.cells], results.plan.pivot) is None
        ]
        names.sort(key=lambda name: name[1] not in MEANS)
        there = [cell for cell in results.cells if cell.names_of(table)]
        sizes = sorted({cell.sentences for cell in there if cell.sentences is not None})
        lines, chosen = list[Line](), False
        for encoder in dict.fromkeys(cell.encoder for cell in there):
            own = [cell for cell in there if cell.encoder == encoder]
            for name in names:
                entries = []
                for size in (*sizes,) or (None,):
                    cells = [c for c in own if c.sentences in (None, size) and name in c.values]
                    chosen = chosen or results.best_by(cells, name) is not None
                    entries.append(self._best_of(cells, name))
                group = encoder if results.several_encoders else ""
                lines.append(Line(results.column(name[1]), tuple(entries), group=group))
        about = caption("best", measured=results.plan.measured(task, metric), chosen=chosen)
        about += self.of_one_seed(table, there)
        if len(names) < len(results.names_of(table)):
            about += " Means that are not over the same languages for all methods are left out."
        title = f"{task}: best method per language and size, {spoken(metric)}"
        columns = tuple(f"{size:,} pairs" for size in sizes) or ("best",)
        if len(there) > 2:
            yield Table(f"best-{task}", title, columns, tuple(lines), about, corner="language")

    def _best_of(self, cells: Sequence[Cell], name: Name) -> Entry:
        """The best of some cells, on dev where one has such a value, with what its test says."""
        results, sign = self.results, self.results.plan.measured(name[0], name[2]).sign
        best = results.best_by(cells, name) or max(
            cells, key=lambda cell: sign * cell.values[name].mean, default=None
        )
        if best is None:
            return Entry.EMPTY
        entry = self.entry(best, name)
        return replace(entry, text=f"{results.named(best)} {entry.text}")

    def _ranked(self, tables: Sequence[TableKey]) -> Iterator[Sketch]:
        """Yield the figures of tables that have three to twelve methods which are tested."""
        results = self.results
        if Ranking.FEWEST <= len(results.cells) <= _RANKED:
            pairs = comparisons(
                results.cells, results.plan, self.material.ledger, baseline=ALL, tables=tables
            )
            for table in tables:
                yield self._of_ranks(table, [e for e in pairs if e.table == table])

    def _of_ranks(self, table: TableKey, entries: list[Compared]) -> Sketch:
        results, (task, metric, _) = self.results, table
        shown, basis = results.select(table), results.basis(task, results.cells, metric)
        found = [r for r in Ranking.of(entries, shown) if any(e.tested for e in entries)]
        panels = [self._ranks(ranking, table) for ranking in found]
        numbers = [sum(entry.tested for entry in family) for family in (shown, entries)]
        about = caption("ranks", marked=numbers[0], pairs=numbers[1])
        return Sketch(f"ranks-{task}", f"{task}: {spoken(metric)}", about, panels, basis)

    def _ranks(self, ranking: Ranking, table: TableKey) -> Panel:
        results, axis = self.results, self.results.axis(*table[:2])
        scale, series = results.unit(*table[:2]).scale, list[Series]()
        dots: list[tuple[float, float]] = []
        names = list(dict.fromkeys(results.named(cell) for cell in results.cells))
        for cell, rank in zip(ranking.cells, ranking.ranks, strict=True):
            label, mean = results.named(cell), cell.compared_mean(*table)
            assert mean is not None, "cells are ranked by their means"
            x, y, ends = rank.rank, scale * cell.values[mean].mean, (rank.best, rank.worst)
            dots.append((x, y))
            series.append(Series(label, (x,), (y,), (), "dots", names.index(label), (), (ends,)))
        links = [(*dots[group[0]], *dots[group[-1]]) for group in ranking.groups]
        first = ranking.cells[0]
        size = f", {first.sentences:,} pairs" if first.sentences else ""
        title = f"{first.encoder}{size}" if results.several_encoders or size else ""
        ticks = range(1, len(dots) + 1)
        return Panel(title, "rank", axis, series, links=links, ticks=ticks)
