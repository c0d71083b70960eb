"""One value of a method's param for each language, chosen by the language's own development set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raxalign.analysis.cells import Cell, Name, Value

if TYPE_CHECKING:
    from raxalign.report.cells.results import Results

WARNING = "so this is not a purely zero-shot result"
"""What must follow wherever a param is chosen on a target language's development set."""


def declared(results: Results, method: str) -> list[str]:
    """Return the params of a method of the grid that can be chosen per language, as its plug-in
    declares, and of which the grid has several values.
    """
    from raxalign.catalog import catalog

    kind = results.kinds.get(method, method)
    params = catalog("methods")[kind].per_language if kind in catalog("methods") else ()
    return [param for param in params if param in results.plan.axes.get(method, ())]


def best(results: Results, cells: Sequence[Cell], name: Name) -> Cell | None:
    """Return the cell with the best value on the development set, the first of equals.

    Args:
        results: knows which values are better.
        cells: the candidates.
        name: a value of one language; its split is not looked at.

    Returns:
        the cell; None where no candidate has a development value.
    """
    dev, sign = (*name[:3], "dev"), results.plan.measured(name[0], name[2]).sign
    there = [cell for cell in cells if dev in cell.values]
    return max(there, key=lambda cell: sign * cell.values[dev].mean, default=None)


def value(cell: Cell, name: Name, split: str) -> Value | None:
    """Return the value of a cell on another split; None where it has none."""
    return cell.values.get((*name[:3], split))
