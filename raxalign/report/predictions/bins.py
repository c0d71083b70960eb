"""Groups of predictions as the lines of a table."""

from __future__ import annotations

from collections.abc import Sequence

from raxalign.analysis.cells import Cell
from raxalign.analysis.retrieval_bins import Bin
from raxalign.report.cells.names import named
from raxalign.report.cells.numbers import Unit
from raxalign.report.cells.results import Results
from raxalign.report.document import Entry, Line

PERCENT = Unit(100, 1, "%")


def mean_bins(languages: Sequence[Sequence[Bin]]) -> list[Bin]:
    """Return each bin's mean over the languages that have queries for it; the averages of groups
    are means of these too.
    """
    bins = []
    for parts in zip(*languages, strict=True):
        known = [part.accuracy for part in parts if part.accuracy is not None]
        bins.append(
            Bin(
                parts[0].name,
                sum(known) / len(known) if known else None,
                sum(part.queries for part in parts),
            )
        )
    return bins


def bin_line(results: Results, cell: Cell, bins: Sequence[Bin]) -> Line:
    """Return the line of a cell: the accuracy of each bin in percent, its queries below."""
    entries = [
        (
            Entry("–", state="empty")
            if part.accuracy is None
            else Entry(PERCENT.show(part.accuracy), below=f"{part.queries:,}")
        )
        for part in bins
    ]
    return Line(named(cell, results.plan), tuple(entries))
