"""Exact nearest neighbours between two sets of vectors, in both directions, block by block.

CSLS costs one matrix product and keeps no similarities. `first_pass.py` finds the k nearest of
every vector, and the largest similarity to each group of neighbouring candidates. When the hubness
terms are known, `second_pass.py` compares the best of the nearest with a bound of what each group
can score, and computes only groups again that can still win. Most queries have none. Where vectors
crowd so closely that no bound excludes a group, this costs another product. On several threads of a
CPU, lanes walk over blocks of their own (`worker_pool.py`).
"""

from __future__ import annotations

from functools import partial

from raxalign.lazy import torch
from raxalign.similarity.first_pass import nearest_both
from raxalign.similarity.measures import MEASURES, Definition, Measure
from raxalign.similarity.scaled_vectors import ScaledVectors, Tiling, first_twin, inverse_norms
from raxalign.similarity.second_pass import best_candidates
from raxalign.similarity.worker_pool import at_once, lanes_for


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
        forward, backward = _search(source, target, MEASURES[measure], k, tiling or Tiling())
        return first_twin(target)[forward], first_twin(source)[backward]


def _search(
    source: torch.Tensor, target: torch.Tensor, definition: Definition, k: int, tiling: Tiling
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the nearest target of every source vector and the nearest source of every target."""
    if definition.scaling == "centered":
        center = target.mean(0)
        source, target = source - center, target - center
    x, y = (_side(vectors, definition) for vectors in (source, target))
    if definition.penalty == "hubness":
        # Vectors that are alike near to the other side's mean have hubness terms that are alike, so
        # that the bounds of groups of them are tight.
        x, y = x.by_nearness(y), y.by_nearness(x)
        rows, columns = nearest_both(x, y, k, tiling)
        sides = ((x, y, rows, columns.hubness()), (y, x, columns, rows.hubness()))
        jobs = [partial(best_candidates, *side) for side in sides]
        forward, backward = at_once(jobs, lanes_for(x.vectors, y.vectors))
        return forward, backward
    squares = None
    if definition.penalty == "square":
        squares = source.square().sum(1), target.square().sum(1)
    rows, columns = nearest_both(x, y, 1, tiling, squares)
    return rows.places[:, 0], columns.places[:, 0]


def _side(vectors: torch.Tensor, definition: Definition) -> ScaledVectors:
    """Return vectors with the factors that the measure gives them."""
    if definition.scaling == "unit":
        return ScaledVectors.of(vectors, inverse_norms(vectors))
    if definition.scaling == "released_cao":
        # Matrices of Frobenius norm 1 in hubness terms, and queries of norm 1.
        tiny = torch.finfo(vectors.dtype).tiny
        whole = 1 / torch.linalg.matrix_norm(vectors).clamp_min(tiny)
        return ScaledVectors.of(vectors, whole.expand(len(vectors)), inverse_norms(vectors))
    return ScaledVectors.of(vectors)


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
        if not _is_finite(side):
            raise ValueError(f"{name} has values that are NaN or infinite")


def _is_finite(vectors: torch.Tensor) -> bool:
    """Return whether all values are numbers. Norms show it ten times as fast, unless they are too
    large themselves.
    """
    norms = torch.linalg.vector_norm(vectors, dim=1)
    return bool(torch.isfinite(norms).all()) or all(
        bool(torch.isfinite(part).all()) for part in torch.split(vectors, 4096)
    )
