"""Exact nearest neighbours between two sets of vectors, in both directions, block by block.

CSLS costs one matrix product and keeps no similarities. Around the product are a few passes over
each block:

* the maxima of groups of neighbouring columns, and of neighbouring rows, give every vector a floor
  that k similarities reach. Only groups whose maximum exceeds it are read (`largest.py`);
* the k nearest of every vector are kept, with the maxima of larger groups. When the hubness terms
  are known, the best of the nearest is compared with a bound of what each group can score. Only
  groups that can still win are computed again, and most queries have none (`bounded.py`).

Where vectors crowd so closely that no bound excludes a group, this costs another product. On
several threads of a CPU, lanes walk over blocks of their own (`worker_pool.py`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.similarity.best import best_both, first_twin
from raxalign.similarity.bounded import best_of_groups
from raxalign.similarity.hubness_terms import Crowd, both_crowds
from raxalign.similarity.measures import MEASURES, Definition, Measure
from raxalign.similarity.tiling import Factored, Tiling, inverse_norms
from raxalign.similarity.worker_pool import at_once, lanes_for

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
        return _first_of_equals(source, target, forward, backward)


def _first_of_equals(
    source: torch.Tensor, target: torch.Tensor, forward: torch.Tensor, backward: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what was found in both directions, with the first of identical vectors for each."""
    ahead, back = at_once(
        [lambda: first_twin(target)[forward], lambda: first_twin(source)[backward]],
        lanes_for(source, target),
    )
    return ahead, back


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


def _search(
    source: torch.Tensor, target: torch.Tensor, definition: Definition, k: int, tiling: Tiling
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both directions where queries and candidates are scaled alike."""
    if definition.scaling == "centered":
        center = target.mean(0)
        source, target = source - center, target - center
    unit = definition.scaling == "unit"
    x = Factored(source, inverse_norms(source) if unit else None)
    y = Factored(target, inverse_norms(target) if unit else None)
    if definition.penalty == "none":
        return best_both(x, y, None, None, tiling)
    if definition.penalty == "square":
        return best_both(x, y, source.square().sum(1), target.square().sum(1), tiling)
    return _with_hubness(x, y, k, tiling)


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
    x, y = (Factored(side, _inverse_norm_of_all(side)) for side in (source, target))
    return _with_hubness(x, y, k, tiling, (inverse_norms(source), inverse_norms(target)))


def _with_hubness(
    x: Factored,
    y: Factored,
    k: int,
    tiling: Tiling,
    as_queries: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both directions where a candidate's hubness is subtracted.

    Vectors that are alike near to the other side's mean have hubness terms that are alike, so that
    the bounds of groups of them are tight.

    Args:
        x: the rows, as they are multiplied in hubness terms.
        y: the columns.
        k: the number of nearest vectors in a hubness term.
        tiling: how the work is cut.
        as_queries: the factors of either side where its vectors are queries, if they are others.
    """
    lanes = lanes_for(x.vectors, y.vectors)
    x, y = at_once([lambda: x.by_nearness(y.mean()), lambda: y.by_nearness(x.mean())], lanes)
    rows, columns = both_crowds(x, y, k, tiling, lanes)
    factors = as_queries or (None, None)
    sides = ((x, y, rows, columns, factors[0]), (y, x, columns, rows, factors[1]))
    found = at_once([partial(_one_direction, *side) for side in sides], lanes)
    return found[0], found[1]


def _one_direction(
    queries: Factored,
    candidates: Factored,
    crowd: Crowd,
    others: Crowd,
    scale: torch.Tensor | None,
) -> torch.Tensor:
    """Return the number of every query's best candidate (n,), in the order of the queries' numbers.

    Args:
        queries: the queries, as they are multiplied in hubness terms.
        candidates: the candidates.
        crowd: the queries' nearest and their peaks among the candidates.
        others: the candidates' among the queries, whose hubness is subtracted.
        scale: the factors of the vectors as queries (n,), if they are others.
    """
    asked, factor, order = queries, None, queries.numbers()
    if scale is not None:
        factor = (scale if queries.scale is None else scale / queries.scale)[order]
        asked = replace(queries, scale=scale)
    best = best_of_groups(asked, candidates, others.hubness(), crowd, factor)
    return torch.empty_like(best).scatter_(0, order, best)


def _inverse_norm_of_all(vectors: torch.Tensor) -> torch.Tensor:
    """Return 1 / Frobenius norm of a matrix, for every row (n,)."""
    tiny = torch.finfo(vectors.dtype).tiny
    norm: torch.Tensor = torch.linalg.matrix_norm(vectors).clamp_min(tiny)
    return (1 / norm).expand(len(vectors))
