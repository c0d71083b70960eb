"""What a map that is fitted on pairs rests on: their number and their rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import lazy_loader as lazy

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


def numerical_rank(matrix_HH: torch.Tensor, tolerance: float = NO_SINGULAR_VALUE) -> int:
    """Return the number of singular values above `tolerance` times the largest one."""
    strength_H = torch.linalg.svdvals(matrix_HH)
    return int((strength_H > tolerance * strength_H.max()).sum())


def support(
    pairs: int,
    matrices: Sequence[torch.Tensor],
    *,
    otherwise: str = "is arbitrary",
    unit: str = "pairs",
    tolerance: float = NO_SINGULAR_VALUE,
) -> dict[str, object]:
    """Return what a map rests on, for the notes of a language.

    Args:
        pairs: the number of pairs.
        matrices: the matrix (H, H) that determines the map of each layer.
        otherwise: what the map does in dimensions that the pairs do not determine.
        unit: what the pairs are, in the plural.
        tolerance: as for `numerical_rank`.

    Returns:
        `dimensions`, `rank` (one per layer), and a `warning` where the pairs leave more than one
        dimension of some layer undetermined.
    """
    dimensions = len(matrices[0])
    ranks = [numerical_rank(matrix_HH, tolerance) for matrix_HH in matrices]
    facts: dict[str, object] = {"dimensions": dimensions, "rank": ranks}
    missing = dimensions - min(ranks)
    if missing > _NORMAL:
        facts["warning"] = (
            f"{pairs:,} {unit} for {dimensions:,} dimensions: the map {otherwise} in {missing:,} of"
            " them"
        )
    return facts
