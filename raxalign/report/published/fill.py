"""What a section measures for a published table that no score of a task measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from raxalign.analysis.cells import Cell, Value


@dataclass(frozen=True)
class Fill:
    """The values of one row of a published table, from the predictions of one cell: per column a
    value in the units of the paper, or why there is none. `remark` is a note on the whole row.
    """

    values: Mapping[str, Value | str]
    remark: str = ""


Measure = Callable[[Cell], Fill | None]
"""From the cell that measures a row to its values; None where it has no predictions."""
