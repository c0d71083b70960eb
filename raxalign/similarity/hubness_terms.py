"""Hubness: the mean similarity of a vector to its nearest vectors of the other side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import lazy_loader as lazy

from raxalign.similarity.tiling import Factored, Tiling

if TYPE_CHECKING:
    import numpy as np
    import torch
else:
    np = lazy.load("numpy")
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


@dataclass(frozen=True)
class Crowd:
    """What one product says of the similarities between one side's vectors and the other's.

    Attributes:
        hubness: the mean similarity of every vector to its k nearest of the other side (n,).
        peaks: the largest similarity of every vector to each group of the other side (groups, n).
        group: the consecutive vectors of the other side in a group; the last may have fewer.
    """

    hubness: torch.Tensor
    peaks: torch.Tensor
    group: int


def both_crowds(x: Factored, y: Factored, k: int, tiling: Tiling) -> tuple[Crowd, Crowd]:
    """Return the crowd of every row among the columns, and of every column among the rows.

    Every similarity is computed once; those of one block of rows and columns are in memory.
    """
    n, m, g, h = len(x), len(y), tiling.row_group, tiling.column_group
    rows, columns = tiling.block(n, m, x.vectors.element_size())
    wide, high = tiling.pooled(g, n, m), tiling.pooled(h, n, m)
    ahead = _Nearest(n, m, k, wide, x.vectors)
    back = _Nearest(m, n, k, high, x.vectors)
    space = x.vectors.new_empty(-(-rows // h) * h * -(-columns // g) * g)
    for left in range(0, m, columns):
        others = y.rows(left, left + columns)
        for top in range(0, n, rows):
            some = x.rows(top, top + rows)
            block = _padded(space, len(some), len(others), h, g)
            torch.mm(some, others.T, out=block[: len(some), : len(others)])
            peaks = torch.amax(block.view(len(block), -1, g), dim=2)
            ahead.take_peaks(peaks[: len(some)], top, left, wide // g)
            ahead.take(_largest_in_rows(block, peaks, k, g)[: len(some)], top)
            peaks = torch.amax(block.view(-1, h, block.shape[1]), dim=1).T[: len(others)]
            back.take_peaks(peaks, left, top, high // h)
            back.take(_largest_in_columns(block[:, : len(others)], peaks, k, h), left)
    return ahead.crowd(), back.crowd()


def _padded(space: torch.Tensor, rows: int, columns: int, h: int, g: int) -> torch.Tensor:
    """Return a block (rows, columns), both rounded up to whole groups; no padding is ever near."""
    shape = -(-rows // h) * h, -(-columns // g) * g
    block = space[: shape[0] * shape[1]].view(shape)
    block[rows:], block[:, columns:] = -math.inf, -math.inf
    return block


class _Nearest:
    """The k largest similarities of every vector of one side so far, and its peaks."""

    def __init__(self, n: int, m: int, k: int, group: int, like: torch.Tensor) -> None:
        self.largest = like.new_full((n, min(k, m)), -math.inf)
        self.peaks = like.new_full((-(-m // group), n), -math.inf)
        self.group = group

    def take(self, found: torch.Tensor, first: int) -> None:
        """Take in the largest similarities (vectors, any number) of some vectors."""
        here = slice(first, first + len(found))
        both = torch.cat([self.largest[here], found], dim=1)
        self.largest[here] = _largest(both, self.largest.shape[1])

    def take_peaks(self, peaks: torch.Tensor, first: int, other: int, pool: int) -> None:
        """Take in the peaks (vectors, small groups) of some vectors, `pool` groups at a time;
        `other` is the first vector of the other side.
        """
        groups = -(-peaks.shape[1] // pool)
        space = self.peaks[other // self.group :][:groups, first : first + len(peaks)]
        for part in range(pool):
            some = peaks[:, part::pool].T
            torch.maximum(space[: len(some)], some, out=space[: len(some)])

    def crowd(self) -> Crowd:
        return Crowd(self.largest.mean(1), self.peaks, self.group)


def _largest_in_rows(block: torch.Tensor, peaks: torch.Tensor, k: int, g: int) -> torch.Tensor:
    """Return the k largest, or all, of every row (rows, at most k groups), which lie in the k
    groups with the largest maxima.
    """
    groups = _places_of_largest(peaks, k)
    groups += torch.arange(0, peaks.numel(), peaks.shape[1], device=groups.device)[:, None]
    candidates = block.view(-1, g).index_select(0, groups.flatten()).view(len(block), -1)
    return _largest(candidates, k)


def _largest_in_columns(
    block: torch.Tensor, peaks: torch.Tensor, k: int, h: int, width: int = 2048
) -> torch.Tensor:
    """Return the k largest, or all, of every column (columns, at most k)."""
    found = []
    for start in range(0, block.shape[1], width):
        groups = _places_of_largest(peaks[start : start + width], k).T
        rows = (groups[:, None] * h + torch.arange(h, device=groups.device)[:, None]).flatten(0, 1)
        candidates = block[:, start : start + width].gather(0, rows).T
        found.append(_largest(candidates, k))
    return torch.cat(found)


def _largest(values: torch.Tensor, k: int) -> torch.Tensor:
    """Return the k largest of every row (rows, k), or all, in any order.

    NumPy selects three times as fast as PyTorch does on a CPU.
    """
    if k >= values.shape[1]:
        return values
    if values.device.type == "cpu":
        return torch.from_numpy(np.partition(values.numpy(), -k, axis=1)[:, -k:])
    return values.topk(k, dim=1, sorted=False).values


def _places_of_largest(values: torch.Tensor, k: int) -> torch.Tensor:
    """Return the columns of the k largest of every row (rows, k), or all, in any order."""
    if k >= values.shape[1]:
        return torch.arange(values.shape[1], device=values.device).repeat(len(values), 1)
    if values.device.type == "cpu":
        return torch.from_numpy(np.argpartition(values.numpy(), -k, axis=1)[:, -k:])
    return values.topk(k, dim=1, sorted=False).indices
