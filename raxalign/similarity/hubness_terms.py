"""Hubness: the mean similarity of a vector to its nearest vectors of the other side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.similarity.largest import (
    Largest,
    above_in_columns,
    above_in_rows,
    best_in_columns,
    best_in_rows,
    crowded,
    parts,
)
from raxalign.similarity.tiling import Factored, Tiling
from raxalign.similarity.worker_pool import walk

if TYPE_CHECKING:
    import numpy as np
    import torch
else:
    np = lazy.load("numpy")
    torch = lazy.load("torch")

_CACHED = 2**20
"""Bytes of similarities that stay in the cache of a core."""

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


def both_crowds(
    x: Factored, y: Factored, k: int, tiling: Tiling, lanes: int = 1
) -> tuple[Crowd, Crowd]:
    """Return the crowd of every row among the columns, and of every column among the rows.

    Every similarity is computed once; those of one block of rows and columns per lane are in
    memory. The last vectors are taken first: in the order of `by_nearness` these are the nearest,
    whose similarities raise the floors early.
    """
    n, m = len(x), len(y)
    rows, columns = tiling.block(n, m, x.vectors.element_size(), lanes)
    ahead = _Side(n, m, k, tiling.pooled(tiling.row_group, n, m), x.vectors)
    back = _Side(m, n, k, tiling.pooled(tiling.column_group, n, m), x.vectors)
    blocks = [_Blocks(x, y, rows, columns) for _ in range(lanes)]

    def visit(lane: int, top: int, left: int) -> None:
        block, others = blocks[lane].similarities(top, left, back.group, ahead.group)
        in_rows, in_columns = _maxima(block, tiling.row_group, tiling.column_group)
        some = slice(min(rows, n - top))
        _rows(ahead, block[some], in_rows[some], top, left)
        _columns(back, block, in_columns, others, left, top)

    walk(range(0, n, rows)[::-1], range(0, m, columns)[::-1], visit, lanes)
    return ahead.crowd(), back.crowd()


class _Blocks:
    """Blocks of similarities in one memory, and the vectors of the last block's rows."""

    def __init__(self, x: Factored, y: Factored, rows: int, columns: int) -> None:
        self.x, self.y, self.rows, self.columns = x, y, rows, columns
        self.space = _space(rows * columns, x.vectors)
        self.top, self.some = -1, x.vectors

    def similarities(self, top: int, left: int, h: int, g: int) -> tuple[torch.Tensor, int]:
        """Return a block, padded to whole groups, and the number of its columns without padding."""
        if top != self.top:
            self.top, self.some = top, self.x.rows(top, top + self.rows)
        others = self.y.rows(left, left + self.columns)
        block = _padded(self.space, len(self.some), len(others), h, g)
        torch.mm(self.some, others.T, out=block[: len(self.some), : len(others)])
        return block, len(others)


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
        self.k = min(k, m)
        self.largest = Largest(n, self.k, like)
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


def _maxima(block: torch.Tensor, g: int, h: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima of groups of g neighbouring columns in every row (rows, groups), and of h
    neighbouring rows in every column (groups, columns).

    A CPU takes both of a few rows at a time, so that the second reads them from its cache.
    """
    rows, width = block.shape
    in_rows, in_columns = block.new_empty(rows, width // g), block.new_empty(rows // h, width)
    groups = rows // h
    if block.device.type == "cpu":
        groups = max(1, _CACHED // (h * width * block.element_size()))
    for top, some in zip(range(0, rows, groups * h), torch.split(block, groups * h), strict=True):
        here = slice(top // h, top // h + groups)
        torch.amax(some.view(len(some), -1, g), 2, out=in_rows[top : top + groups * h])
        torch.amax(some.view(-1, h, width), 1, out=in_columns[here])
    return in_rows, in_columns


def _rows(side: _Side, block: torch.Tensor, peaks: torch.Tensor, first: int, other: int) -> None:
    """Take in the rows of a block with the maxima of their groups; `first` and `other` are its
    first row and its first column.
    """
    pooled = peaks.view(len(block), block.shape[1] // side.group, -1).amax(2)
    side.take(first, other, pooled)
    floors = side.largest.raise_floors(first, (pooled, peaks, block))
    for start, some in parts(floors):
        here = slice(start, start + len(some))
        if crowded(peaks[here], some, side.k):
            best = best_in_rows(block[here], peaks[here], side.k)
            some = side.largest.raise_floors(first + start, (best,))
        side.largest.insert(first + start, above_in_rows(block, peaks, start, some), other)


def _columns(
    side: _Side, block: torch.Tensor, peaks: torch.Tensor, number: int, first: int, other: int
) -> None:
    """Take in some columns of a block, the first `number`."""
    pooled = peaks.view(len(block) // side.group, -1, block.shape[1]).amax(1)[:, :number].T
    side.take(first, other, pooled)
    floors = side.largest.raise_floors(first, (pooled, peaks[:, :number].T, block[:, :number].T))
    for start, some in parts(floors):
        here = slice(start, start + len(some))
        if crowded(peaks[:, here].T, some, side.k):
            best = best_in_columns(block[:, here], peaks[:, here], side.k)
            some = side.largest.raise_floors(first + start, (best,))
        side.largest.insert(first + start, above_in_columns(block, peaks, start, some), other)
