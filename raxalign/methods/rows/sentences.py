"""Sentences of one or several languages, tokenised once into flat arrays, and rows of them: single
sentences, or pairs.

A pair is one row, `[CLS] a [SEP] b [SEP]`, whose positions run on through both sentences. Rows are
put together batch by batch without a loop over rows, so the order of the two sentences may change
from one step to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from raxalign.arrays import Flat, end_to_end, offsets_of, ranges
from raxalign.caveats import listener
from raxalign.encoders.models.flat_pieces import FlatPieces, column_pieces, flat_pieces
from raxalign.encoders.models.pieces import read_template
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Spoken
from raxalign.errors import DataError
from raxalign.lazy import np
from raxalign.pairing.aligners.base import Links


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
        flat = {n: getattr(self, n)[index] for n in ("ids", "words", "lasts", "langs", "segments")}
        return replace(
            self,
            **flat,
            offsets=offsets_of(self.lengths[rows]),
            first_RK=self.first_RK[rows],
            kept_RK=self.kept_RK[rows],
        )


@dataclass(frozen=True)
class Sentences:
    """Tokenised sentences: the pieces of sentence s, without special ones, are `lengths_S[s]`
    entries of `ids` from `starts_S[s]` on, their first and last words (numbered from 0 in each
    sentence; -1: none) the same entries of `words` and `lasts`, its language
    ``languages[langs_S[s]]`` (no languages: they are not known). They are whole; only rows are cut.

    Word w of sentence s is number ``word_offsets[s] + w``; its pieces are `count_W` adjacent ones
    (0: it has none) from the place `first_W` of the sentence on. Neighbours may share a piece. The
    special pieces lie at the beginning of `ids`: those before, between and after sentences, as
    (start, number). Rows have at most `max_length` pieces.
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

    def kept(self, numbers: np.ndarray) -> np.ndarray:
        """Return how many pieces some sentences keep in rows of their own, or pairs of them (n, 2)
        in one row each, special ones apart.
        """
        pairs, lengths = numbers.ndim == 2, self.lengths_S[numbers]
        after = self.between[1] + self.after_pair[1] if pairs else self.after_single[1]
        room = max(self.max_length - self.before[1] - after, 0)
        return shares(lengths, room) if pairs else np.asarray(np.minimum(lengths, room))

    def row_lengths(self, numbers: np.ndarray) -> np.ndarray:
        """Return how many pieces the rows of some sentences have, special ones included."""
        return self.kept(numbers) + self.before[1] + self.after_single[1]

    def spans(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (place of the first piece in a row of the sentence alone, number of pieces) of
        some words, by their numbers, int64.
        """
        first, count = (part[words].astype(np.int64) for part in (self.first_W, self.count_W))
        return first + self.before[1], count

    def read_words(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the words of some sentences that have pieces: (their numbers, the place in
        `numbers` of the sentence of each).
        """
        words, owners = ranges(self.word_offsets, numbers)
        read = self.count_W[words] > 0
        return words[read], owners[read]


def single_rows(sentences: Sentences, numbers: np.ndarray) -> Rows:
    """Return a row `[CLS] a [SEP]` for each sentence of `numbers`."""
    specials = [sentences.before, sentences.after_single]
    return _laid_out(sentences, specials, numbers[:, None], sentences.kept(numbers)[:, None])


def joint_rows(sentences: Sentences, first: np.ndarray, second: np.ndarray) -> Rows:
    """Return a row `[CLS] a [SEP] b [SEP]` for each pair of sentences `first[r]`, `second[r]`; what
    is too long loses the end of the longer sentence first, as in `TransformerEncoder.pieces`.
    """
    specials = [sentences.before, sentences.between, sentences.after_pair]
    numbers_R2 = np.stack([first, second], axis=1)
    return _laid_out(sentences, specials, numbers_R2, sentences.kept(numbers_R2))


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
class Texts:
    """Sentences of text; those of the numbers `numbers_R` are trained on."""

    sentences: Sentences
    numbers_R: np.ndarray

    def __len__(self) -> int:
        return len(self.numbers_R)


@dataclass(frozen=True)
class Bitexts:
    """Sentence pairs of one or several languages with the pivot, all in one: the sides of pair p
    are the sentences `src_P[p]` and `tgt_P[p]` (the pivot's) of `sentences`. It is row
    `numbers_P[p]` of its own dataset, that of ``sentences.languages[langs_P[p]]``.

    `counts` holds for each language how many pairs were read (`read`) and how many passed the
    length filter (`sentences`). `links` are those of the words of each pair, or of their pieces
    (`with_piece_links`), where they were read; `types` are numbers of texts, of each word or of
    each sentence (`read_word_rows`, `read_sentence_rows`); `dropped` counts links of words that are
    spelt the same.
    """

    sentences: Sentences
    src_P: np.ndarray
    tgt_P: np.ndarray
    langs_P: np.ndarray
    numbers_P: np.ndarray
    counts: dict[str, dict[str, int]]
    links: Links = field(default_factory=lambda: Links.of([]))
    types: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.src_P)

    def sides(self, rows: np.ndarray) -> np.ndarray:
        """Return the sentences of some pairs: all first sides, then the pivot's."""
        return np.concatenate([self.src_P[rows], self.tgt_P[rows]])

    def linked(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the word links of some pairs: (the place in `rows` of the pair of each, the number
        of its word, and that of the pivot's).
        """
        link, owners = ranges(self.links.offsets, rows)
        starts = self.sentences.word_offsets
        src, tgt = (
            starts[numbers[rows][owners]] + positions[link]
            for numbers, positions in ((self.src_P, self.links.src), (self.tgt_P, self.links.tgt))
        )
        return owners, src, tgt


def read_bitexts(
    encoder: TransformerEncoder,
    folders: Mapping[str, Path],
    pivot: str,
    max_length: int,
    allowed: tuple[int, int | None] = (1, None),
    *,
    alone: bool = False,
) -> Bitexts:
    """Tokenise bitext (or word-pair) datasets, language -> folder in the order of the result.

    Rows of them have at most `max_length` pieces. Pairs are left out with a side of less than
    `allowed[0]` pieces, or with more than `allowed[1]` on both sides together; special pieces do
    not count (Pan et al. 2021: 10 and 128). With `alone` sentences are rows of their own: a word
    that loses a piece there has none. Raises `DataError` for a language without a pair left.
    """
    columns: list[FlatPieces] = []
    src, tgt, kept, counts, start = [], [], [], {}, 0
    for lang, folder in folders.items():
        counted = f"{lang}-{pivot}" if alone else None
        for name, code in (("src", lang), ("tgt", pivot)):
            columns.append(column_pieces(encoder, folder, name, code, counted))
        kept.append(_allowed(folder, columns[-2], columns[-1], allowed))
        n = len(columns[-1])
        src.append(start + kept[-1])
        tgt.append(start + n + kept[-1])
        counts[lang] = {"sentences": len(kept[-1]), "read": n}
        start += 2 * n
    langs = [code for k in range(len(folders)) for code in (k, len(folders))]
    sentences = _end_to_end(encoder, columns, langs, (*folders, pivot), max_length, alone=alone)
    langs_P = np.repeat(np.arange(len(kept)), list(map(len, kept)))
    src_P, tgt_P, numbers_P = map(np.concatenate, (src, tgt, kept))
    _count_cut(sentences, np.concatenate([src_P, tgt_P]) if alone else np.stack([src_P, tgt_P], 1))
    return Bitexts(sentences, src_P, tgt_P, langs_P, numbers_P, counts)


def _allowed(
    folder: Path, src: FlatPieces, tgt: FlatPieces, allowed: tuple[int, int | None]
) -> np.ndarray:
    """The numbers of the pairs of an allowed length. Raises `DataError` where there is none."""
    if not len(src):
        raise DataError(folder, "the dataset has no sentence pairs")
    sizes_2S, (least, most) = np.stack([src.lengths, tgt.lengths]), allowed
    short = sizes_2S.sum(axis=0) <= (most or np.inf)
    kept = np.flatnonzero(short & (sizes_2S.min(axis=0) >= least))
    if not len(kept):
        limits = f"{least} pieces or more on each side"
        limits += "" if most is None else f" and {most} or less on both together"
        raise DataError(
            folder,
            f"none of the {len(src)} sentence pairs has {limits}; relax min_pieces or max_pieces",
        )
    return kept


def read_texts(
    encoder: TransformerEncoder,
    folders: Mapping[str, Path],
    max_length: int,
    *,
    min_pieces: int = 1,
) -> Texts:
    """Tokenise text datasets (column ``words``), language -> folder; sentences of fewer than
    `min_pieces` pieces are not trained on. Raises `DataError` for a language without any other.
    """
    columns = [column_pieces(encoder, folder, "words", lang) for lang, folder in folders.items()]
    for folder, pieces in zip(folders.values(), columns, strict=True):
        if not (pieces.lengths >= min_pieces).any():
            raise DataError(
                folder,
                f"none of the {len(pieces)} sentences has {min_pieces} pieces or more; relax"
                " min_pieces",
            )
    langs = range(len(columns))
    sentences = _end_to_end(encoder, columns, langs, tuple(folders), max_length)
    numbers_R = np.flatnonzero(sentences.lengths_S >= min_pieces)
    _count_cut(sentences, numbers_R)
    return Texts(sentences, numbers_R)


def _count_cut(sentences: Sentences, numbers: np.ndarray) -> None:
    """Count the sentences that lose pieces in their rows, while caveats are collected."""
    if (heard := listener()) is not None:
        for s in numbers[sentences.kept(numbers) < sentences.lengths_S[numbers]].tolist():
            text = sentences.ids[sentences.starts_S[s] :][: sentences.lengths_S[s]]
            heard.lose(sentences.languages[sentences.langs_S[s]], text.tobytes())


def tokenise(
    encoder: TransformerEncoder,
    chunks: Iterable[Sequence[Sequence[str]]],
    max_length: int,
    lang: str | None = None,
) -> Sentences:
    """Return sentences, given as lists of some, that are rows of their own, of at most `max_length`
    pieces. `lang` is their language (None: a spaced one).
    """
    pieces = flat_pieces(encoder.tokenizer, chunks, lang)
    languages = () if lang is None else (lang,)
    return _end_to_end(encoder, [pieces], [0], languages, max_length, alone=True)


def _end_to_end(
    encoder: TransformerEncoder,
    columns: Sequence[FlatPieces],
    langs: Iterable[int],
    languages: tuple[str, ...],
    max_length: int,
    *,
    alone: bool = False,
) -> Sentences:
    """Columns of sentences, each of one language, end to end behind the special pieces."""
    made = read_template(encoder.tokenizer)
    specials = [made.before, made.between, made.after_single, made.after_pair]
    sizes, max_length = list(map(len, specials)), min(max_length, encoder.max_positions)
    if alone:
        for pieces in columns:
            _cut_words(pieces, max_length - sizes[0] - sizes[2])
    ids = np.array([i for part in specials for i in part], np.int32)
    none = np.full(len(ids), -1, np.int32)
    lengths_S = np.concatenate([pieces.lengths for pieces in columns])
    return Sentences(
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


def _cut_words(pieces: FlatPieces, room: int) -> None:
    """Take the pieces of words that have some beyond `room` pieces of their sentence."""
    count_W = np.asarray(pieces.count_W)
    for s in np.flatnonzero(pieces.lengths > room):
        words = slice(*pieces.word_offsets[s : s + 2])
        lost = pieces.first_W[words].astype(np.int64) + count_W[words] > room
        count_W[words][lost] = 0
