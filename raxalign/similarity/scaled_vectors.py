"""The two sides of the matrix of all similarities, and how this matrix is cut into blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from raxalign.lazy import torch
from raxalign.similarity.measures import Scaling


@dataclass(frozen=True)
class Tiling:
    """How the work is cut, which changes no result beyond rounding: `block_bytes` of similarities
    are in memory at once; the largest of a `row_group` of neighbouring columns, and of a
    `column_group` of rows, shows where the nearest of a row or a column are; of at least a
    `wide_group` of candidates it is kept for the second pass, in at most `peak_bytes`.
    """

    block_bytes: int = 128 * 2**20
    row_group: int = 32
    column_group: int = 16
    wide_group: int = 128
    peak_bytes: int = 256 * 2**20

    def wide(self, rows: int, columns: int) -> int:
        """Return the number of vectors in a wide group, a multiple of the others."""
        least = -(-8 * rows * columns // self.peak_bytes)  # two sides in float32
        return _rounded_up(max(self.wide_group, least), math.lcm(self.row_group, self.column_group))

    def block(self, rows: int, columns: int, itemsize: int, lanes: int = 1) -> tuple[int, int]:
        """Return the rows and columns of a block, multiples of the wide groups; a block has about
        twice as many rows as columns, since values are read faster from a row than from a column.
        Each lane has a block in memory, and as many rows of blocks as the others.
        """
        fit = self.block_bytes // itemsize
        high = _largest_part(rows, max(math.isqrt(2 * fit), fit // columns), lanes)
        wide = _largest_part(columns, min(fit // (lanes * high), -(-columns // lanes)))
        group = self.wide(rows, columns)
        return _rounded_up(high, group), _rounded_up(wide, group)


def _largest_part(size: int, most: int, unit: int = 1) -> int:
    """Return the largest part of `size` cut into the fewest equal parts, a multiple of `unit`."""
    return -(-size // _rounded_up(-(-size // max(1, most)), unit))


def _rounded_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


@dataclass(frozen=True)
class ScaledVectors:
    """One set of `vectors` (n, d), the factors by which they are multiplied a few at a time,
    `scale` (n,), and as queries where these differ, `query_scale`, and their numbers in some
    `order` (n,).
    """

    vectors: torch.Tensor
    scale: torch.Tensor
    order: torch.Tensor
    query_scale: torch.Tensor | None = None

    @classmethod
    def of(cls, vectors: torch.Tensor, scaling: Scaling = "none") -> ScaledVectors:
        """Return vectors in the order in which they are given, with the factors of a measure."""
        scale, query_scale = vectors.new_ones(len(vectors)), None
        if scaling in ("unit", "released_cao"):
            norms = torch.linalg.vector_norm(vectors, dim=1)
            # A zero vector has cosine 0 with everything.
            scale = torch.where(norms > 0, 1 / norms, torch.zeros_like(norms))
        if scaling == "released_cao":
            # Matrices of Frobenius norm 1 in hubness terms, and queries of norm 1.
            tiny = torch.finfo(vectors.dtype).tiny
            whole = 1 / torch.linalg.matrix_norm(vectors).clamp_min(tiny)
            scale, query_scale = whole.expand(len(vectors)), scale
        return cls(vectors, scale, torch.arange(len(vectors), device=vectors.device), query_scale)

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, places: slice | torch.Tensor) -> torch.Tensor:
        """Return the scaled vectors at some places."""
        return self._scaled(places, self.scale)

    def queries(self, places: torch.Tensor) -> torch.Tensor:
        """Return the vectors at some places, scaled as queries."""
        return self._scaled(places, self.scale if self.query_scale is None else self.query_scale)

    def _scaled(self, places: slice | torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        numbers = self.order[places]
        return self.vectors.index_select(0, numbers).mul_(scale[numbers, None])

    def query_factors(self) -> torch.Tensor:
        """Return similarities of queries over those of the vectors otherwise, for each place."""
        if self.query_scale is None:
            return torch.ones_like(self.scale)
        return (self.query_scale / self.scale)[self.order]

    def by_nearness(self, other: ScaledVectors) -> ScaledVectors:
        """Return the vectors in the order of their similarity to the mean of another side."""
        mean = other.scale @ other.vectors / len(other)
        return replace(self, order=(self.vectors @ mean * self.scale).argsort(stable=True))


def first_twin(vectors: torch.Tensor) -> torch.Tensor:
    """Return for every row (n,) the lowest index of an identical row, since a product may round
    them differently. Whole rows are compared only where their first values are equal.
    """
    index = torch.arange(len(vectors), device=vectors.device)
    _, inverse, counts = torch.unique(vectors[:, 0], return_inverse=True, return_counts=True)
    alike = (counts[inverse] > 1).nonzero()[:, 0]
    if len(alike):
        _, inverse = torch.unique(vectors[alike], dim=0, return_inverse=True)
        firsts = torch.full_like(alike, len(index)).scatter_reduce_(0, inverse, alike, "amin")
        index[alike] = firsts[inverse]
    return index
