"""The tables of one paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from raxalign.config.published import Publication
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results
from raxalign.report.document import Part
from raxalign.report.published.fill import Measure
from raxalign.report.published.table import TableMaker


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
