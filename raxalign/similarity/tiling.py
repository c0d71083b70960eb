"""How the matrix of all similarities is cut, and the two sides that it is a product of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import lazy_loader as lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


@dataclass(frozen=True)
class Tiling:
    """How the work is cut, which changes no result beyond rounding.

    Attributes:
        block_bytes: bytes of similarities that are in memory at once.
        keep_bytes: bytes up to which all similarities of a search are kept.
        tile: columns of a tile.
        row_group: neighbouring columns of which a row keeps the maximum.
        column_group: neighbouring rows of which a column keeps the maximum.
    """

    block_bytes: int = 96 * 2**20
    keep_bytes: int = 640 * 2**20
    tile: int = 1024
    row_group: int = 32
    column_group: int = 16

    def rows(self, columns: int, itemsize: int) -> int:
        """Return the rows of a block, a multiple of `column_group`."""
        fit = self.block_bytes // max(1, columns * itemsize)
        return max(1, fit // self.column_group) * self.column_group


@dataclass
class Factored:
    """One set of vectors (n, d) with a factor for each row; ``vectors * scale`` is multiplied, and
    computed for a few rows at a time.
    """

    vectors: torch.Tensor
    scale: torch.Tensor | None

    def __len__(self) -> int:
        return self.vectors.shape[0]

    def rows(self, start: int = 0, stop: int | None = None) -> torch.Tensor:
        """Return some rows, scaled."""
        rows = self.vectors[start:stop]
        return rows if self.scale is None else rows * self.scale[start:stop, None]


def inverse_norms(vectors: torch.Tensor) -> torch.Tensor:
    """Return 1 / Euclidean norm of every row (n,); a zero vector has cosine 0 with everything."""
    norms = torch.linalg.vector_norm(vectors, dim=1)
    return torch.where(norms > 0, 1 / norms, torch.zeros_like(norms))
