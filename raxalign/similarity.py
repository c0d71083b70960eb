"""Exact nearest neighbours between two sets of vectors, in both directions, block by block: CSLS,
cosine, dot product.

CSLS costs two matrix products and keeps no similarities: the first finds the k largest of every row
and column (the hubness terms), the second the best candidates; where all similarities fit into a
modest memory, the first product's are kept for the second. Around each product, a few passes in
place:

* the k largest of a row lie in the k groups of neighbouring columns whose maxima are largest, so
  that a sort sees k groups and not the row; columns likewise, in groups of rows, a block of rows at
  a time;
* an arg max is looked for only where the maximum of a tile is above the best before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import lazy_loader as lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")

Measure = Literal["csls", "cosine", "dot", "released_cao"]
_HUBNESS_ROWS = 1024  # vectors whose similarities are in memory together


@dataclass(frozen=True)
class Tiling:
    """How the work is cut, which changes no result beyond rounding: bytes of similarities held at
    once, or in all where no more would be needed (`keep_bytes`), columns of a tile, and columns
    (`row_group`) and rows (`column_group`) of a group.
    """

    block_bytes: int = 96 * 2**20
    keep_bytes: int = 640 * 2**20
    tile: int = 1024
    row_group: int = 32
    column_group: int = 16

    def rows(self, columns: int, itemsize: int) -> int:
        """Rows of a block, a multiple of `column_group`."""
        fit = self.block_bytes // max(1, columns * itemsize)
        return max(1, fit // self.column_group) * self.column_group


@dataclass
class _Side:
    """One set of vectors (n, d) with a factor for every row: what is multiplied is ``vectors *
    scale``, made a few rows at a time.
    """

    vectors: torch.Tensor
    scale: torch.Tensor | None

    def __len__(self) -> int:
        return self.vectors.shape[0]

    def rows(self, start: int = 0, stop: int | None = None) -> torch.Tensor:
        rows = self.vectors[start:stop]
        return rows if self.scale is None else rows * self.scale[start:stop, None]


def nearest_neighbors(
    source: torch.Tensor,
    target: torch.Tensor,
    *,
    measure: Measure = "csls",
    k: int = 10,
    tiling: Tiling | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """For every source vector its nearest target vector, and for every target vector its nearest
    source vector.

    `csls` is 2 cos(x, y) - r_T(x) - r_S(y) with r the mean cosine of the k nearest on the other
    side (Conneau et al. 2018, eq. 3); `cosine` and `dot` use no neighbourhoods. `released_cao` is
    what the circulating script of Cao et al. (2020) computes under the name of CSLS: it divides a
    matrix by the norm of the whole and the queries by their own, which makes it nearly a dot
    product. A k above the number of vectors means all of them. Ties go to the lower index;
    identical candidates always tie, other ties hold up to rounding.

    Args:
        source: float (n, d), on any device, normalised or not; half precision is computed in
            float32.
        target: float (m, d), same device and dtype.
        measure: the similarity.
        k: neighbours in a hubness term.
        tiling: how the work is cut, for tests and tuning.

    Returns:
        (forward, backward): int64 (n,) indices into `target`, int64 (m,) indices into `source`.

    Raises:
        ValueError: shapes, devices or dtypes that do not go together, a side without vectors,
            values that are not finite, an unknown measure.
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
            kept = _room_for_all(x, y, tiling) if measure == "csls" else None
            r_x, r_y = _hubness_both(x, y, k, tiling, kept) if measure == "csls" else (None, None)
            forward, backward = _best(x, y, r_x, r_y, tiling, kept)
        return _first_twin(target)[forward], _first_twin(source)[backward]


def _check(source: torch.Tensor, target: torch.Tensor, measure: str, k: int) -> None:
    if measure not in get_args(Measure):
        raise ValueError(f"unknown measure {measure!r}: one of {', '.join(get_args(Measure))}")
    if k < 1:
        raise ValueError(f"k is {k}: a hubness term needs at least one neighbour")
    if source.ndim != 2 or target.ndim != 2 or source.shape[1] != target.shape[1]:
        raise ValueError(
            f"shapes {tuple(source.shape)} and {tuple(target.shape)}: both sides are (vectors,"
            " dimensions) with equal dimensions"
        )
    if (
        not source.is_floating_point()
        or source.dtype != target.dtype
        or source.device != target.device
    ):
        raise ValueError(
            f"{source.dtype} on {source.device} and {target.dtype} on {target.device}: both sides"
            " are of one float type and device"
        )
    for name, side in (("source", source), ("target", target)):
        if not len(side):
            raise ValueError(f"{name} has no vectors, so that the other side has no neighbours")
        if not all(bool(torch.isfinite(part).all()) for part in torch.split(side, 4096)):
            raise ValueError(f"{name} has values that are NaN or infinite")


