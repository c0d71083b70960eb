"""Hubness: the mean similarity of a vector to its nearest vectors of the other side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import lazy_loader as lazy

from raxalign.similarity.largest import Largest, above_in_columns, above_in_rows, parts
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
        nearest: the similarities of every vector to its k nearest of the other side (n, k).
        places: the places of these k vectors in their order (n, k), -1 where they are unknown.
        peaks: the largest similarity of every vector to each group of the other side (groups, n).
        group: the consecutive vectors of the other side in a group; the last may have fewer.
    """

    nearest: torch.Tensor
    places: torch.Tensor
    peaks: torch.Tensor
    group: int

    def hubness(self) -> torch.Tensor:
        """Return the mean similarity of every vector to its k nearest of the other side (n,)."""
        return self.nearest.mean(1)


def both_crowds(x: Factored, y: Factored, k: int, tiling: Tiling) -> tuple[Crowd, Crowd]:
    """Return the crowd of every row among the columns, and of every column among the rows.

    Every similarity is computed once; those of one block of rows and columns are in memory. The
    last vectors are taken first: in the order of `by_nearness` these are the nearest, whose
    similarities raise the floors early.
    """
    n, m, g, h = len(x), len(y), tiling.row_group, tiling.column_group
    rows, columns = tiling.block(n, m, x.vectors.element_size())
    wide, high = tiling.pooled(g, n, m), tiling.pooled(h, n, m)
    ahead = _Side(n, m, k, wide, x.vectors)
    back = _Side(m, n, k, high, x.vectors)
    space = _space(rows * columns, x.vectors)
    for top in reversed(range(0, n, rows)):
        some = x.rows(top, top + rows)
        for left in reversed(range(0, m, columns)):
            others = y.rows(left, left + columns)
            block = _padded(space, len(some), len(others), high, wide)
            torch.mm(some, others.T, out=block[: len(some), : len(others)])
            _rows(ahead, block[: len(some)], g, top, left)
            _columns(back, block, len(others), h, left, top)
    return ahead.crowd(), back.crowd()


def _space(size: int, like: torch.Tensor) -> torch.Tensor:
    """Return memory for a block (size,). NumPy asks Linux for huge pages, which make the passes
    over a large block faster.
    """
    if like.device.type != "cpu":
        return like.new_empty(size)
    return torch.from_numpy(np.empty(size, dtype=like.new_empty(0).numpy().dtype))


def _padded(space: torch.Tensor, rows: int, columns: int, h: int, g: int) -> torch.Tensor:
    """Return a block (rows, columns), both rounded up to whole groups; no padding is ever near."""
    shape = -(-rows // h) * h, -(-columns // g) * g
    block = space[: shape[0] * shape[1]].view(shape)
    block[rows:], block[:, columns:] = -math.inf, -math.inf
    return block


class _Side:
    """The k largest similarities of every vector of one side so far, and its peaks."""

    def __init__(self, n: int, m: int, k: int, group: int, like: torch.Tensor) -> None:
        self.largest = Largest(n, min(k, m), like)
        self.peaks = like.new_empty(-(-m // group), n)
        self.group = group

    def take(self, first: int, other: int, pooled: torch.Tensor) -> None:
        """Take in the peaks (vectors, groups) of some vectors; `first` and `other` are the first
        vector of either side.
        """
        groups = slice(other // self.group, other // self.group + pooled.shape[1])
        self.peaks[groups, first : first + len(pooled)] = pooled.T

    def crowd(self) -> Crowd:
        return Crowd(self.largest.values, self.largest.others, self.peaks, self.group)


def _rows(side: _Side, block: torch.Tensor, g: int, first: int, other: int) -> None:
    """Take in the rows of a block; `first` and `other` are its first row and its first column."""
    peaks = block.view(len(block), -1, g).amax(2)
    pooled = peaks.view(len(block), -1, side.group // g).amax(2)
    side.take(first, other, pooled)
    floors = side.largest.raise_floors(first, (pooled, peaks, block))
    for start, some in parts(floors):
        side.largest.insert(first + start, above_in_rows(block, peaks, start, some), other)


def _columns(side: _Side, block: torch.Tensor, number: int, h: int, first: int, other: int) -> None:
    """Take in some columns of a block, the first `number`."""
    width = block.shape[1]
    peaks = block.view(-1, h, width).amax(1)
    pooled = peaks.view(-1, side.group // h, width).amax(1)[:, :number].T
    side.take(first, other, pooled)
    floors = side.largest.raise_floors(first, (pooled, peaks[:, :number].T, block[:, :number].T))
    for start, some in parts(floors):
        side.largest.insert(first + start, above_in_columns(block, peaks, start, some), other)
