"""Exact nearest neighbours between two sets of vectors, in both directions, block by block: CSLS, cosine, dot product.

CSLS costs two matrix products and keeps no similarities: the first finds the k largest of every row and column (the hubness terms), the
second the best candidates. Around each product, a few passes in place:

* the k largest of a row lie in the k groups of neighbouring columns whose maxima are largest, so that a sort sees k groups and not the row;
  columns likewise, in groups of rows, a block of rows at a time;
* an arg max is looked for only where the maximum of a tile is above the best before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import lazy_loader as lazy

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
else:
    torch = lazy.load("torch")

Measure = Literal["csls", "cosine", "dot", "released_cao"]


@dataclass(frozen=True)
class Tiling:
    """How the work is cut, which changes no result beyond rounding: bytes of similarities held at once, columns of a tile, and columns
    (`row_group`) and rows (`column_group`) of a group.
    """

    block_bytes: int = 96 * 2**20
    tile: int = 1024
    row_group: int = 32
    column_group: int = 16

    def rows(self, columns: int, itemsize: int) -> int:
        """Rows of a block, a multiple of `column_group`."""
        fit = self.block_bytes // max(1, columns * itemsize)
        return max(1, fit // self.column_group) * self.column_group


@dataclass
class _Side:
    """One set of vectors (n, d) with a factor for every row: what is multiplied is ``vectors * scale``, made a few rows at a time."""

    vectors: torch.Tensor
    scale: torch.Tensor | None

    def __len__(self) -> int:
        return self.vectors.shape[0]

    def rows(self, start: int = 0, stop: int | None = None) -> torch.Tensor:
        rows = self.vectors[start:stop]
        return rows if self.scale is None else rows * self.scale[start:stop, None]


def nearest_neighbors(
    source: torch.Tensor, target: torch.Tensor, *, measure: Measure = "csls", k: int = 10, tiling: Tiling | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """For every source vector its nearest target vector, and for every target vector its nearest source vector.

    `csls` is 2 cos(x, y) - r_T(x) - r_S(y) with r the mean cosine of the k nearest on the other side (Conneau et al. 2018, eq. 3); `cosine`
    and `dot` use no neighbourhoods. `released_cao` is what the circulating script of Cao et al. (2020) computes under the name of CSLS: it
    divides a matrix by the norm of the whole and the queries by their own, which makes it nearly a dot product. A k above the number of
    vectors means all of them. Ties go to the lower index; identical candidates always tie, other ties hold up to rounding.

    Args:
        source: float (n, d), on any device, normalised or not; half precision is computed in float32.
        target: float (m, d), same device and dtype.
        measure: the similarity.
        k: neighbours in a hubness term.
        tiling: how the work is cut, for tests and tuning.

    Returns:
        (forward, backward): int64 (n,) indices into `target`, int64 (m,) indices into `source`.

    Raises:
        ValueError: shapes, devices or dtypes that do not go together, a side without vectors, values that are not finite, an unknown measure.
    """
    _check(source, target, measure, k)
    tiling = tiling or Tiling()
    with torch.no_grad():
        if source.dtype in (torch.float16, torch.bfloat16):
            source, target = source.float(), target.float()
        if measure == "released_cao":
            forward, backward = _released_cao(source, target, k, tiling)
        else:
            unit = measure != "dot"
            x = _Side(source, _inverse_norms(source) if unit else None)
            y = _Side(_Side(target, _inverse_norms(target)).rows() if unit else target, None)
            r_x, r_y = _hubness(x, y, k, tiling) if measure == "csls" else (None, None)
            forward, backward = _best(x, y, r_x, r_y, tiling)
        return _first_twin(target)[forward], _first_twin(source)[backward]


def _check(source: torch.Tensor, target: torch.Tensor, measure: str, k: int) -> None:
    if measure not in get_args(Measure):
        raise ValueError(f"unknown measure {measure!r}: one of {', '.join(get_args(Measure))}")
    if k < 1:
        raise ValueError(f"k is {k}: a hubness term needs at least one neighbour")
    if source.ndim != 2 or target.ndim != 2 or source.shape[1] != target.shape[1]:
        raise ValueError(f"shapes {tuple(source.shape)} and {tuple(target.shape)}: both sides are (vectors, dimensions) with equal dimensions")
    if not source.is_floating_point() or source.dtype != target.dtype or source.device != target.device:
        raise ValueError(f"{source.dtype} on {source.device} and {target.dtype} on {target.device}: both sides are of one float type and device")
    for name, side in (("source", source), ("target", target)):
        if not len(side):
            raise ValueError(f"{name} has no vectors, so that the other side has no neighbours")
        if not all(bool(torch.isfinite(part).all()) for part in side.split(4096)):
            raise ValueError(f"{name} has values that are NaN or infinite")


def _inverse_norms(vectors: torch.Tensor) -> torch.Tensor:
    """1 / Euclidean norm of every row (n,); a zero vector has cosine 0 with everything."""
    norms = torch.linalg.vector_norm(vectors, dim=1)
    return torch.where(norms > 0, 1 / norms, torch.zeros_like(norms))


def _released_cao(source: torch.Tensor, target: torch.Tensor, k: int, tiling: Tiling) -> tuple[torch.Tensor, torch.Tensor]:
    """Hubness terms between matrices of Frobenius norm 1, and queries of norm 1 against candidates of such a matrix."""
    ones = torch.ones_like(source[:, 0]), torch.ones_like(target[:, 0])
    x, y = (_Side(v, one / torch.linalg.matrix_norm(v).clamp_min(torch.finfo(v.dtype).tiny)) for v, one in zip((source, target), ones, strict=True))
    r_x, r_y = _hubness(x, y, k, tiling)
    forward, _ = _best(_Side(source, _inverse_norms(source)), y, None, r_y, tiling)
    _, backward = _best(x, _Side(target, _inverse_norms(target)), r_x, None, tiling)
    return forward, backward


def _hubness(x: _Side, y: _Side, k: int, tiling: Tiling) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean similarity of every row to its k nearest columns (n,), and of every column to its k nearest rows (m,)."""
    k_rows, k_columns = min(k, len(y)), min(k, len(x))
    row_means = []
    column_best: torch.Tensor | None = None
    for block in _blocks(x, y, tiling):
        row_means.append(block.topk(k_rows, dim=1).values.mean(1))
        best = block.topk(min(k_columns, len(block)), dim=0).values
        column_best = best if column_best is None else torch.cat([column_best, best])
        column_best = column_best.topk(min(k_columns, len(column_best)), dim=0).values
    assert column_best is not None
    return torch.cat(row_means), column_best.mean(0)


