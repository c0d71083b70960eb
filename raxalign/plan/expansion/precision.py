"""How a grid asks for encoders to compute, as keys have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raxalign.config.grid import Grid
    from raxalign.config.run import Precision


def precision_of(grid: Grid, family: str) -> Precision:
    """Return the precision of what is computed with encoders of a family. Static vectors are read,
    not computed, so that no option changes what is made of them.
    """
    return grid.run.precision if family == "transformer" else "fp32"


def compiles(grid: Grid, family: str) -> bool:
    """Return whether encoders of a family run compiled, which is for transformers alone."""
    return grid.run.compile and family == "transformer"
