"""Nearest neighbours by scores that weigh each similarity against the others of both its vectors: a
first product finds what each is weighed by, and a second one the best.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from raxalign.lazy import torch
from raxalign.similarity.first_pass import nearest_both
from raxalign.similarity.measures import Penalty, margins, transport_terms
from raxalign.similarity.scaled_vectors import ScaledVectors, Tiling


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
