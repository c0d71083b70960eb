"""The papers' tables in their own shape, measured next to published."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from raxalign.config.published import read, short_name
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results
from raxalign.report.document import Part, Share
from raxalign.report.published.table import RECORD, TableMaker
from raxalign.report.sections.base import Measure, Section
from raxalign.report.tables import csv_parts


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
            part, rows = paper_part(self.results, self.judge, name, self.material.measure)
            parts.append(part)
            records += [dict(zip(RECORD, row, strict=True)) for row in rows]
        files = {"published.csv": "".join(csv_parts(records, RECORD))}
        return Share(tuple(parts), files=files) if parts else None


def paper_part(
    results: Results, judge: Judge, name: str, measure: Callable[[str], Measure | None]
) -> tuple[Part, list[tuple[object, ...]]]:
    """Make the part of a paper, filled by what `measure` finds, and a record per figure."""
    short, paper = short_name(name), read(name)
    makers = []
    for label, table in paper.tables.items():
        fill = measure(table.analysis) if table.analysis else None
        makers.append(TableMaker(results, judge, paper, short, label, fill))
    tables = tuple(maker.make() for maker in makers)
    records = [record for maker in makers for record in maker.records]
    return Part(short, paper.short, paper.paper, tables, remarks=paper.notes), records
