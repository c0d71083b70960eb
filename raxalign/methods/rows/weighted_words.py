"""Words whose vectors are read from the states of sentences, each with its weight in a loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.arrays import offsets_of, ranges
from raxalign.encoders.models.vectors import Pooling
from raxalign.methods.rows.linked_words import PieceSide
from raxalign.methods.rows.states import Spans

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy.load("numpy")


@dataclass(frozen=True)
class WeightedSpans:
    """Words as their vectors are read, and the weight of each."""

    spans: Spans
    weight: np.ndarray


@dataclass(frozen=True)
class WeightedWords:
    """Words to read: the place of the first piece of each, its number of pieces, and its weight."""

    first: np.ndarray
    count: np.ndarray
    weight: np.ndarray

    @classmethod
    def none(cls) -> WeightedWords:
        """No words."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    @classmethod
    def join(cls, parts: Sequence[WeightedWords]) -> WeightedWords:
        """All words of several parts."""
        return cls(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("first", "count", "weight")
            )
        )

    def pooled(self, pooling: Pooling) -> WeightedSpans:
        """Return the words as their vectors are read."""
        return WeightedSpans(Spans.of(self.first, self.count, pooling), self.weight)


def ends_of_rows(
    side: PieceSide, rows: np.ndarray, starts: np.ndarray, weight: np.ndarray
) -> WeightedWords:
    """Return the first and the last piece of some rows, with the weights of the rows; they begin at
    `starts` in the states.
    """
    ends = starts + side.offsets[rows + 1] - side.offsets[rows] - 1
    ones = np.ones(len(rows), np.int64)
    pieces = (WeightedWords(starts, ones, weight), WeightedWords(ends, ones, weight))
    return WeightedWords.join(pieces)


def count_read_words(side: PieceSide) -> np.ndarray:
    """Return how many words of each sentence were read."""
    read = offsets_of(side.read_words())
    return np.diff(read[side.word_offsets])


def read_words_of(side: PieceSide, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all words of some rows that were read: (positions in their sentences, the place in
    `rows` of each).
    """
    number, owners = ranges(side.word_offsets, rows)
    read = side.count_W[number] > 0
    return (number - side.word_offsets[rows][owners])[read], owners[read]
