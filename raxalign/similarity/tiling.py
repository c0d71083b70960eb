"""How the matrix of all similarities is cut, and the two sides that it is a product of."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raxalign import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


@dataclass(frozen=True)
class Tiling:
    """How the work is cut, which changes no result beyond rounding.

    Attributes:
        block_bytes: bytes of similarities that are in memory at once.
        aspect: rows per column of a block.
        peak_group: neighbouring candidates of which a query's maximum is kept to the end.
        peak_bytes: bytes of these maxima; their groups are larger where they need more.
        tile: columns of a tile.
        row_group: neighbouring columns of which a row keeps the maximum.
        column_group: neighbouring rows of which a column keeps the maximum.
    """

    block_bytes: int = 128 * 2**20
    aspect: int = 2
    peak_group: int = 128
    peak_bytes: int = 256 * 2**20
    tile: int = 1024
    row_group: int = 32
    column_group: int = 16

    def block(self, rows: int, columns: int, itemsize: int, lanes: int = 1) -> tuple[int, int]:
        """Return the rows and columns of a block of a matrix, multiples of every group.

        A block is higher than wide: single values are read faster from a row than from a column,
        and the fewer blocks a side has, the fewer values are read. Each lane has a block in memory,
        as many rows of blocks as the others, and a column of blocks of its own. Blocks of several
        lanes are narrower, and no lower than they have to be.
        """
        fit = self.block_bytes // itemsize
        high = _share(rows, max(math.isqrt(self.aspect * fit), fit // columns), lanes)
        wide = _share(columns, min(fit // (lanes * high), -(-columns // lanes)))
        return (
            _whole(high, self.pooled(self.column_group, rows, columns)),
            _whole(wide, self.pooled(self.row_group, rows, columns)),
        )

    def pooled(self, group: int, rows: int, columns: int) -> int:
        """Return the size of the groups whose maxima are kept: a multiple of `group`."""
        least = -(-8 * rows * columns // self.peak_bytes)  # two sides in float32
        return _whole(max(self.peak_group, least), group)


def _share(size: int, most: int, unit: int = 1) -> int:
    """Return the size of the largest part where `size` is cut into the fewest equal parts, a
    multiple of `unit`.
    """
    return -(-size // _whole(-(-size // max(1, most)), unit))


def _whole(size: int, unit: int) -> int:
    """Round up to a multiple."""
    return -(-size // unit) * unit


@dataclass(frozen=True)
class Factored:
    """One set of vectors with a factor for each, in some order; ``vectors * scale`` is multiplied,
    and computed for a few rows at a time.

    Attributes:
        vectors: the vectors (n, d).
        scale: the factors (n,), or None for 1.
        order: the vectors' numbers in their order (n,), or None where they stay as they are.
    """

    vectors: torch.Tensor
    scale: torch.Tensor | None
    order: torch.Tensor | None = None

    def __len__(self) -> int:
        return self.vectors.shape[0]

    def numbers(self) -> torch.Tensor:
        """Return the vectors' numbers in their order (n,)."""
        if self.order is None:
            return torch.arange(len(self), device=self.vectors.device)
        return self.order

    def rows(self, start: int = 0, stop: int | None = None) -> torch.Tensor:
        """Return some neighbouring rows, scaled."""
        if self.order is not None:
            return self._numbered(self.order[start:stop])
        rows = self.vectors[start:stop]
        return rows if self.scale is None else rows * self.scale[start:stop, None]

    def take(self, places: torch.Tensor) -> torch.Tensor:
        """Return the rows at some places, scaled."""
        return self._numbered(places if self.order is None else self.order[places])

    def _numbered(self, numbers: torch.Tensor) -> torch.Tensor:
        rows = self.vectors.index_select(0, numbers)
        return rows if self.scale is None else rows.mul_(self.scale[numbers, None])

    def mean(self) -> torch.Tensor:
        """Return the mean row (d,)."""
        if self.scale is None:
            return self.vectors.mean(0)
        return self.scale @ self.vectors / len(self)

    def by_nearness(self, point: torch.Tensor) -> Factored:
        """Return the same vectors in the order of their dot products with a point (d,)."""
        nearness = self.vectors @ point
        if self.scale is not None:
            nearness *= self.scale
        return replace(self, order=nearness.argsort(stable=True))


def inverse_norms(vectors: torch.Tensor) -> torch.Tensor:
    """Return 1 / Euclidean norm of every row (n,); a zero vector has cosine 0 with everything."""
    norms = torch.linalg.vector_norm(vectors, dim=1)
    return torch.where(norms > 0, 1 / norms, torch.zeros_like(norms))
