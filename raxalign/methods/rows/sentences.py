"""Sentences of one or several languages in flat arrays, and rows of them: single sentences, or
pairs.

A pair is one row, `[CLS] a [SEP] b [SEP]`, whose positions run on through both sentences. Rows are
put together batch by batch without a loop over rows, so the order of the two sentences may change
from one step to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.arrays import Flat, offsets_of, ranges
from raxalign.encoders.models.vectors import Spoken

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy.load("numpy")


@dataclass(frozen=True)
class Rows:
    """Rows of pieces, one after the other: row r is the entries ``offsets[r]`` to ``offsets[r +
    1]`` of the flat arrays.

    `ids` are the pieces, special ones included; `words` and `lasts` are the first and the last word
    of each piece in its own sentence (-1: none); `langs` its language, an index into `languages`
    (those of the `Sentences`); `segments` is 1 in the second sentence of a pair and its separator,
    else 0. The k-th sentence of row r (K is 1, or 2 for pairs) has its first piece at the place
    ``first_RK[r, k]`` *of the row* and ``kept_RK[r, k]`` pieces there, which are the first ones of
    the sentence: its last word may have lost some of its own.
    """

    ids: np.ndarray
    words: np.ndarray
    lasts: np.ndarray
    langs: np.ndarray
    segments: np.ndarray
    offsets: np.ndarray
    first_RK: np.ndarray
    kept_RK: np.ndarray
    languages: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def spoken(self) -> Spoken | None:
        """The language of each piece; None where the rows do not name their languages."""
        return Spoken(self.languages, self.langs) if self.languages else None

    @property
    def lengths(self) -> np.ndarray:
        """The pieces of each row, special ones included."""
        return np.diff(self.offsets)

    def take(self, rows: np.ndarray) -> Rows:
        """Return some of the rows, in the order given."""
        index, _ = ranges(self.offsets, rows)
        flat = (self.ids, self.words, self.lasts, self.langs, self.segments)
        ids, words, lasts, langs, segments = (part[index] for part in flat)
        return Rows(
            ids,
            words,
            lasts,
            langs,
            segments,
            offsets_of(self.lengths[rows]),
            self.first_RK[rows],
            self.kept_RK[rows],
            self.languages,
        )

    @classmethod
    def join(cls, parts: Sequence[Rows]) -> Rows:
        """Return all rows of several parts, of as many sentences each, one after the other. The
        parts number the same languages.
        """
        flat = ("ids", "words", "lasts", "langs", "segments")
        ids, words, lasts, langs, segments, lengths, first_RK, kept_RK = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in (*flat, "lengths", "first_RK", "kept_RK")
        )
        flat_parts = (ids, words, lasts, langs, segments, offsets_of(lengths))
        return cls(*flat_parts, first_RK, kept_RK, parts[0].languages)


@dataclass(frozen=True)
class Sentences:
    """Tokenised sentences: the pieces of sentence s, without special ones, are `lengths_S[s]`
    entries of `ids` from `starts_S[s]` on, their first and last words (numbered from 0 in each
    sentence; -1: none) the same entries of `words` and `lasts`, its language
    ``languages[langs_S[s]]``. They are whole; only rows are cut.

    The special pieces lie at the beginning of `ids`: those before, between and after sentences, as
    (start, number). Rows have at most `max_length` pieces.
    """

    ids: Flat
    words: Flat
    lasts: Flat
    starts_S: np.ndarray
    lengths_S: np.ndarray
    langs_S: np.ndarray
    languages: tuple[str, ...]
    max_length: int
    before: tuple[int, int]
    between: tuple[int, int]
    after_single: tuple[int, int]
    after_pair: tuple[int, int]

    def __len__(self) -> int:
        return len(self.starts_S)

    def pieces(self, sentence: int) -> np.ndarray:
        """Return the pieces of one sentence, without special ones."""
        return self.ids[
            self.starts_S[sentence] : self.starts_S[sentence] + self.lengths_S[sentence]
        ]


def single_rows(sentences: Sentences, numbers: np.ndarray) -> Rows:
    """Return a row `[CLS] a [SEP]` for each sentence of `numbers`."""
    room = sentences.max_length - sentences.before[1] - sentences.after_single[1]
    kept_R1 = np.minimum(sentences.lengths_S[numbers], max(room, 0))[:, None]
    langs_R1 = sentences.langs_S[numbers][:, None]
    return _laid_out(
        sentences, [sentences.before, sentences.after_single], numbers[:, None], kept_R1, langs_R1
    )


def joint_rows(sentences: Sentences, first: np.ndarray, second: np.ndarray) -> Rows:
    """Return a row `[CLS] a [SEP] b [SEP]` for each pair of sentences `first[r]`, `second[r]`; what
    is too long loses the end of the longer sentence first, as in `TransformerEncoder.pieces`.
    """
    specials = [sentences.before, sentences.between, sentences.after_pair]
    room = max(sentences.max_length - sum(size for _, size in specials), 0)
    numbers_R2 = np.stack([first, second], axis=1)
    return _laid_out(
        sentences,
        specials,
        numbers_R2,
        shares(sentences.lengths_S[numbers_R2], room),
        sentences.langs_S[numbers_R2],
    )


def shares(lengths_R2: np.ndarray, room: int) -> np.ndarray:
    """Return how many pieces the two sentences of each row keep in `room`, (R, 2): the longer one
    is cut first, then both.

    >>> shares(np.array([[10, 3], [10, 9], [9, 10], [2, 3]]), 9).tolist()
    [[6, 3], [5, 4], [4, 5], [2, 3]]
    """
    shorter_R = np.minimum(lengths_R2.min(axis=1), room // 2)
    longer_R = np.minimum(lengths_R2.max(axis=1), room - shorter_R)
    first_shorter_R = lengths_R2[:, 0] <= lengths_R2[:, 1]
    cut_R2 = np.stack(
        [
            np.where(first_shorter_R, shorter_R, longer_R),
            np.where(first_shorter_R, longer_R, shorter_R),
        ],
        axis=1,
    )
    return np.where((lengths_R2.sum(axis=1) <= room)[:, None], lengths_R2, cut_R2)


def _laid_out(
    sentences: Sentences,
    specials: list[tuple[int, int]],
    numbers_RK: np.ndarray,
    kept_RK: np.ndarray,
    langs_RK: np.ndarray,
) -> Rows:
    """Rows of special pieces and sentences in turn; special pieces but the first ones belong to the
    sentence before them.
    """
    n, k = numbers_RK.shape
    parts = 2 * k + 1
    starts_RP, lengths_RP = np.empty((n, parts), np.int64), np.empty((n, parts), np.int64)
    starts_RP[:, 0::2], lengths_RP[:, 0::2] = ([part[i] for part in specials] for i in (0, 1))
    starts_RP[:, 1::2], lengths_RP[:, 1::2] = sentences.starts_S[numbers_RK], kept_RK
    flat = lengths_RP.reshape(-1)
    ends = np.cumsum(flat)
    index = np.arange(int(ends[-1]) if n else 0) + np.repeat(
        starts_RP.reshape(-1) - (ends - flat), flat
    )
    owner_P = np.maximum(np.arange(parts) - 1, 0) // 2
    segments = np.repeat(np.broadcast_to(owner_P, (n, parts)).reshape(-1), flat)
    langs = np.repeat(langs_RK[:, owner_P].reshape(-1), flat)
    first_RK = (np.cumsum(lengths_RP, axis=1) - lengths_RP)[:, 1::2]
    return Rows(
        sentences.ids[index],
        sentences.words[index],
        sentences.lasts[index],
        langs,
        segments,
        offsets_of(lengths_RP.sum(axis=1)),
        first_RK,
        kept_RK,
        sentences.languages,
    )
