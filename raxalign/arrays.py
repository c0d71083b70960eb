"""Ragged rows in flat arrays: row r is the entries ``offsets[r]`` to ``offsets[r + 1]``."""

from __future__ import annotations

import numpy as np


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Where each of some adjacent rows begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def ranges(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The entries of some rows, one after the other: (indices into the flat array, the place in `rows` of the row that each belongs to).

    >>> [part.tolist() for part in ranges(np.array([0, 2, 2, 5]), np.array([2, 0]))]
    [[2, 3, 4, 0, 1], [0, 0, 0, 1, 1]]
    """
    starts = offsets[rows]
    lengths = offsets[rows + 1] - starts
    owners = np.repeat(np.arange(len(rows)), lengths)
    return np.arange(len(owners)) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths), owners
