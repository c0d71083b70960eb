"""Hubness: the mean similarity of a vector to its nearest vectors of the other side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import lazy_loader as lazy

from raxalign.similarity.tiling import Factored, Tiling

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")

_ROWS = 1024
"""Vectors whose similarities are in memory together."""


def hubness(vectors: torch.Tensor, others: torch.Tensor, k: int) -> torch.Tensor:
    """Return the mean similarity of every vector (N, d) to the k most similar of the others (M, d),
    (N,): r of CSLS (Conneau et al. 2018, eq. 3).

    The similarity is the dot product, so that unit vectors give cosines; a k above M means all of
    them.
    """
    blocks = torch.split(vectors, _ROWS)
    return torch.cat(
        [(block @ others.T).topk(min(k, len(others)), dim=1).values.mean(1) for block in blocks]
    )


def room_for_all(x: Factored, y: Factored, tiling: Tiling) -> torch.Tensor | None:
    """Return a matrix for all similarities (n, m), padded to whole groups, or None where it does
    not fit into `keep_bytes`.
    """
    n, m = (
        -(-len(x) // tiling.column_group) * tiling.column_group,
        -(-len(y) // tiling.row_group) * tiling.row_group,
    )
    return (
        x.vectors.new_full((n, m), -math.inf)
        if n * m * x.vectors.element_size() <= tiling.keep_bytes
        else None
    )


def both_hubness(
    x: Factored, y: Factored, k: int, tiling: Tiling, kept: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean similarity of every row to its k nearest columns (n,), and of every column to
    its k nearest rows (m,).

    All similarities are written into `kept` where it is given.
    """
    n, m = len(x), len(y)
    g, h = tiling.row_group, tiling.column_group
    step = min(tiling.rows(m, x.vectors.element_size()), -(-n // h) * h)
    block = (
        x.vectors.new_full((step, -(-m // g) * g), -math.inf) if kept is None else kept
    )  # padding beyond the last column is never near
    row_means, nearest = [], x.vectors.new_full((m, min(k, n)), -math.inf)
    for start in range(0, n, step):
        rows = x.rows(start, start + step)
        if kept is not None:
            block = kept[start : start + step]
        elif len(rows) < step:
            block = block[: -(-len(rows) // h) * h].fill_(-math.inf)
        row_peaks, column_peaks = _product_and_peaks(rows, y, block, g, h, tiling.tile)
        row_means.append(_largest_in_rows(block, row_peaks, min(k, m), g)[: len(rows)].mean(1))
        nearest = (
            torch.cat(
                [nearest, _largest_in_columns(block[:, :m], column_peaks, min(k, n), h)], dim=1
            )
            .topk(min(k, n), dim=1)
            .values
        )
    return torch.cat(row_means), nearest.mean(1)


def _product_and_peaks(
    rows: torch.Tensor, y: Factored, block: torch.Tensor, g: int, h: int, tile: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fill `block` (padded rows, padded columns) with similarities; return the maxima of g columns
    in every row (rows, groups), and of h rows in every column (m, groups).

    A tile is read again while it is still in the cache.
    """
    tile = -(-tile // g) * g
    row_peaks = block.new_empty(block.shape[0], block.shape[1] // g)
    column_peaks = block.new_empty(block.shape[0] // h, len(y))
    for start in range(0, len(y), tile):
        part = block[:, start : start + tile]
        torch.mm(rows, y.rows(start, start + tile).T, out=part[: len(rows), : len(y) - start])
        torch.amax(
            part.view(len(part), -1, g), dim=2, out=row_peaks[:, start // g : (start + tile) // g]
        )
        torch.amax(
            part[:, : len(y) - start].view(len(part) // h, h, -1),
            dim=1,
            out=column_peaks[:, start : start + tile],
        )
    return row_peaks, column_peaks.T.contiguous()


def _largest_in_rows(block: torch.Tensor, peaks: torch.Tensor, k: int, g: int) -> torch.Tensor:
    """Return the k largest of every row (rows, k), which lie in the k groups with the largest
    maxima.
    """
    groups = peaks.topk(min(k, peaks.shape[1]), dim=1, sorted=False).indices
    groups += torch.arange(0, peaks.numel(), peaks.shape[1], device=groups.device)[:, None]
    candidates = block.view(-1, g).index_select(0, groups.flatten()).view(len(block), -1)
    return candidates.topk(k, dim=1, sorted=False).values


def _largest_in_columns(
    block: torch.Tensor, peaks: torch.Tensor, k: int, h: int, width: int = 2048
) -> torch.Tensor:
    """Return the k largest, or all, of every column (m, at most k), -inf where there are fewer."""
    found = []
    for start in range(0, block.shape[1], width):
        groups = (
            peaks[start : start + width].topk(min(k, peaks.shape[1]), dim=1, sorted=False).indices.T
        )
        rows = (groups[:, None] * h + torch.arange(h, device=groups.device)[:, None]).flatten(0, 1)
        candidates = block[:, start : start + width].gather(0, rows).T.contiguous()
        found.append(candidates.topk(min(k, candidates.shape[1]), dim=1, sorted=False).values)
    return torch.cat(found)
