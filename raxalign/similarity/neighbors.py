"""Exact nearest neighbours between two sets of vectors, in both directions, block by block.

CSLS costs two matrix products and keeps no similarities: the first finds the k largest of every row
and column (the hubness terms), the second the best candidates; where all similarities fit into a
modest memory, the first product's are kept for the second. Around each product, a few passes in
place:

* the k largest of a row lie in the k groups of neighbouring columns whose maxima are largest, so
  that a sort sees k groups and not the row; columns likewise, in groups of rows, a block of rows at
  a time;
* an arg max is looked for only where the maximum of a tile is above the best before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader as lazy

from raxalign.similarity.best import best_both, first_twin
from raxalign.similarity.hubness_terms import both_hubness, room_for_all
from raxalign.similarity.measures import MEASURES, Definition, Measure
from raxalign.similarity.tiling import Factored, Tiling, inverse_norms

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


def nearest_neighbors(
    source: torch.Tensor,
    target: torch.Tensor,
    *,
    measure: Measure = "csls",
    k: int = 10,
    tiling: Tiling | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return for every source vector its nearest target vector, and for every target vector its
    nearest source vector.

    A k above the number of vectors means all of them. Ties go to the lower index; identical
    candidates always tie, other ties hold up to rounding.

    Args:
        source: float (n, d), on any device, normalised or not; half precision is computed in
            float32.
        target: float (m, d), same device and dtype.
        measure: the measure of similarity, one of `MEASURES`.
        k: the number of nearest vectors in a hubness term.
        tiling: how the work is cut, for tests and tuning.

    Returns:
        (forward, backward): int64 (n,) indices into `target`, int64 (m,) indices into `source`.

    Raises:
        ValueError: shapes, devices or dtypes that do not go together, a side without vectors,
            values that are not finite, an unknown measure.
    """
    _check(source, target, measure, k)
    with torch.no_grad():
        if source.dtype in (torch.float16, torch.bfloat16):
            source, target = source.float(), target.float()
        search = _released_cao if MEASURES[measure].scaling == "released_cao" else _search
        forward, backward = search(source, target, MEASURES[measure], k, tiling or Tiling())
        return first_twin(target)[forward], first_twin(source)[backward]


def _check(source: torch.Tensor, target: torch.Tensor, measure: str, k: int) -> None:
    if measure not in MEASURES:
        raise ValueError(f"unknown measure {measure!r}: choose one of {', '.join(MEASURES)}")
    if k < 1:
        raise ValueError(f"k is {k}: a hubness term needs at least one neighbour")
    if source.ndim != 2 or target.ndim != 2 or source.shape[1] != target.shape[1]:
        raise ValueError(
            f"shapes {tuple(source.shape)} and {tuple(target.shape)}: both sides must be (vectors,"
            " dimensions) with equal dimensions"
        )
    if (
        not source.is_floating_point()
        or source.dtype != target.dtype
        or source.device != target.device
    ):
        raise ValueError(
            f"{source.dtype} on {source.device} and {target.dtype} on {target.device}: both sides"
            " must be of one float type and on one device"
        )
    for name, side in (("source", source), ("target", target)):
        if not len(side):
            raise ValueError(f"{name} has no vectors, so the other side has no neighbours")
        if not all(bool(torch.isfinite(part).all()) for part in torch.split(side, 4096)):
            raise ValueError(f"{name} has values that are NaN or infinite")


def _search(
    source: torch.Tensor, target: torch.Tensor, definition: Definition, k: int, tiling: Tiling
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both directions where queries and candidates are scaled alike."""
    if definition.scaling == "centered":
        center = target.mean(0)
        source, target = source - center, target - center
    unit = definition.scaling == "unit"
    x = Factored(source, inverse_norms(source) if unit else None)
    y = Factored(Factored(target, inverse_norms(target)).rows() if unit else target, None)
    if definition.penalty == "none":
        return best_both(x, y, None, None, tiling)
    if definition.penalty == "square":
        return best_both(x, y, source.square().sum(1), target.square().sum(1), tiling)
    kept = room_for_all(x, y, tiling)
    r_x, r_y = both_hubness(x, y, k, tiling, kept)
    return best_both(x, y, r_x, r_y, tiling, kept)


def _released_cao(
    source: torch.Tensor,
    target: torch.Tensor,
    definition: Definition,  # noqa: ARG001
    k: int,
    tiling: Tiling,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Hubness terms between matrices of Frobenius norm 1, and queries of norm 1 against candidates
    of such a matrix.
    """
    ones = torch.ones_like(source[:, 0]), torch.ones_like(target[:, 0])
    x, y = (
        Factored(v, one / torch.linalg.matrix_norm(v).clamp_min(torch.finfo(v.dtype).tiny))
        for v, one in zip((source, target), ones, strict=True)
    )
    r_x, r_y = both_hubness(x, y, k, tiling)
    forward, _ = best_both(Factored(source, inverse_norms(source)), y, None, r_y, tiling)
    _, backward = best_both(x, Factored(target, inverse_norms(target)), r_x, None, tiling)
    return forward, backward