def _inverse_norms(vectors: torch.Tensor) -> torch.Tensor:
    """1 / Euclidean norm of every row (n,); a zero vector has cosine 0 with everything."""
    norms = torch.linalg.vector_norm(vectors, dim=1)
    return torch.where(norms > 0, 1 / norms, torch.zeros_like(norms))


def _released_cao(
    source: torch.Tensor, target: torch.Tensor, k: int, tiling: Tiling
) -> tuple[torch.Tensor, torch.Tensor]:
    """Hubness terms between matrices of Frobenius norm 1, and queries of norm 1 against candidates
    of such a matrix.
    """
    ones = torch.ones_like(source[:, 0]), torch.ones_like(target[:, 0])
    x, y = (
        _Side(v, one / torch.linalg.matrix_norm(v).clamp_min(torch.finfo(v.dtype).tiny))
        for v, one in zip((source, target), ones, strict=True)
    )
    r_x, r_y = _hubness_both(x, y, k, tiling)
    forward, _ = _best(_Side(source, _inverse_norms(source)), y, None, r_y, tiling)
    _, backward = _best(x, _Side(target, _inverse_norms(target)), r_x, None, tiling)
    return forward, backward


def hubness(vectors: torch.Tensor, others: torch.Tensor, k: int) -> torch.Tensor:
    """Return the mean similarity of every vector (N, d) to the k most similar of the others (M, d),
    (N,): r of CSLS (Conneau et al. 2018, eq. 3).

    The similarity is the dot product, so that unit vectors give cosines; a k above M means all of
    them.
    """
    blocks = torch.split(vectors, _HUBNESS_ROWS)
    return torch.cat(
        [(block @ others.T).topk(min(k, len(others)), dim=1).values.mean(1) for block in blocks]
    )


