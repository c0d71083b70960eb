"""Ranks of methods where a table has more than two: a figure in the manner of critical-difference
diagrams, from the comparisons of all pairs.
"""

from __future__ import annotations

from typing import final

from raxalign.measured import spoken
from raxalign.plan.values.comparisons import ALL, Compared, comparisons
from raxalign.plan.values.scoreboard import TableKey, table_of
from raxalign.report.compared import Ranking
from raxalign.report.document import Part, Share, caption
from raxalign.report.drawing import Panel, Series, Sketch
from raxalign.report.sections.base import Section

_MOST = 12  # methods whose pairs are all tested for the page


@final
class MethodRanks(Section):
    """A figure per task: the mean of each method over its rank, with the interval of the rank, and
    lines that join neighbours of which no two differ significantly.
    """

    VERSION = 1
    place = 9

    def share(self) -> Share | None:
        """Return the figures; None where no table has three to twelve methods that are tested."""
        results = self.results
        if not Ranking.FEWEST <= len(results.cells) <= _MOST:
            return None
        tables = results.leading_tables()
        pairs = comparisons(
            results.cells, results.plan, self.material.ledger, baseline=ALL, tables=tables
        )
        by_table = {table: [e for e in pairs if table_of(e.name) == table] for table in tables}
        sketches = (self._sketch(table, entries) for table, entries in by_table.items())
        return self.one_part(Part("ranks", "Ranks of methods"), sketches)

    def _sketch(self, table: TableKey, entries: list[Compared]) -> Sketch:
        task, metric, _ = table
        shown = [e for e in self.results.compared if table_of(e.name) == table]
        found = [r for r in Ranking.of(entries, shown) if any(e.tested for e in entries)]
        panels = [self._panel(ranking, table) for ranking in found]
        numbers = [sum(entry.tested for entry in family) for family in (shown, entries)]
        about = caption("ranks", marked=numbers[0], pairs=numbers[1])
        return Sketch(f"ranks-{task}", f"{task}: {spoken(metric)}", about, panels)

    def _panel(self, ranking: Ranking, table: TableKey) -> Panel:
        results, axis = self.results, self.results.axis(*table[:2])
        scale, series = results.unit(*table[:2]).scale, list[Series]()
        dots: list[tuple[float, float]] = []
        names = list(dict.fromkeys(results.named(cell) for cell in results.cells))
        for cell, rank in zip(ranking.cells, ranking.ranks, strict=True):
            label, mean = results.named(cell), cell.mean_name(*table)
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
