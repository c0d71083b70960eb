"""Ragged rows in flat arrays: row r is the entries ``offsets[r]`` to ``offsets[r + 1]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import lazy_loader as lazy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = lazy.load("numpy")


Ints: TypeAlias = "npt.NDArray[np.int64]"


def offsets_of(lengths: np.ndarray | Sequence[int]) -> Ints:
    """Return where each of some adjacent rows begins, and where the last one ends: int64, one more
    than there are rows. Lengths may be truth values.

    >>> offsets_of([2, 0, 3]).tolist(), offsets_of([]).tolist()
    ([0, 2, 2, 5], [0])
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.asarray(lengths), dtype=np.int64)])


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