def _room_for_all(x: _Side, y: _Side, tiling: Tiling) -> torch.Tensor | None:
    """A matrix for all similarities (n, m), padded to whole groups, where it fits into
    `keep_bytes`.
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


def _hubness_both(
    x: _Side, y: _Side, k: int, tiling: Tiling, kept: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean similarity of every row to its k nearest columns (n,), and of every column to its k
    nearest rows (m,); all of them into `kept`.
    """
    n, m = len(x), len(y)
    g, h = tiling.row_group, tiling.column_group
    step = min(tiling.rows(m, x.vectors.element_size()), -(-n // h) * h)
    block = (
        x.vectors.new_full((step, -(-m // g) * g), -math.inf) if kept is None else kept
    )  # beyond the last column nothing is ever near
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
    rows: torch.Tensor, y: _Side, block: torch.Tensor, g: int, h: int, tile: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fills `block` (padded rows, padded columns) with similarities; returns the maxima of g
    columns in every row (rows, groups), and of h rows in every column (m, groups). A tile is read
    again while it is still in the cache.
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
    """The k largest of every row (rows, k): they lie in the k groups with the largest maxima."""
    groups = peaks.topk(min(k, peaks.shape[1]), dim=1, sorted=False).indices
    groups += torch.arange(0, peaks.numel(), peaks.shape[1], device=groups.device)[:, None]
    candidates = block.view(-1, g).index_select(0, groups.flatten()).view(len(block), -1)
    return candidates.topk(k, dim=1, sorted=False).values


def _largest_in_columns(
    block: torch.Tensor, peaks: torch.Tensor, k: int, h: int, width: int = 2048
) -> torch.Tensor:
    """The k largest, or all, of every column (m, at most k), -inf where there are fewer."""
    found = []
    for start in range(0, block.shape[1], width):
        groups = (
            peaks[start : start + width].topk(min(k, peaks.shape[1]), dim=1, sorted=False).indices.T
        )
        rows = (groups[:, None] * h + torch.arange(h, device=groups.device)[:, None]).flatten(0, 1)
        candidates = block[:, start : start + width].gather(0, rows).T.contiguous()
        found.append(candidates.topk(min(k, candidates.shape[1]), dim=1, sorted=False).values)
    return torch.cat(found)


def _best(
    x: _Side,
    y: _Side,
    r_x: torch.Tensor | None,
    r_y: torch.Tensor | None,
    tiling: Tiling,
    kept: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The column of largest 2 s - r_y in every row (n,), and the row of largest 2 s - r_x in every
    column (m,); s from `kept` where it is.
    """
    n, m, g, h = len(x), len(y), tiling.row_group, tiling.column_group
    r_x, r_y = (
        x.vectors.new_zeros(len(side)) if r is None else r for side, r in ((x, r_x), (y, r_y))
    )
    step, tile = min(2 * tiling.tile, n), min(tiling.tile, m)
    forward, backward = _Best(n, x.vectors), _Best(m, x.vectors)
    scores = x.vectors.new_empty(-(-step // h) * h, -(-tile // g) * g)
    products = x.vectors.new_empty(step * tile)
    for top in range(0, n, step):
        rows = x.rows(top, top + step) * 2
        for left in range(0, m, tile):
            columns = y.rows(left, left + tile)
            shape = len(rows), len(columns)
            doubled = products[: shape[0] * shape[1]].view(shape)
            if kept is None:
                torch.mm(rows, columns.T, out=doubled)
            else:
                torch.mul(kept[top : top + shape[0], left : left + shape[1]], 2, out=doubled)
            scores[shape[0] :], scores[:, shape[1] :] = -math.inf, -math.inf
            inside = scores[: shape[0], : shape[1]]
            torch.sub(doubled, r_y[left : left + tile], out=inside)
            forward.update(*_row_peaks(scores, g), top, left, shape[0])
            torch.sub(doubled, r_x[top : top + step, None], out=inside)
            backward.update(*_column_peaks(scores, h), left, top, shape[1])
    return forward.indices, backward.indices


Locate = Callable[["torch.Tensor"], "torch.Tensor"]


def _row_peaks(scores: torch.Tensor, g: int) -> tuple[torch.Tensor, Locate]:
    """The maximum of every row, and a function from row numbers to the columns of their maxima; a
    group is searched, not a row.
    """
    grouped = scores.view(len(scores), -1, g)
    peaks, groups = grouped.amax(2).max(1)

    def locate(rows: torch.Tensor) -> torch.Tensor:
        return groups[rows] * g + grouped[rows, groups[rows]].argmax(1)

    return peaks, locate


def _column_peaks(scores: torch.Tensor, h: int) -> tuple[torch.Tensor, Locate]:
    """The maximum of every column, and a function from column numbers to the rows of their
    maxima.
    """
    grouped = scores.view(-1, h, scores.shape[1])
    peaks, groups = grouped.amax(1).max(0)

    def locate(columns: torch.Tensor) -> torch.Tensor:
        return groups[columns] * h + grouped[groups[columns], :, columns].argmax(1)

    return peaks, locate


class _Best:
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
        """Maxima of a tile that begins at these numbers and has so many queries (beyond them is
        padding).
        """
        here = slice(first_query, first_query + queries)
        better = (peaks[:queries] > self.scores[here]).nonzero()[:, 0]
        self.indices[here][better] = locate(better) + first_candidate
        self.scores[here][better] = peaks[better]


def _first_twin(vectors: torch.Tensor) -> torch.Tensor:
    """For every row (n,) the lowest index of a row identical to it; a product may round identical
    rows differently.
    """
    words = vectors.contiguous().add(0.0).view(torch.int32)  # -0.0 becomes 0.0
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(-(2**62), 2**62, (words.shape[1],), generator=generator).to(
        words.device
    )
    hashes = torch.cat([(part * factors).sum(1) for part in torch.split(words, 2048)])
    _, inverse = torch.unique(hashes, return_inverse=True)
    index = torch.arange(len(vectors), device=vectors.device)
    first = torch.full_like(index, len(vectors)).scatter_reduce_(0, inverse, index, "amin")[inverse]
    twins = (first < index).nonzero()[:, 0]
    same = (vectors[twins] == vectors[first[twins]]).all(1)
    index[twins[same]] = first[twins[same]]
    return index
