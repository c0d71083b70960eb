"""The papers' tables in their own shape, measured next to published.

The tables of one paper.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from raxalign.config.published import Publication, read, short_name
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results
from raxalign.report.document import Part, Share
from raxalign.report.published.fill import Measure
from raxalign.report.published.table import RECORD, TableMaker
from raxalign.report.sections.base import Section


@dataclass(frozen=True)
class Paper:
    """A publication by its name in the grid; `measure` looks up the analyses that its tables
    name.
    """

    name: str
    publication: Publication
    measure: Callable[[str], Measure | None]

    def part(self, results: Results, judge: Judge) -> tuple[Part, list[tuple[object, ...]]]:
        """Make its part of the report, and a record (`RECORD`) per figure."""
        made = self.publication
        makers = [
            TableMaker(
                results,
                judge,
                made,
                self.name,
                label,
                self.measure(table.analysis) if table.analysis else None,
            )
            for label, table in made.tables.items()
        ]
        tables = tuple(maker.make() for maker in makers)
        records = [record for maker in makers for record in maker.records]
        return Part(self.name, made.short, made.paper, tables, remarks=made.notes), records


@final
class Published(Section):
    """The tables of each paper that the grid names (`published`): measured figures with the
    published ones below, the difference, and notes on everything in which the two are not alike.
    """

    VERSION = 1
    place = 60

    def share(self) -> Share | None:
        """Return one part per paper, and one record per figure in published.csv; None where the
        grid names no paper.
        """
        material = self.material
        papers = [
            Paper(short_name(name), read(name), material.measure) for name in material.published
        ]
        made = [paper.part(material.results, material.judge) for paper in papers]
        if not made:
            return None
        records = [record for _, found in made for record in found]
        return Share(tuple(part for part, _ in made), files={"published.csv": _csv(records)})


def _csv(records: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(RECORD)
    writer.writerows(records)
    return text.getvalue()
