"""Sentences of one or several languages, divided into pieces once and kept in flat arrays, and rows
of them: single sentences, or pairs.

A pair is one row, `[CLS] a [SEP] b [SEP]`, whose positions run on through both sentences. Rows are
put together batch by batch without a loop over rows, so the order of the two sentences may change
from one step to the next.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from raxalign.arrays import Flat, end_to_end, offsets_of, ranges
from raxalign.caveats import Caveats
from raxalign.encoders.models.pieces import Pieces
from raxalign.encoders.models.vectors import Batch
from raxalign.lazy import np, torch

_WIDTH = 128
"""Pieces per row, about, where sentences share rows."""
_EVEN_WIDTH = 48
"""What the widths of rows are multiples of that are to have few shapes: three times as much is next
above `_WIDTH`.
"""


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

    @classmethod
    def of(cls, ids: np.ndarray, lengths: np.ndarray, segments: np.ndarray | None = None) -> Rows:
        """Return rows of pieces that lie end to end, of no words and of no known language.

        >>> rows = Rows.of(np.array([2, 7, 3, 2, 3]), np.array([3, 2]))
        >>> rows.lengths.tolist(), rows.take(np.array([1])).ids.tolist()
        ([3, 2], [2, 3])
        """
        none = np.broadcast_to(np.int32(-1), len(ids))
        segments = np.broadcast_to(np.int8(0), len(ids)) if segments is None else segments
        first_R1 = np.zeros((len(lengths), 1), np.int64)
        offsets = offsets_of(lengths)
        return cls(ids, none, none, none, segments, offsets, first_R1, np.asarray(lengths)[:, None])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The pieces of each row, special ones included."""
        return np.diff(self.offsets)

    def take(self, rows: np.ndarray | None = None) -> Rows:
        """Return some of the rows (None: all), in the order given."""
        if rows is None:
            return self
        index, _ = ranges(self.offsets, rows)
        flat = {n: getattr(self, n)[index] for n in ("ids", "words", "lasts", "langs", "segments")}
        return replace(
            self,
            **flat,
            offsets=offsets_of(self.lengths[rows]),
            first_RK=self.first_RK[rows],
            kept_RK=self.kept_RK[rows],
        )

    def padded(self, filler: int, segment_types: int) -> Batch:
        """Return the rows as a batch in the memory of the host. `filler` is the piece that stands
        for padding, `segment_types` the number of token types of the encoder.
        """
        lengths_R = self.lengths
        mask_BT = np.arange(int(lengths_R.max(initial=0))) < lengths_R[:, None]
        ids_BT, words_BT, lasts_BT, langs_BT, segments_BT = np.full(
            (5, *mask_BT.shape), -1, np.int64
        )
        ids_BT[:], segments_BT[:] = filler, 0
        ids_BT[mask_BT], words_BT[mask_BT], lasts_BT[mask_BT] = self.ids, self.words, self.lasts
        langs_BT[mask_BT] = self.langs
        if segment_types > 1:
            segments_BT[mask_BT] = self.segments
        arrays = (ids_BT, mask_BT.astype(np.int64), segments_BT, words_BT, lasts_BT, langs_BT)
        parts: Any = (*map(torch.from_numpy, arrays), self.languages)
        return Batch(*parts)

    def fitting_width(self, width: int = _WIDTH) -> int:
        """Return the width to give to `Packed.of` for rows that hold at most `width` pieces each,
        or as many as the longest one has, with hardly any padding.

        >>> ids = np.zeros(240, int)
        >>> Rows.of(ids[:210], np.array([70, 70, 70])).fitting_width(128)  # not half a row empty
        70
        >>> Rows.of(ids, np.array([60, 60, 60, 60])).fitting_width(128)
        120
        """
        lengths_S = self.lengths
        total, widest = int(lengths_S.sum()), max(width, int(lengths_S.max(initial=0)))
        n_rows = -(-total // widest)
        while True:
            fitting = -(-total // max(n_rows, 1))
            if _layout(lengths_S, fitting)[-1] <= widest:
                return fitting
            n_rows += 1


@dataclass(frozen=True)
class Packed:
    """Rows of pieces: `ids_BT`, the place of each piece in its sentence `positions_BT`, and its
    sentence `sentences_BT` (-1: padding). Sentence s has `lengths_S` pieces from `starts_S` on of
    the rows laid end to end; several may share a row where they are `shared`. `segments_BT` are
    token types, which encoders without a second one ignore. `langs_BT` is the language of each
    piece, a number of `languages` (-1: padding; None: it is not known).
    """

    ids_BT: np.ndarray
    positions_BT: np.ndarray
    sentences_BT: np.ndarray
    starts_S: np.ndarray
    lengths_S: np.ndarray
    segments_BT: np.ndarray
    langs_BT: np.ndarray | None
    languages: tuple[str, ...]
    shared: bool

    @classmethod
    def of(
        cls, parts: Sequence[Rows], pad: int, width: int = _WIDTH, *, even: bool = False
    ) -> Packed:
        """Return sentences (or pairs), the rows of several parts, in as few rows as hold them at
        about `width` pieces each (0: one row per sentence), filled up with the piece `pad`. The
        longest come first, each into the emptiest row, so that hardly any padding is left; `even`
        adds some, so that batches of about equal size have the same shape.
        """
        lengths_S = np.concatenate([rows.lengths for rows in parts])
        rows_S, columns_S, n_rows, used = _layout(lengths_S, width)
        n_rows, used = _rounded_up(n_rows, used) if even else (n_rows, used)
        owners = np.repeat(np.arange(len(lengths_S)), lengths_S)
        places = np.arange(len(owners)) - np.repeat(np.cumsum(lengths_S) - lengths_S, lengths_S)
        starts_S = rows_S * used + columns_S
        flat = starts_S[owners] + places

        def placed(values: np.ndarray | Sequence[np.ndarray], filler: int) -> np.ndarray:
            rows_F = np.full(n_rows * used, filler, np.int64)
            rows_F[flat] = np.concatenate(values) if isinstance(values, list) else values
            return rows_F.reshape(n_rows, used)

        names: tuple[str, ...] = ()
        if all(rows.languages for rows in parts):
            names = tuple(dict.fromkeys(name for rows in parts for name in rows.languages))
        langs = [
            np.array([names.index(n) for n in rows.languages])[rows.langs]
            for rows in parts
            if names
        ]
        return cls(
            placed([rows.ids for rows in parts], pad),
            placed(places, 0),
            placed(owners, -1),
            starts_S,
            lengths_S,
            placed([rows.segments for rows in parts], 0),
            placed(langs, -1) if names else None,
            names,
            bool(width),
        )


def _layout(lengths_S: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, int, int]:
    """(row, column) of each sentence, the number of rows, and the width of the fullest."""
    rows_S, columns_S = np.arange(len(lengths_S)), np.zeros(len(lengths_S), np.int64)
    if not width:
        return rows_S, columns_S, len(lengths_S), int(lengths_S.max(initial=0))
    filled = [(0, row) for row in range(-(-int(lengths_S.sum()) // width))]
    for s in np.argsort(-lengths_S, kind="stable").tolist():
        used, row = filled[0]
        rows_S[s], columns_S[s] = row, used
        heapq.heapreplace(filled, (used + int(lengths_S[s]), row))
    return rows_S, columns_S, len(filled), max(used for used, _ in filled)


def _rounded_up(n_rows: int, width: int) -> tuple[int, int]:
    """Return a number of rows and their width, rounded up so that few are different: the one to an
    eighth of the power of two below, the other to multiples of `_EVEN_WIDTH`.
    """
    eighth = max((1 << n_rows.bit_length()) // 16, 1)
    return -(-n_rows // eighth) * eighth, -(-width // _EVEN_WIDTH) * _EVEN_WIDTH


@dataclass(frozen=True)
class Sentences:
    """Tokenised sentences: the pieces of sentence s, without special ones, are `lengths_S[s]`
    entries of `ids` from `starts_S[s]` on, their first and last words (numbered from 0 in each
    sentence; -1: none) the same entries of `words` and `lasts`, its language
    ``languages[langs_S[s]]`` (no languages: they are not known). They are whole; only rows are cut.

    Word w of sentence s is number ``word_offsets[s] + w``; its pieces are `count_W` adjacent ones
    (0: it has none) from the place `first_W` of the sentence on. Neighbours may share a piece. The
    special pieces lie at the beginning of `ids`: those before, between and after sentences, as
    (start, number); behind them lies the piece of a row that would have none. Rows have at most
    `max_length` pieces.
    """

    ids: Flat
    words: Flat
    lasts: Flat
    starts_S: np.ndarray
    lengths_S: np.ndarray
    langs_S: np.ndarray
    word_offsets: np.ndarray
    first_W: Flat
    count_W: Flat
    languages: tuple[str, ...]
    max_length: int
    before: tuple[int, int]
    between: tuple[int, int]
    after_single: tuple[int, int]
    after_pair: tuple[int, int]

    def __len__(self) -> int:
        return len(self.starts_S)

    @classmethod
    def of(
        cls,
        encoder: Any,
        columns: Sequence[Pieces],
        langs: Iterable[int],
        languages: tuple[str, ...],
        max_length: int | None = None,
        *,
        alone: bool = False,
    ) -> Sentences:
        """Return columns of sentences, of the languages of these numbers, end to end. Their rows
        have at most `max_length` pieces, or as many as the encoder reads. With `alone` sentences
        are rows of their own: a word that loses a piece there has none.
        """
        made, most = encoder.template, encoder.max_positions
        specials = [made.before, made.between, made.after_single, made.after_pair]
        sizes, max_length = list(map(len, specials)), min(max_length or most, most)
        if alone:
            for pieces in columns:
                _cut_words(pieces, max_length - sizes[0] - sizes[2])
        ids = np.array([i for part in (*specials, (encoder.filler,)) for i in part], np.int32)
        none = np.full(len(ids), -1, np.int32)
        lengths_S = np.concatenate([pieces.lengths for pieces in columns])
        return cls(
            end_to_end([ids, *(pieces.ids for pieces in columns)]),
            end_to_end([none, *(pieces.words for pieces in columns)]),
            end_to_end([none, *(pieces.lasts for pieces in columns)]),
            len(ids) + offsets_of(lengths_S)[:-1],
            lengths_S,
            np.repeat(list(langs), [len(pieces) for pieces in columns]),
            offsets_of(np.concatenate([np.diff(pieces.word_offsets) for pieces in columns])),
            end_to_end([pieces.first_W for pieces in columns]),
            end_to_end([pieces.count_W for pieces in columns]),
            languages,
            max_length,
            *((sum(sizes[:i]), size) for i, size in enumerate(sizes)),
        )

    @classmethod
    def join(cls, parts: Sequence[Sentences]) -> Sentences:
        """Return the sentences of several parts for one encoder, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        names = tuple(dict.fromkeys(name for part in parts for name in part.languages))
        before = offsets_of([len(part.ids) for part in parts]).tolist()
        starts = [part.starts_S + at for part, at in zip(parts, before, strict=False)]
        tables = [np.array([names.index(name) for name in part.languages]) for part in parts]
        langs = [table[part.langs_S] for table, part in zip(tables, parts, strict=True)]
        sizes = [np.diff(part.word_offsets) for part in parts]
        names_of_flat = ("ids", "words", "lasts", "first_W", "count_W")
        flat: Any = {n: end_to_end([getattr(part, n) for part in parts]) for n in names_of_flat}
        return replace(
            parts[0],
            **flat,
            starts_S=np.concatenate(starts),
            lengths_S=np.concatenate([part.lengths_S for part in parts]),
            langs_S=np.concatenate(langs),
            word_offsets=offsets_of(np.concatenate(sizes)),
            languages=names,
        )

    def kept(self, numbers: np.ndarray) -> np.ndarray:
        """Return how many pieces some sentences keep in rows of their own, or pairs of them (n, 2)
        in one row each, special ones apart.
        """
        pairs, lengths = numbers.ndim == 2, self.lengths_S[numbers]
        after = self.between[1] + self.after_pair[1] if pairs else self.after_single[1]
        room = max(self.max_length - self.before[1] - after, 0)
        return shares(lengths, room) if pairs else np.asarray(np.minimum(lengths, room))

    def row_lengths(self, numbers: np.ndarray) -> np.ndarray:
        """Return how many pieces the rows of some sentences or pairs (n, 2) have, special ones
        included; one at least.
        """
        pairs, kept = numbers.ndim == 2, self.kept(numbers)
        after = self.between[1] + self.after_pair[1] if pairs else self.after_single[1]
        total = (kept.sum(axis=1) if pairs else kept) + self.before[1] + after
        return np.asarray(np.maximum(total, 1))

    def spans(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (place of the first piece in a row of the sentence alone, number of pieces) of
        some words, by their numbers, int64.
        """
        first, count = (part[words].astype(np.int64) for part in (self.first_W, self.count_W))
        return first + self.before[1], count

    def report_cut(self, numbers: np.ndarray) -> None:
        """Count the sentences that lose pieces in their rows, while caveats are collected."""
        self.report_lost(numbers[self.kept(numbers) < self.lengths_S[numbers]], "maximum length")

    def report_lost(self, numbers: np.ndarray, limit: str) -> None:
        """Count sentences, by their numbers, as cut at a limit, while caveats are collected."""
        if (heard := Caveats.listener()) is not None:
            for s in numbers.tolist():
                text = self.ids[self.starts_S[s] : self.starts_S[s] + self.lengths_S[s]]
                lang = self.languages[self.langs_S[s]]
                heard.lose(lang, text.tobytes(), f"texts cut at the {limit}")

    def read_words(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the words of some sentences that have pieces: (their numbers, the place in
        `numbers` of the sentence of each).
        """
        words, owners = ranges(self.word_offsets, numbers)
        read = self.count_W[words] > 0
        return words[read], owners[read]

    def single_rows(self, numbers: np.ndarray) -> Rows:
        """Return a row `[CLS] a [SEP]` for each sentence of `numbers`."""
        specials = [self.before, self.after_single]
        return _laid_out(self, specials, numbers[:, None], self.kept(numbers)[:, None])

    def joint_rows(self, first: np.ndarray, second: np.ndarray) -> Rows:
        """Return a row `[CLS] a [SEP] b [SEP]` for each pair of sentences `first[r]`, `second[r]`;
        what is too long loses the end of the longer sentence first.
        """
        specials = [self.before, self.between, self.after_pair]
        numbers_R2 = np.stack([first, second], axis=1)
        return _laid_out(self, specials, numbers_R2, self.kept(numbers_R2))


def shares(lengths_R2: np.ndarray, room: int) -> np.ndarray:
    """Return how many pieces the two sentences of each row keep in `room`, (R, 2): the longer one
    is cut first, then both.

    >>> shares(np.array([[10, 3], [10, 9], [9, 10], [2, 3]]), 9).tolist()
    [[6, 3], [5, 4], [4, 5], [2, 3]]
    """
    shorter_R = np.minimum(lengths_R2.min(axis=1), room // 2)
    longer_R = np.minimum(lengths_R2.max(axis=1), room - shorter_R)
    first_R = lengths_R2[:, 0] <= lengths_R2[:, 1]
    is_shorter_R2 = np.stack([first_R, ~first_R], axis=1)
    cut_R2 = np.where(is_shorter_R2, shorter_R[:, None], longer_R[:, None])
    return np.where((lengths_R2.sum(axis=1) <= room)[:, None], lengths_R2, cut_R2)


def _laid_out(
    sentences: Sentences,
    specials: list[tuple[int, int]],
    numbers_RK: np.ndarray,
    kept_RK: np.ndarray,
) -> Rows:
    """Rows of special pieces and sentences in turn; these have the special ones after them."""
    n, k = numbers_RK.shape
    parts = 2 * k + 1
    starts_RP, lengths_RP = np.empty((n, parts), np.int64), np.empty((n, parts), np.int64)
    starts_RP[:, 0::2], lengths_RP[:, 0::2] = ([part[i] for part in specials] for i in (0, 1))
    starts_RP[:, 1::2], lengths_RP[:, 1::2] = sentences.starts_S[numbers_RK], kept_RK
    empty_R = lengths_RP.sum(axis=1) == 0  # a row of padding alone has no states
    starts_RP[empty_R, 1], lengths_RP[empty_R, 1] = sum(sentences.after_pair), 1
    flat = lengths_RP.reshape(-1)
    ends = np.cumsum(flat)
    index = np.arange(int(ends[-1]) if n else 0) + np.repeat(
        starts_RP.reshape(-1) - (ends - flat), flat
    )
    owner_P = np.maximum(np.arange(parts) - 1, 0) // 2
    segments = np.repeat(np.broadcast_to(owner_P, (n, parts)).reshape(-1), flat)
    langs = np.repeat(sentences.langs_S[numbers_RK][:, owner_P].reshape(-1), flat)
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


@dataclass(frozen=True)
class RowSource:
    """Rows that are laid out when they are taken: row r is the sentence `numbers_R[r]` by itself,
    or the pair `numbers_R[r, 0]`, `numbers_R[r, 1]`. Of a word that loses pieces the others stay as
    context and no longer count as the word's (-1).
    """

    sentences: Sentences
    numbers_R: np.ndarray

    def __len__(self) -> int:
        return len(self.numbers_R)

    @classmethod
    def of(cls, encoder: Any, sides: Sequence[Pieces]) -> RowSource:
        """Return the rows that an encoder reads of the chosen sentences of one column, or of pairs
        of those of two. What is lost is reported while caveats are collected.
        """
        names = tuple(dict.fromkeys(str(side.lang) for side in sides))
        langs = [names.index(str(side.lang)) for side in sides]
        sentences = Sentences.of(encoder, sides, langs, names)
        starts = offsets_of([len(side) for side in sides]).tolist()
        numbers = [side.numbers() + start for side, start in zip(sides, starts, strict=False)]
        rows = cls(sentences, np.stack(numbers, axis=1) if numbers[1:] else numbers[0])
        if (heard := Caveats.listener()) is not None:
            heard.not_as_trained.update(encoder.not_as_trained)
        sentences.report_cut(rows.numbers_R)
        return rows

    @classmethod
    def join(cls, parts: Sequence[RowSource]) -> RowSource:
        """Return the rows of several parts for one encoder, one part after the other."""
        starts = offsets_of([len(part.sentences) for part in parts]).tolist()
        numbers = [part.numbers_R + start for part, start in zip(parts, starts, strict=False)]
        return cls(Sentences.join([part.sentences for part in parts]), np.concatenate(numbers))

    @cached_property
    def lengths(self) -> np.ndarray:
        """The pieces of each row, special ones included."""
        return self.sentences.row_lengths(self.numbers_R)

    def n_words(self) -> np.ndarray:
        """Return the number of words of each sentence that stands by itself."""
        return np.asarray(np.diff(self.sentences.word_offsets)[self.numbers_R])

    def __getitem__(self, which: int) -> Rows:
        """Return one row."""
        return self.take(np.array([range(len(self))[which]]))

    def __iter__(self) -> Iterator[Rows]:
        return (self[place] for place in range(len(self)))

    def take(self, chosen: np.ndarray | None = None) -> Rows:
        """Return some of the rows (None: all), in the order given."""
        numbers = self.numbers_R if chosen is None else self.numbers_R[chosen]
        if numbers.ndim == 1:
            rows, numbers = self.sentences.single_rows(numbers), numbers[:, None]
        else:
            rows = self.sentences.joint_rows(numbers[:, 0], numbers[:, 1])
        return _with_whole_words(rows, self.sentences, numbers)


def _with_whole_words(rows: Rows, sentences: Sentences, numbers_RK: np.ndarray) -> Rows:
    """The rows without the words that lost a piece, and with their own languages alone."""
    used = np.unique(sentences.langs_S[numbers_RK])
    place = np.zeros(max(len(rows.languages), 1), np.int64)
    place[used] = np.arange(len(used))
    rows = replace(
        rows, langs=place[rows.langs], languages=tuple(rows.languages[i] for i in used.tolist())
    )
    cut_RK = rows.kept_RK < sentences.lengths_S[numbers_RK]
    if not cut_RK.any():
        return rows
    lost_RK = np.full(cut_RK.shape, np.iinfo(np.int32).max, np.int64)
    lost = sentences.words[(sentences.starts_S[numbers_RK] + rows.kept_RK)[cut_RK]]
    lost_RK[cut_RK] = np.where(lost >= 0, lost, np.iinfo(np.int32).max)
    lost_P = lost_RK[np.repeat(np.arange(len(rows)), rows.lengths), rows.segments]
    words = np.where(rows.words >= lost_P, -1, rows.words)
    return replace(
        rows, words=words, lasts=np.where(words >= 0, np.minimum(rows.lasts, lost_P - 1), -1)
    )


def _cut_words(pieces: Pieces, room: int) -> None:
    """Take the pieces of words that have some beyond `room` pieces of their sentence."""
    count_W = np.asarray(pieces.count_W)
    for s in np.flatnonzero(pieces.lengths > room):
        words = slice(*pieces.word_offsets[s : s + 2])
        lost = pieces.first_W[words].astype(np.int64) + count_W[words] > room
        count_W[words][lost] = 0
