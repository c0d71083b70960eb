"""The first pass over all similarities: the k nearest of every vector of either side.

Every similarity is computed once, in a block that is in memory while both sides look at it. The k
largest values of a row lie in the k groups of neighbouring columns with the largest maxima, so one
pass over the block finds the maxima, and only k groups per row are read again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from raxalign.lazy import np, torch
from raxalign.similarity.scaled_vectors import ScaledVectors, Tiling
from raxalign.similarity.worker_pool import lanes_for, walk

_CACHED = 2**20
"""Bytes of similarities that stay in the cache of a core."""

_READ = 4096
"""Vectors whose groups are read at once."""


@dataclass(frozen=True)
class Nearest:
    """What one product says of the similarities between one side's n vectors and the other's: the
    `values` and the `places` of the k nearest of the other side in its order (n, k), and the
    `peaks`, the largest similarity to each `group` of so many neighbouring vectors of the other
    side (groups, n).
    """

    values: torch.Tensor
    places: torch.Tensor
    peaks: torch.Tensor
    group: int

    def add(self, grouped: torch.Tensor, peaks: torch.Tensor, first: int, other: int) -> None:
        """Take in the similarities `grouped` of some neighbouring vectors (vectors, groups, group)
        and the `peaks` of the groups (vectors, groups); `first` is the place of the first vector,
        and `other` that of the first vector of the other side.
        """
        narrow = grouped.shape[2]
        wide = peaks.view(len(peaks), -1, self.group // narrow).amax(2)
        start = other // self.group
        self.peaks[start : start + wide.shape[1], first : first + len(wide)] = wide.T
        k, rows = self.values.shape[1], torch.arange(_READ, device=peaks.device)[:, None]
        for begin in range(0, len(peaks), _READ):
            part = peaks[begin : begin + _READ]
            here = slice(first + begin, first + begin + len(part))
            values, places = self.values[here], self.places[here]
            _, groups = _largest(part, min(k, part.shape[1]))
            read = grouped[begin : begin + _READ][rows[: len(part)], groups].flatten(1)
            best, chosen = _largest(torch.cat([values, read], 1), k)
            is_new, known = chosen >= k, places.gather(1, chosen.clamp(max=k - 1))
            chosen = (chosen - k).clamp_(min=0)
            found = groups.gather(1, chosen // narrow).mul_(narrow)
            found.add_(chosen % narrow + other)
            self.values[here], self.places[here] = best, torch.where(is_new, found, known)


def _largest(values: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest values of every row and their columns, in any order; of equal ones the
    first where k is 1. NumPy selects three times as fast as PyTorch does on a CPU.
    """
    if k == 1:
        columns = values.argmax(1, keepdim=True)
    elif values.device.type == "cpu":
        columns = torch.from_numpy(np.argpartition(values.numpy(), -k, axis=1)[:, -k:])
    else:
        columns = values.topk(k, dim=1, sorted=False).indices
    return values.gather(1, columns), columns


def nearest_both(
    x: ScaledVectors,
    y: ScaledVectors,
    k: int,
    tiling: Tiling,
    penalties: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[Nearest, Nearest]:
    """Return the k nearest of every row (n vectors `x`) among the columns (m vectors `y`), and of
    every column among the rows; all of them where there are fewer.

    `penalties` are what is subtracted from twice the similarity for each row (n,) and each column
    (m,) as a candidate (None: nothing, and the similarity counts once).
    """
    n, m, g, h = len(x), len(y), tiling.row_group, tiling.column_group
    # One lane visits columns in ascending order, so that the first of equals stays.
    lanes = 1 if k == 1 else lanes_for(x.vectors, y.vectors)
    rows, columns = tiling.block(n, m, x.vectors.element_size(), lanes)
    space, group = x.vectors.new_empty(lanes, rows * columns), tiling.wide(n, m)
    sizes = ((n, m), (m, n))
    ahead, back = (_none_yet(own, other, min(k, other), group, space) for own, other in sizes)

    def visit(lane: int, top: int, left: int) -> None:
        some = x.take(slice(top, top + rows))
        others = y.take(slice(left, left + columns))
        block = _padded_product(some, others, space[lane], group)
        in_rows, in_columns = _scores(block, penalties, top, left)
        row_peaks, column_peaks = _maxima(in_rows, in_columns, g, h)
        grouped_rows = in_rows.view(len(block), -1, g)
        grouped_columns = in_columns.view(-1, h, block.shape[1]).permute(2, 0, 1)
        ahead.add(grouped_rows[: len(some)], row_peaks[: len(some)], top, left)
        back.add(grouped_columns[: len(others)], column_peaks.T[: len(others)], left, top)

    walk(range(0, n, rows), range(0, m, columns), visit, lanes)
    return ahead, back


def _none_yet(n: int, m: int, k: int, group: int, like: torch.Tensor) -> Nearest:
    values = like.new_full((n, k), -math.inf)
    places = torch.zeros((n, k), dtype=torch.int64, device=like.device)
    return Nearest(values, places, like.new_empty(-(-m // group), n), group)


def _padded_product(
    some: torch.Tensor, others: torch.Tensor, space: torch.Tensor, group: int
) -> torch.Tensor:
    """Return a block in `space`, rounded up to whole groups; padding is never near."""
    shape = -(-len(some) // group) * group, -(-len(others) // group) * group
    block = space[: shape[0] * shape[1]].view(shape)
    block[len(some) :], block[:, len(others) :] = -math.inf, -math.inf
    torch.mm(some, others.T, out=block[: len(some), : len(others)])
    return block


def _scores(
    block: torch.Tensor, penalties: tuple[torch.Tensor, torch.Tensor] | None, top: int, left: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a block's scores of the columns for each row, and of the rows for each column."""
    if penalties is None:
        return block, block
    (height, width), (of_rows, of_columns) = block.shape, penalties
    block.mul_(2)
    for_rows = block - _padded(of_columns[left : left + width], width)
    return for_rows, block - _padded(of_rows[top : top + height], height)[:, None]


def _padded(values: torch.Tensor, size: int) -> torch.Tensor:
    return torch.nn.functional.pad(values, (0, size - len(values)))


def _maxima(
    in_rows: torch.Tensor, in_columns: torch.Tensor, g: int, h: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima of groups of g neighbouring columns (rows, groups) and of h neighbouring
    rows (groups, columns); a CPU reads a few rows at a time, the second from its cache.
    """
    rows, width = in_rows.shape
    row_peaks = in_rows.new_empty(rows, width // g)
    column_peaks = in_rows.new_empty(rows // h, width)
    groups = rows // h
    if in_rows.device.type == "cpu":
        groups = max(1, _CACHED // (h * width * in_rows.element_size()))
    for top in range(0, rows, groups * h):
        here, there = slice(top, top + groups * h), slice(top // h, top // h + groups)
        torch.amax(in_rows[here].view(-1, width // g, g), 2, out=row_peaks[here])
        torch.amax(in_columns[here].view(-1, h, width), 1, out=column_peaks[there])
    return row_peaks, column_peaks
