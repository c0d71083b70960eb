"""Exact nearest neighbours between two sets of vectors, in both directions, block by block.

CSLS costs one matrix product and keeps no similarities. `first_pass.py` finds the k nearest of
every vector, and the largest similarity to each group of neighbouring candidates. When the hubness
terms are known, a second pass compares the best of the nearest with a bound of what each group
can score, and computes only groups again that can still win. Most queries have none. Where vectors
crowd so closely that no bound excludes a group, this costs another product. Scores that divide by
terms of both sides have no such bound (`normalised.py`). On several threads of a CPU, lanes walk
over blocks of their own (`worker_pool.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from raxalign.lazy import torch
from raxalign.similarity.first_pass import Nearest, nearest_both
from raxalign.similarity.measures import (
    MEASURES,
    TEMPERATURE,
    Definition,
    Measure,
    Penalty,
    margins,
    transport_terms,
)
from raxalign.similarity.scaled_vectors import ScaledVectors, Tiling, first_twin
from raxalign.similarity.worker_pool import lanes_for, opened


def nearest_normalised(
    x: ScaledVectors, y: ScaledVectors, penalty: Penalty, k: int, temperature: float, tiling: Tiling
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the nearest y of every x (n,) and the nearest x of every y (m,) by `margin`, `softmax`
    or `sinkhorn`, the first of equals.
    """
    if penalty == "margin":
        ahead, back = nearest_both(x, y, k, tiling)
        of_x, of_y = ahead.values.mean(1), back.values.mean(1)
    elif penalty == "softmax":
        of_x, of_y = _sums(x, y, temperature, tiling)
    else:
        of_x, of_y = (
            transport_terms(partial(_products, *sides, tiling), temperature)
            for sides in ((y, x), (x, y))
        )
    forward = torch.zeros(len(x), dtype=torch.int64, device=x.vectors.device)
    backward = torch.zeros(len(y), dtype=torch.int64, device=x.vectors.device)
    best_M = of_y.new_full((len(y),), -torch.inf)
    for rows, products in _blocks(x, y, tiling):
        if penalty == "margin":
            for_x = for_y = margins(products, of_x[rows], of_y)
        else:
            for_x, for_y = products - of_y, products - of_x[rows, None]
        forward[rows] = for_x.argmax(1)
        peaks_M, places_M = for_y.max(0)
        backward = torch.where(peaks_M > best_M, places_M + rows.start, backward)
        best_M = torch.maximum(best_M, peaks_M)
    return forward, backward


