"""The best candidate of every row and every column, tile by tile."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.similarity.tiling import Factored, Tiling

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")

_FEW = 16
"""Leading values in which few rows are alike, unless they are identical."""

_TOGETHER = 2048
"""Rows that are compared at once."""


def best_both(
    x: Factored,
    y: Factored,
    r_x: torch.Tensor | None,
    r_y: torch.Tensor | None,
    tiling: Tiling,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the column of the largest 2 s - r_y in every row (n,), and the row of the largest
    2 s - r_x in every column (m,); the rows are those of `x`, the columns those of `y`.

    None for r_x (n,) or r_y (m,) takes nothing off.
    """
    n, m, g, h = len(x), len(y), tiling.row_group, tiling.column_group
    r_x, r_y = (
        x.vectors.new_zeros(len(side)) if r is None else r for side, r in ((x, r_x), (y, r_y))
    )
    step, tile = min(2 * tiling.tile, n), min(tiling.tile, m)
    forward, backward = Running(n, x.vectors), Running(m, x.vectors)
    scores = x.vectors.new_empty(-(-step // h) * h, -(-tile // g) * g)
    products = x.vectors.new_empty(step * tile)
    for top in range(0, n, step):
        rows = x.rows(top, top + step) * 2
        for left in range(0, m, tile):
            columns = y.rows(left, left + tile)
            shape = len(rows), len(columns)
            doubled = products[: shape[0] * shape[1]].view(shape)
            torch.mm(rows, columns.T, out=doubled)
            scores[shape[0] :], scores[:, shape[1] :] = -math.inf, -math.inf
            inside = scores[: shape[0], : shape[1]]
            torch.sub(doubled, r_y[left : left + tile], out=inside)
            forward.update(*_row_peaks(scores, g), top, left, shape[0])
            torch.sub(doubled, r_x[top : top + step, None], out=inside)
            backward.update(*_column_peaks(scores, h), left, top, shape[1])
    return forward.indices, backward.indices


Locate = Callable[["torch.Tensor"], "torch.Tensor"]


def _row_peaks(scores: torch.Tensor, g: int) -> tuple[torch.Tensor, Locate]:
    """Return the maximum of every row, and a function from row numbers to the columns of their
    maxima, which searches a group and not a row.
    """
    grouped = scores.view(len(scores), -1, g)
    peaks, groups = grouped.amax(2).max(1)

    def locate(rows: torch.Tensor) -> torch.Tensor:
        return groups[rows] * g + grouped[rows, groups[rows]].argmax(1)

    return peaks, locate


def _column_peaks(scores: torch.Tensor, h: int) -> tuple[torch.Tensor, Locate]:
    """Return the maximum of every column, and a function from column numbers to the rows of their
    maxima.
    """
    grouped = scores.view(-1, h, scores.shape[1])
    peaks, groups = grouped.amax(1).max(0)

    def locate(columns: torch.Tensor) -> torch.Tensor:
        return groups[columns] * h + grouped[groups[columns], :, columns].argmax(1)

    return peaks, locate


class Running:
    """The best candidate so far of every query: its score and index. Candidates come in ascending
    order, so the first of equals stays.
    """

    def __init__(self, queries: int, like: torch.Tensor) -> None:
        self.scores = like.new_full((queries,), -math.inf)
        self.indices = torch.zeros(queries, dtype=torch.int64, device=like.device)

    def update(
        self,
        peaks: torch.Tensor,
        locate: Locate,
        first_query: int,
        first_candidate: int,
        queries: int,
    ) -> None:
        """Take in the maxima of one tile.

        Args:
            peaks: the maxima; padding follows the queries.
            locate: the function from query numbers to the tile's candidates.
            first_query: the number of the tile's first query.
            first_candidate: the number of the tile's first candidate.
            queries: the number of queries in the tile.
        """
        here = slice(first_query, first_query + queries)
        better = (peaks[:queries] > self.scores[here]).nonzero()[:, 0]
        self.indices[here][better] = locate(better) + first_candidate
        self.scores[here][better] = peaks[better]


def first_twin(vectors: torch.Tensor) -> torch.Tensor:
    """Return for every row (n,) the lowest index of a row identical to it, because a product may
    round identical rows differently.

    Whole rows are compared only where their first values are alike.
    """
    index = torch.arange(len(vectors), device=vectors.device)
    _, inverse, counts = torch.unique(
        _hashes(vectors[:, :_FEW]), return_inverse=True, return_counts=True
    )
    alike = (counts[inverse] > 1).nonzero()[:, 0]
    if not len(alike):
        return index
    hashes = torch.cat([_hashes(vectors[some]) for some in torch.split(alike, _TOGETHER)])
    _, inverse = torch.unique(hashes, return_inverse=True)
    firsts = torch.full_like(alike, len(vectors)).scatter_reduce_(0, inverse, alike, "amin")
    for some, first in zip(
        torch.split(alike, _TOGETHER), torch.split(firsts[inverse], _TOGETHER), strict=True
    ):
        same = (vectors[some] == vectors[first]).all(1)
        index[some[same]] = first[same]
    return index


def _hashes(vectors: torch.Tensor) -> torch.Tensor:
    """Return a number for every row (n,), the same for identical rows."""
    words = vectors.contiguous().add(0.0).view(torch.int32)  # -0.0 becomes 0.0
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(-(2**62), 2**62, (words.shape[1],), generator=generator)
    return (words * factors.to(words.device)).sum(1)
