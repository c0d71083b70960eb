"""Ragged rows in flat arrays: row r is the entries ``offsets[r]`` to ``offsets[r + 1]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from raxalign.lazy import np

if TYPE_CHECKING:
    import numpy.typing as npt

Ints: TypeAlias = "npt.NDArray[np.int64]"
Int32s: TypeAlias = "npt.NDArray[np.int32]"
Bools: TypeAlias = "npt.NDArray[np.bool_]"
Floats: TypeAlias = "npt.NDArray[np.float64]"

_COPIED = 8_000_000
"""Entries up to which arrays are copied to lie end to end: lookups in one array are faster."""


class Joined:
    """Integer arrays end to end, without a copy: mapped files stay files. Entries are looked up by
    their numbers, or as a slice.

    >>> joined = Joined([np.array([3, 1]), np.array([], int), np.array([4])])
    >>> len(joined), joined[np.array([2, 0])].tolist(), joined[1:].tolist()
    (3, [4, 3], [1, 4])
    """

    def __init__(self, parts: Sequence[np.ndarray | Joined]) -> None:
        flat = [entry for part in parts for entry in _parts_of(part)]
        self.parts = [part for part in flat if len(part)] or flat[:1]
        self._offsets = offsets_of([len(part) for part in self.parts])
        self.dtype = np.result_type(*self.parts)

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def __getitem__(self, index: np.ndarray | slice) -> np.ndarray:
        """Return a copy of some entries: those of these numbers, or of a slice without a step."""
        if isinstance(index, slice):
            return self._slice(*index.indices(len(self))[:2])
        if len(self.parts) == 1:
            return np.asarray(self.parts[0][index])
        found = np.empty(len(index), self.dtype)
        which = np.searchsorted(self._offsets, index, side="right") - 1
        for k in np.flatnonzero(np.bincount(which, minlength=len(self.parts))):
            here = which == k
            found[here] = self.parts[k][index[here] - self._offsets[k]]
        return found

    def _slice(self, start: int, stop: int) -> np.ndarray:
        begins = self._offsets[:-1].tolist()
        cuts = [
            part[max(start - begin, 0) : max(stop - begin, 0)]
            for begin, part in zip(begins, self.parts, strict=True)
        ]
        return np.concatenate(cuts).astype(self.dtype, copy=False)


Flat: TypeAlias = "np.ndarray | Joined"
"""A flat array, or several end to end."""


def end_to_end(parts: Sequence[np.ndarray | Joined]) -> Flat:
    """Return arrays end to end: copied where they are small, else as they are."""
    if len(parts) == 1:
        return parts[0]
    joined = Joined(parts)
    return joined if len(joined) > _COPIED else joined[:]


def _parts_of(part: np.ndarray | Joined) -> Sequence[np.ndarray]:
    return part.parts if isinstance(part, Joined) else [part]


def offsets_of(lengths: np.ndarray | Sequence[int]) -> Ints:
    """Return where each of some adjacent rows begins, and where the last one ends: int64, one more
    than there are rows. Lengths may be truth values.

    >>> offsets_of([2, 0, 3]).tolist(), offsets_of([]).tolist()
    ([0, 2, 2, 5], [0])
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.asarray(lengths), dtype=np.int64)])


def distinct(numbers: np.ndarray) -> np.ndarray:
    """Return the different numbers in ascending order. `np.unique` alone makes a hash table, which
    takes forty times as long where most numbers differ; it sorts where it counts.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    return np.unique(numbers, return_counts=True)[0]


def spread_evenly(count: int, most: int | None) -> Ints:
    """Return the numbers of at most `most` of `count` things (None: all), evenly spread over them.

    >>> spread_evenly(9, 3).tolist(), spread_evenly(2, 3).tolist(), spread_evenly(0, 3).tolist()
    ([0, 4, 8], [0, 1], [])
    """
    chosen = count if most is None else min(most, count)
    return np.linspace(0, max(count - 1, 0), chosen).astype(np.int64)


def ranges(offsets: np.ndarray, rows: np.ndarray) -> tuple[Ints, Ints]:
    """Return the entries of some rows, one after the other: (indices into the flat array, the place
    in `rows` of the row that each belongs to).

    >>> [part.tolist() for part in ranges(np.array([0, 2, 2, 5]), np.array([2, 0]))]
    [[2, 3, 4, 0, 1], [0, 0, 0, 1, 1]]
    """
    starts = offsets[rows]
    lengths = offsets[rows + 1] - starts
    owners = np.repeat(np.arange(len(rows)), lengths)
    return (
        np.arange(len(owners)) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths),
        owners,
    )


def word_pieces(words: np.ndarray, lasts: np.ndarray) -> tuple[Ints, Ints]:
    """Return each piece with each of its words: (pieces, words), in the order of pieces. Piece i
    belongs to the words ``words[i]`` to ``lasts[i]``, to none where they are -1.

    >>> [part.tolist() for part in word_pieces(np.array([-1, 0, 0, 2]), np.array([-1, 0, 1, 2]))]
    [[1, 2, 2, 3], [0, 0, 1, 2]]
    """
    pieces = np.flatnonzero(words >= 0)
    firsts = words[pieces].astype(np.int64)
    more = lasts[pieces] - firsts
    if not more.any():
        return pieces, firsts
    offsets = offsets_of(more + 1)
    owners = np.repeat(np.arange(len(pieces)), more + 1)
    return pieces[owners], firsts[owners] + np.arange(len(owners)) - offsets[owners]