def _sums(
    x: ScaledVectors, y: ScaledVectors, temperature: float, tiling: Tiling
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return T log Σ exp(s / T) over all similarities of each x (n,) and of each y (m,)."""
    of_x, of_y = [], x.vectors.new_full((len(y),), -torch.inf)
    for _, products in _blocks(x, y, tiling):
        products /= temperature
        of_x.append(products.logsumexp(1))
        of_y = torch.logaddexp(of_y, products.logsumexp(0))
    return temperature * torch.cat(of_x), temperature * of_y


def _products(x: ScaledVectors, y: ScaledVectors, tiling: Tiling) -> Iterator[torch.Tensor]:
    return (products for _, products in _blocks(x, y, tiling))


def _blocks(
    x: ScaledVectors, y: ScaledVectors, tiling: Tiling
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield the similarities of some x to all y, with the places of these."""
    rows = max(1, tiling.block_bytes // (4 * x.vectors.element_size() * len(y)))
    others = y.take(slice(None))
    for start in range(0, len(x), rows):
        here = slice(start, min(start + rows, len(x)))
        yield here, x.take(here) @ others.T


def nearest_neighbors(
    source: torch.Tensor,
    target: torch.Tensor,
    *,
    measure: Measure = "csls",
    k: int = 10,
    temperature: float = TEMPERATURE,
    tiling: Tiling | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return for every source vector its nearest target vector, and for every target vector its
    nearest source vector.

    A k above the number of vectors means all of them. Ties go to the lower index; identical
    candidates always tie, other ties hold up to rounding.

    Vectors are float (n, d) and (m, d), on one device, normalised or not; half precision is
    computed in float32. `k` is the number of nearest vectors in a hubness term, `temperature` that
    of `inverted_softmax` and `sinkhorn`; `tiling` is for tests and tuning. Returns int64 (n,)
    indices into `target` and int64 (m,) indices into `source`.

    Raises `ValueError` for shapes, devices or dtypes that do not go together, a side without
    vectors, values that are not finite, an unknown measure, or a temperature of 0 or less.
    """
    _check(source, target, measure, k)
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature}: choose one above 0")
    with torch.no_grad():
        if source.dtype in (torch.float16, torch.bfloat16):
            source, target = source.float(), target.float()
        options = MEASURES[measure], k, temperature, tiling or Tiling()
        forward, backward = _search(source, target, *options)
        return first_twin(target)[forward], first_twin(source)[backward]


def _search(
    source: torch.Tensor,
    target: torch.Tensor,
    definition: Definition,
    k: int,
    temperature: float,
    tiling: Tiling,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the nearest target of every source vector and the nearest source of every target."""
    if definition.scaling == "centered":
        center = target.mean(0)
        source, target = source - center, target - center
    x, y = (ScaledVectors.of(vectors, definition.scaling) for vectors in (source, target))
    if definition.penalty in ("margin", "softmax", "sinkhorn"):
        return nearest_normalised(x, y, definition.penalty, k, temperature, tiling)
    if definition.penalty == "hubness":
        # Vectors that are alike near to the other side's mean have hubness terms that are alike, so
        # that the bounds of groups of them are tight.
        x, y = x.by_nearness(y), y.by_nearness(x)
        rows, columns = nearest_both(x, y, k, tiling)
        sides = ((x, y, rows, columns.values.mean(1)), (y, x, columns, rows.values.mean(1)))
        with opened(lanes_for(x.vectors, y.vectors)) as run:
            forward, backward = run([partial(best_candidates, *side) for side in sides])
        return forward, backward
    squares = None
    if definition.penalty == "square":
        squares = source.square().sum(1), target.square().sum(1)
    rows, columns = nearest_both(x, y, 1, tiling, squares)
    return rows.places[:, 0], columns.places[:, 0]


def best_candidates(
    queries: ScaledVectors, candidates: ScaledVectors, nearest: Nearest, penalties: torch.Tensor
) -> torch.Tensor:
    """Return for every query (n,), by its number, the number of the candidate with the largest
    2 s - penalty, the first of equals.

    The best of a query's nearest comes first. Of other candidates, none of a group scores above
    twice the group's peak, or the similarity of the last of the nearest, less its smallest penalty.
    Groups are computed again whose bound reaches the best score: first the one with the largest.
    `penalties` (m,) are subtracted for each candidate, by its place.
    """
    double, group = 2 * queries.query_factors(), nearest.group
    best = _Best(queries, candidates, penalties, nearest, double)
    bounds_GN = torch.minimum(nearest.peaks, nearest.values.amin(1)).mul_(double)
    padded = torch.nn.functional.pad(penalties, (0, -len(penalties) % group), value=math.inf)
    bounds_GN -= padded.view(-1, group).amin(1)[:, None]
    # A product may round one similarity differently from another product.
    lowest, highest = bounds_GN.aminmax()
    bounds_GN += torch.maximum(-lowest, highest) * (16 * torch.finfo(bounds_GN.dtype).eps)
    open_O = (bounds_GN.amax(0) >= best.scores).nonzero()[:, 0]
    if len(open_O):
        bounds_GO = bounds_GN[:, open_O]
        first_O = bounds_GO.argmax(0)
        counts = torch.bincount(first_O, minlength=len(bounds_GO)).tolist()
        for number, some in enumerate(torch.split(first_O.argsort(), counts)):
            best.look(open_O[some], number * group, group)
        bounds_GO.scatter_(0, first_O[None], -math.inf)
        for number, bounds_O in enumerate(bounds_GO):
            best.look(open_O[bounds_O >= best.scores[open_O]], number * group, group)
    return torch.empty_like(best.numbers).scatter_(0, queries.order, best.numbers)


class _Best:
    """The best candidate of every query so far, by the query's place: its score and its number. At
    first it is the best of the query's nearest; `double` is twice the query's factor.
    """

    def __init__(
        self,
        queries: ScaledVectors,
        candidates: ScaledVectors,
        penalties: torch.Tensor,
        nearest: Nearest,
        double: torch.Tensor,
    ) -> None:
        self.queries, self.candidates, self.penalties = queries, candidates, penalties
        scores = nearest.values * double[:, None] - penalties[nearest.places]
        self.scores, numbers = scores.amax(1), candidates.order[nearest.places]
        equal = scores == self.scores[:, None]
        self.numbers = torch.where(equal, numbers, len(candidates)).amin(1)

    def look(self, some: torch.Tensor, start: int, count: int) -> None:
        """Look at some neighbouring candidates for some queries, given by their places."""
        if not len(some):
            return
        here = slice(start, start + count)
        scores = self.queries.queries(some) @ self.candidates.take(here).T
        peaks, places = scores.mul_(2).sub_(self.penalties[here]).max(1)
        numbers = self.candidates.order[here][places]
        before, known = self.scores[some], self.numbers[some]
        better = (peaks > before) | ((peaks == before) & (numbers < known))
        self.scores[some] = torch.where(better, peaks, before)
        self.numbers[some] = torch.where(better, numbers, known)


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
    kinds = [(side.dtype, side.device) for side in (source, target)]
    if not source.is_floating_point() or kinds[0] != kinds[1]:
        raise ValueError(
            f"{source.dtype} on {source.device} and {target.dtype} on {target.device}: both sides"
            " must be of one float type and on one device"
        )
    for name, side in (("source", source), ("target", target)):
        if not len(side):
            raise ValueError(f"{name} has no vectors, so the other side has no neighbours")
        # Norms show it ten times as fast, unless they are too large themselves.
        norms = torch.linalg.vector_norm(side, dim=1)
        if not torch.isfinite(norms).all() and not all(
            torch.isfinite(part).all() for part in torch.split(side, 4096)
        ):
            raise ValueError(f"{name} has values that are NaN or infinite")
