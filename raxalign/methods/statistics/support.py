"""What a map that is fitted on pairs rests on: their number and their rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.methods.statistics.procrustes import effective_rank

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")

NO_SINGULAR_VALUE = 1e-10
"""Singular values below this share of the largest one are rounding."""

_NORMAL = 1
"""Dimensions that may be missing without a remark: centred outputs of a layer normalisation lie in
a hyperplane.
"""

_FEW = 1 / 32
"""A map whose pairs vary together in a smaller share of the dimensions gets a remark. In a small
encoder rotations that helped had 12 to 31 of 256, and one that took F1 from 22 to 2 had 5.6.
"""


def numerical_rank(matrix_HH: torch.Tensor, tolerance: float = NO_SINGULAR_VALUE) -> int:
    """Return the number of singular values above `tolerance` times the largest one."""
    strength_H = torch.linalg.svdvals(matrix_HH)
    return int((strength_H > tolerance * strength_H.max()).sum())


def support(
    pairs: int,
    matrices: Sequence[torch.Tensor],
    *,
    centred: Sequence[torch.Tensor] = (),
    otherwise: str = "is arbitrary",
    unit: str = "pairs",
    tolerance: float = NO_SINGULAR_VALUE,
) -> dict[str, object]:
    """Return what a map rests on, for the notes of a language.

    Args:
        pairs: the number of pairs.
        matrices: the matrix (H, H) that determines the map of each layer.
        centred: the cross-covariance (H, H) of the pairs at each layer, for a rotation: a direction
            in which they hardly vary together is turned by chance.
        otherwise: what the map does in dimensions that the pairs do not determine.
        unit: what the pairs are, in the plural.
        tolerance: as for `numerical_rank`.

    Returns:
        `dimensions`, `rank` and `effective_rank` (one per layer), and a `warning` where the pairs
        leave more than one dimension of some layer undetermined, or vary together in few.
    """
    dimensions = len(matrices[0])
    ranks = [numerical_rank(matrix_HH, tolerance) for matrix_HH in matrices]
    effective = [round(effective_rank(matrix_HH), 1) for matrix_HH in centred]
    facts: dict[str, object] = {"dimensions": dimensions, "rank": ranks}
    facts |= {"effective_rank": effective} if effective else {}
    missing, count = dimensions - min(ranks), f"{pairs:,} {unit}"
    if missing > _NORMAL:
        facts["warning"] = (
            f"{count} for {dimensions:,} dimensions: the map {otherwise} in {missing:,} of them"
        )
    elif effective and min(effective) < _FEW * dimensions:
        facts["warning"] = (
            f"{count} vary together in {min(effective)} of {dimensions:,} directions: in the others"
            f" the map {otherwise}, or nearly so"
        )
    return facts
