"""The orthogonal map that brings two sets of vectors nearest together."""

from __future__ import annotations

from collections.abc import Sequence

from raxalign.encoders.models.transforms import Affine
from raxalign.lazy import torch
from raxalign.methods.statistics.moments import Moments

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


def procrustes(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the orthogonal W (H, H) for which ``source @ W`` is nearest to `target` (rows, (N, H)
    each), in the dtype of `source`.

    Schönemann (1966): W = U V^T of the singular value decomposition U S V^T of source^T target,
    computed in float64.
    """
    if source.shape != target.shape or source.ndim != 2:
        raise ValueError(
            f"two matrices of one shape are required, not {tuple(source.shape)} and"
            f" {tuple(target.shape)}"
        )
    return nearest_rotation(source.double().T @ target.double()).to(source.dtype)


def nearest_rotation(cross_HH: torch.Tensor) -> torch.Tensor:
    """Return the orthogonal W that maximises the trace of W^T cross, where cross is source^T target
    in float64.
    """
    left_HH, _, right_HH = torch.linalg.svd(cross_HH)
    rotation_HH: torch.Tensor = left_HH @ right_HH
    return rotation_HH


def rotations(
    moments: Moments,
    ends: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> list[Affine]:
    """Return the rotation of each layer that brings the sources of pairs nearest to their targets:
    about two points, (L, H) each, where `ends` gives them.
    """
    if ends is None:
        return [Affine(weight=nearest_rotation(c)) for c in moments.crosses()]
    steps = []
    for place, (from_H, to_H) in enumerate(zip(*ends, strict=True)):
        cross_HH = moments.cross_about(place, from_H, to_H)
        steps.append(Affine(from_H, nearest_rotation(cross_HH), to_H))
    return steps


def effective_rank(cross_HH: torch.Tensor) -> float:
    """Return in how many directions a matrix is strong: the exponential of the entropy of its
    singular values as shares (Roy & Vetterli 2007).
    """
    strength_H = torch.linalg.svdvals(cross_HH)
    if not strength_H.sum() > 0:
        return 0.0
    shares_H = strength_H / strength_H.sum()
    return float(torch.exp(-torch.special.xlogy(shares_H, shares_H).sum()))


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
    """Return what a map rests on, for the notes of a language: `dimensions`, `rank` and
    `effective_rank` (one per layer), and a `warning` where the pairs leave more than one dimension
    of some layer undetermined, or vary together in few.

    `pairs` is their number, `unit` what they are, `otherwise` what the map does in dimensions that
    they do not determine. `matrices` (H, H) determine the map of each layer; `centred` are
    cross-covariances of the pairs, for a rotation: a direction in which they hardly vary together
    is turned by chance.
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
