"""The k largest similarities of every vector, found while blocks of similarities are in memory.

The k-th largest of the maxima of disjoint groups is a floor: k similarities reach it. Passes over
the maxima give the floors, and only groups whose maximum exceeds its vector's floor are read, which
are little more than k per vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign import lazy

if TYPE_CHECKING:
    import numpy as np
    import torch
else:
    np = lazy.load("numpy")
    torch = lazy.load("torch")

VECTORS = 4096
"""Vectors that are looked at together."""

_SAMPLE = 16
"""Of so many vectors one shows whether vectors are crowded."""

_BEST = 8
"""Similarities in a crowded vector's best groups, for each that is looked for."""


@dataclass(frozen=True)
class Found:
    """Some similarities of a block.

    Attributes:
        vectors: the vector of each (P,), ascending.
        others: the vector of the other side (P,).
        similarities: the similarities (P,).
    """

    vectors: torch.Tensor
    others: torch.Tensor
    similarities: torch.Tensor


class Largest:
    """The k largest similarities of every vector so far, in any order: `values` (n, k), and the
    places of the other side's vectors, `others` (n, k), -1 where they are unknown.
    """

    def __init__(self, n: int, k: int, like: torch.Tensor) -> None:
        self.values = like.new_full((n, k), -math.inf)
        self.others = torch.full((n, k), -1, device=like.device)

    def raise_floors(self, first: int, tables: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return a floor for each of some neighbouring vectors (N,); only similarities above it
        have to be passed to `insert`.

        Similarities that reach the floor are noted as equal to it, until larger ones are inserted.

        Args:
            first: the first vector.
            tables: maxima of disjoint groups of new similarities for each vector (N, groups),
                tables of larger groups first; the last table has all new similarities.
        """
        k = self.values.shape[1]
        table = next((some for some in tables if some.shape[1] >= 2 * k), tables[-1])
        here = slice(first, first + len(table))
        if table.shape[1] >= k:
            floors = _kth_largest(table, k)[:, None]
            self.others[here].masked_fill_(self.values[here] < floors, -1)
            torch.maximum(self.values[here], floors, out=self.values[here])
        return self.values[here].amin(1)

    def insert(self, first: int, found: Found, other: int) -> None:
        """Take in similarities of a part of a block; its first vectors are `first` and `other`."""
        vectors = found.vectors
        if not len(vectors):
            return
        counts = torch.bincount(vectors)
        here = slice(first, first + len(counts))
        k = self.values.shape[1]
        before = counts.cumsum(0) - counts
        places = torch.arange(k, k + len(vectors), device=vectors.device) - before[vectors]
        values = self.values.new_full((len(counts), k + int(counts.max())), -math.inf)
        others = self.others.new_empty(values.shape)
        values[:, :k], others[:, :k] = self.values[here], self.others[here]
        values[vectors, places], others[vectors, places] = found.similarities, found.others + other
        chosen = _places_of_largest(values, k)
        self.values[here], self.others[here] = values.gather(1, chosen), others.gather(1, chosen)


def parts(values: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the values of vectors that are looked at together, each part with its first place."""
    for start in range(0, len(values), VECTORS):
        yield start, values[start : start + VECTORS]


def above_in_rows(
    block: torch.Tensor, peaks: torch.Tensor, first: int, floors: torch.Tensor
) -> Found:
    """Return the similarities above the floors of some neighbouring rows.

    Args:
        block: similarities (rows, groups * group), contiguous.
        peaks: the maxima of groups of neighbouring columns (rows, groups).
        first: the first of the rows, from which the vectors that are found are counted.
        floors: their floors (R,).
    """
    width = peaks.shape[1]
    group = block.shape[1] // width
    near = _places(peaks[first : first + len(floors)] > floors[:, None])
    rows = near // width
    values = block.view(-1, group).index_select(0, near + first * width)
    places = _places(values > floors[rows, None])
    pairs = places // group
    vectors = rows[pairs]
    columns = (near[pairs] - vectors * width) * group + (places - pairs * group)
    return Found(vectors, columns, values.view(-1).index_select(0, places))


def above_in_columns(
    block: torch.Tensor, peaks: torch.Tensor, first: int, floors: torch.Tensor
) -> Found:
    """Return the similarities above the floors of some neighbouring columns.

    Args:
        block: similarities (groups * group, columns), contiguous.
        peaks: the maxima of groups of neighbouring rows (groups, columns).
        first: the first of the columns, from which the vectors that are found are counted.
        floors: their floors (C,).
    """
    height, width = block.shape
    group = height // len(peaks)
    near = _places(peaks[:, first : first + len(floors)] > floors)
    groups = near // len(floors)
    columns = near - groups * len(floors)
    starts = groups * (group * width) + (columns + first)
    steps = torch.arange(group, device=block.device)[:, None]
    # The same by indices of two dimensions takes twice as long.
    values = block.view(-1).index_select(0, (steps * width + starts).view(-1)).view(group, -1)
    places = _places(values > floors[columns])
    pairs = places % max(1, len(near))
    found, order = columns[pairs].sort()
    places, pairs = places[order], pairs[order]
    rows = groups[pairs] * group + places // max(1, len(near))
    return Found(found, rows, values.view(-1).index_select(0, places))


def crowded(peaks: torch.Tensor, floors: torch.Tensor, k: int) -> bool:
    """Return whether many more groups than k exceed the floors, as where hundreds of vectors are
    nearly equal: those of one group are all similar, and the maxima show one of them. Then the
    best groups of each vector give a higher floor. On a GPU the answer is always no.

    Args:
        peaks: the maxima of groups for each vector (N, groups).
        floors: the vectors' floors (N,).
        k: the number of similarities that are looked for.
    """
    if floors.device.type != "cpu":
        return False
    some = floors[::_SAMPLE]
    return int((peaks[::_SAMPLE] > some[:, None]).sum()) > 2 * k * len(some)


def best_in_rows(block: torch.Tensor, peaks: torch.Tensor, k: int) -> torch.Tensor:
    """Return the similarities in the groups with the largest maxima of every row (rows, P), where P
    is several times k.

    Args:
        block: similarities (rows, groups * group), contiguous.
        peaks: the maxima of groups of neighbouring columns (rows, groups).
        k: the number of similarities that are looked for.
    """
    width = peaks.shape[1]
    group = block.shape[1] // width
    groups = peaks.topk(min(width, -(-_BEST * k // group)), dim=1).indices
    rows = torch.arange(len(block), device=block.device)[:, None]
    return block.view(-1, group)[rows * width + groups].flatten(1)


def best_in_columns(block: torch.Tensor, peaks: torch.Tensor, k: int) -> torch.Tensor:
    """Return the similarities in the groups with the largest maxima of every column (columns, P),
    where P is several times k.

    Args:
        block: similarities (groups * group, columns).
        peaks: the maxima of groups of neighbouring rows (groups, columns).
        k: the number of similarities that are looked for.
    """
    group = len(block) // len(peaks)
    groups = peaks.topk(min(len(peaks), -(-_BEST * k // group)), dim=0).indices
    rows = groups[:, None] * group + torch.arange(group, device=block.device)[:, None]
    columns = torch.arange(block.shape[1], device=block.device)
    return block[rows, columns].flatten(0, 1).T


def _places(chosen: torch.Tensor) -> torch.Tensor:
    """Return the places of what is true in a contiguous mask (P,), ascending.

    NumPy finds them three times as fast as PyTorch does on a CPU.
    """
    if chosen.device.type != "cpu":
        return chosen.view(-1).nonzero()[:, 0]
    return torch.from_numpy(np.flatnonzero(chosen.numpy()))


def _kth_largest(table: torch.Tensor, k: int) -> torch.Tensor:
    """Return the k-th largest value of every row (rows,)."""
    if table.device.type != "cpu":
        return table.topk(k, dim=1).values[:, -1]
    some = [part.contiguous().numpy() for _, part in parts(table)]
    return torch.from_numpy(np.concatenate([np.partition(part, -k)[:, -k] for part in some]))


def _places_of_largest(values: torch.Tensor, k: int) -> torch.Tensor:
    """Return the columns of the k largest of every row (rows, k), in any order.

    NumPy selects three times as fast as PyTorch does on a CPU.
    """
    if values.device.type != "cpu":
        return values.topk(k, dim=1, sorted=False).indices
    return torch.from_numpy(np.argpartition(values.numpy(), -k, axis=1)[:, -k:])