def _blocks(x: _Side, y: _Side, tiling: Tiling) -> Iterator[torch.Tensor]:
    step = tiling.rows(len(y), x.vectors.element_size())
    columns = y.rows().T
    for start in range(0, len(x), step):
        yield x.rows(start, start + step) @ columns


def _best(x: _Side, y: _Side, r_x: torch.Tensor | None, r_y: torch.Tensor | None, tiling: Tiling) -> tuple[torch.Tensor, torch.Tensor]:
    """The column of largest 2 s - r_y in every row (n,), and the row of largest 2 s - r_x in every column (m,)."""
    forward = []
    best: torch.Tensor | None = None
    backward = torch.zeros(len(y), dtype=torch.int64, device=x.vectors.device)
    seen = 0
    for block in _blocks(x, y, tiling):
        forward.append((block if r_y is None else 2 * block - r_y).argmax(1))
        scores = block if r_x is None else 2 * block - r_x[seen : seen + len(block), None]
        found = scores.max(0)
        better = found.values > best if best is not None else torch.ones_like(backward, dtype=torch.bool)
        backward[better] = found.indices[better] + seen
        best = found.values if best is None else torch.maximum(best, found.values)
        seen += len(block)
    return torch.cat(forward), backward


def _first_twin(vectors: torch.Tensor) -> torch.Tensor:
    """For every row (n,) the lowest index of a row identical to it; a product may round identical rows differently."""
    words = vectors.contiguous().add(0.0).view(torch.int32)  # -0.0 becomes 0.0
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(-(2**62), 2**62, (words.shape[1],), generator=generator).to(words.device)
    hashes = torch.cat([(part * factors).sum(1) for part in words.split(2048)])
    _, inverse = torch.unique(hashes, return_inverse=True)
    index = torch.arange(len(vectors), device=vectors.device)
    first = torch.full_like(index, len(vectors)).scatter_reduce_(0, inverse, index, "amin")[inverse]
    twins = (first < index).nonzero()[:, 0]
    same = (vectors[twins] == vectors[first[twins]]).all(1)
    index[twins[same]] = first[twins[same]]
    return index
