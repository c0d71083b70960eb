"""Word pairs and sentence pairs as pieces: tokenised once, in flat arrays, so that a batch is put
together without a loop over words. Several languages have one numbering of rows, with the types by
which false negatives are recognised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.arrays import Flat, end_to_end, offsets_of
from raxalign.corpora.text.dataset import read_metadata, read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.models.flat_pieces import CHUNK, FlatPieces, column_pieces, flat_pieces
from raxalign.encoders.models.vectors import Spoken
from raxalign.errors import DataError
from raxalign.pairing.schema import links_of, read_pairs

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.pairing.aligners.base import Links
else:
    np = lazy.load("numpy")
    pa = lazy.load("pyarrow")
    pc = lazy.load("pyarrow.compute")

_LINKED = 100_000  # sentence pairs whose links are looked up at once


@dataclass(frozen=True)
class PieceSide:
    """The sentences of one side as rows, special pieces included: row i has the pieces
    ``offsets[i]`` to ``offsets[i + 1]`` of all rows end to end.

    The pieces themselves are those of `pieces`, of which rows keep the first ones; `before` and
    `after` are the special ones around them. Word w of sentence i is number ``word_offsets[i] + w``
    and has `count_W` adjacent pieces (none where it was not read whole). Neighbours may share a
    piece. `spoken` are the languages of the sentences (None: they are not known).
    """

    pieces: FlatPieces
    offsets: np.ndarray
    count_W: Flat
    before: tuple[int, ...]
    after: tuple[int, ...]
    spoken: Spoken | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def word_offsets(self) -> np.ndarray:
        """Where the words of each sentence begin in the numbers of words."""
        return self.pieces.word_offsets

    def ids(self, rows: np.ndarray) -> np.ndarray:
        """Return the pieces of some rows end to end, int32."""
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        kept = lengths - len(self.before) - len(self.after)
        starts, ends = offsets_of(lengths)[:-1], np.cumsum(lengths)
        first = self.pieces.offsets[rows] - np.cumsum(kept) + kept
        found = np.empty(int(lengths.sum()), np.int32)
        inside = np.ones(len(found), bool)
        for places, special in ((starts, self.before), (ends - len(self.after), self.after)):
            for i, number in enumerate(special):
                found[places + i] = number
                inside[places + i] = False
        found[inside] = self.pieces.ids[np.arange(int(kept.sum())) + np.repeat(first, kept)]
        return found

    def spans(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (place of the first piece in its row, number of pieces) of some words, by their
        numbers, int64.
        """
        first, count = (
            part[words].astype(np.int64) for part in (self.pieces.first_W, self.count_W)
        )
        return first + len(self.before), count

    def read_words(self) -> np.ndarray:
        """Return which words were read, (words,) truth values."""
        return np.asarray(self.count_W[:] > 0)

    @classmethod
    def join(cls, sides: Sequence[PieceSide]) -> PieceSide:
        """Return the rows of all sides, which one encoder reads, one side after the other."""
        if len(sides) == 1:
            return sides[0]
        return cls(
            FlatPieces.join([side.pieces for side in sides]),
            offsets_of(np.concatenate([np.diff(side.offsets) for side in sides])),
            end_to_end([side.count_W for side in sides]),
            sides[0].before,
            sides[0].after,
            Spoken.join([side.spoken for side in sides]),
        )


@dataclass(frozen=True)
class LinkedRows:
    """A word-pair dataset: both sides, and the links between words that were both read, as word
    positions.
    """

    src: PieceSide
    tgt: PieceSide
    link_offsets: np.ndarray
    link_src: np.ndarray
    link_tgt: np.ndarray

    def __len__(self) -> int:
        return len(self.src)


def read_linked_rows(encoder: TransformerEncoder, folder: Path, max_length: int) -> LinkedRows:
    """Tokenise a word-pair dataset; rows have at most `max_length` pieces, or what the encoder's
    positions allow.
    """
    table = read_pairs(folder)
    if not len(table):
        raise DataError(folder, "the word-pair dataset has no rows")
    src, tgt = (
        read_side(encoder, folder, name, max_length, *read_as)
        for name, read_as in zip(("src", "tgt"), side_languages(folder), strict=True)
    )
    return _with_links(src, tgt, links_of(table))


def _with_links(src: PieceSide, tgt: PieceSide, links: Links) -> LinkedRows:
    """Both sides with the links between words that were both read; looked up some at a time."""
    counts, found = [np.zeros(0, np.int64)], [(np.zeros(0, np.int32), np.zeros(0, np.int32))]
    for start in range(0, len(links), _LINKED):
        part = links.part(start, min(start + _LINKED, len(links)))
        rows = part.rows()
        read = np.ones(len(rows), bool)
        for side, positions in ((src, part.src), (tgt, part.tgt)):
            read &= side.count_W[side.word_offsets[start + rows] + positions] > 0
        counts.append(np.bincount(rows[read], minlength=len(part)))
        found.append((part.src[read], part.tgt[read]))
    link_src, link_tgt = (np.concatenate([part[i] for part in found]) for i in (0, 1))
    return LinkedRows(src, tgt, offsets_of(np.concatenate(counts)), link_src, link_tgt)


def side_languages(folder: Path) -> tuple[tuple[str | None, str | None], ...]:
    """Return the language of each side of a dataset of pairs, with the name under which its unknown
    pieces are counted, as the dataset's record has them (None: it does not).
    """
    record = read_metadata(folder)
    pair = record.get("lang_pair")
    lang, _, pivot = (pair or "").rpartition("-")  # records of earlier versions have the pair alone
    return (record.get("lang") or lang or None, pair), (record.get("pivot") or pivot or None, pair)


def tokenise(
    encoder: TransformerEncoder,
    chunks: Iterable[Sequence[Sequence[str]]],
    max_length: int,
    lang: str | None = None,
    counted: str | None = None,
) -> PieceSide:
    """Return sentences, given as lists of some, as pieces with special ones around them.

    Args:
        encoder: the encoder whose tokenizer makes the pieces.
        chunks: the sentences, some at a time.
        max_length: the largest number of pieces of a sentence, special ones included.
        lang: their language (None: a spaced one).
        counted: the name under which unknown pieces are counted (None: the language).
    """
    return _side(encoder, flat_pieces(encoder.tokenizer, chunks, lang, counted), max_length, lang)


def read_side(
    encoder: TransformerEncoder,
    folder: Path,
    column: str,
    max_length: int,
    lang: str | None = None,
    counted: str | None = None,
) -> PieceSide:
    """Return a column of sentences of a dataset as `tokenise` does, from the pieces that were made
    before where there are any.
    """
    return _side(encoder, column_pieces(encoder, folder, column, lang, counted), max_length, lang)


def _side(
    encoder: TransformerEncoder, pieces: FlatPieces, max_length: int, lang: str | None
) -> PieceSide:
    """Sentences as rows of at most `max_length` pieces. A word that loses a piece is not read."""
    from raxalign.encoders.models.pieces import read_template

    template = read_template(encoder.tokenizer)
    around = len(template.before) + len(template.after_single)
    room = min(max_length, encoder.max_positions) - around
    lengths_S, count_W = pieces.lengths, np.asarray(pieces.count_W)
    for s in np.flatnonzero(lengths_S > room):
        words = slice(*pieces.word_offsets[s : s + 2])
        lost = pieces.first_W[words].astype(np.int64) + count_W[words] > room
        count_W[words][lost] = 0
    spoken = None if lang is None else Spoken.of(lang, len(pieces))
    offsets = offsets_of(np.minimum(lengths_S, max(room, 0)) + around)
    return PieceSide(pieces, offsets, count_W, template.before, template.after_single, spoken)


@dataclass(frozen=True)
class WordRows:
    """The word pairs of all languages. The links of row r are ``link_offsets[r]`` to
    ``link_offsets[r + 1]``; each has a word position and a word type (a number for a surface form
    of a language) on both sides. `word_types` are the types of all words of both sides, linked or
    not. `dropped` counts links of words that are spelt the same.
    """

    src: PieceSide
    tgt: PieceSide
    link_offsets: np.ndarray
    link_src: np.ndarray
    link_tgt: np.ndarray
    src_types: np.ndarray
    tgt_types: np.ndarray
    word_types: tuple[np.ndarray, np.ndarray]
    dropped: int

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True)
class SentenceRows:
    """The sentence pairs of all languages, with a number for each different sentence (of a
    language).
    """

    src: PieceSide
    tgt: PieceSide
    src_types: np.ndarray
    tgt_types: np.ndarray

    def __len__(self) -> int:
        return len(self.src)


def read_word_rows(
    encoder: TransformerEncoder, folders: Sequence[Path], max_length: int, *, drop_identical: bool
) -> WordRows:
    """Return the word pairs of some datasets, one after the other. Raises `DataError` where none is
    left to learn from.
    """
    corpora = [read_linked_rows(encoder, folder, max_length) for folder in folders]
    src, tgt = (
        PieceSide.join([getattr(corpus, side) for corpus in corpora]) for side in ("src", "tgt")
    )
    counts = np.concatenate([np.diff(corpus.link_offsets) for corpus in corpora])
    rows = np.repeat(np.arange(len(counts)), counts)
    words = np.array([src.word_offsets[rows], tgt.word_offsets[rows]]) + [
        np.concatenate([getattr(corpus, name) for corpus in corpora])
        for name in ("link_src", "link_tgt")
    ]
    texts = _numbered(
        [
            pc.list_flatten(read_pairs(folder).column(side))
            for side in ("src", "tgt")
            for folder in folders
        ]
    )
    src_texts, tgt_texts = texts[: len(folders)], np.concatenate(texts[len(folders) :])
    kept = np.ones(len(rows), bool)
    if drop_identical:
        kept = np.concatenate(src_texts)[words[0]] != tgt_texts[words[1]]
    rows, words = rows[kept], words[:, kept]
    if not len(rows):
        raise DataError(
            folders[0],
            f"has no word pair to learn from ({len(kept)} were dropped: their words are spelt the"
            " same)",
        )
    offsets = offsets_of(np.bincount(rows, minlength=len(counts)))
    positions = words[0] - src.word_offsets[rows], words[1] - tgt.word_offsets[rows]
    types = _by_language(src_texts), tgt_texts
    of_links = types[0][words[0]], types[1][words[1]]
    return WordRows(src, tgt, offsets, *positions, *of_links, types, len(kept) - len(rows))


def read_sentence_rows(
    encoder: TransformerEncoder, folders: Sequence[Path], max_length: int
) -> SentenceRows:
    """Return the sentence pairs of some bitexts, one after the other. Raises `DataError` where one
    has none.
    """
    sides: list[tuple[PieceSide, ...]] = []
    for folder in folders:
        if not len(read_table(folder)):
            raise DataError(folder, "the bitext has no rows")
        sides.append(
            tuple(
                read_side(encoder, folder, name, max_length, *read_as)
                for name, read_as in zip(("src", "tgt"), side_languages(folder), strict=True)
            )
        )
    src_texts, tgt_texts = (
        _numbered([pc.binary_join(read_table(folder).column(name), " ") for folder in folders])
        for name in ("src", "tgt")
    )
    src, tgt = (PieceSide.join(parts) for parts in zip(*sides, strict=True))
    return SentenceRows(src, tgt, _by_language(src_texts), np.concatenate(tgt_texts))


def pivot_sentences(folders: Iterable[Path]) -> Iterator[list[list[str]]]:
    """Yield the pivot's sentences of some bitexts in the order of `read_sentence_rows`, some at a
    time.
    """
    for folder in folders:
        yield from sentence_chunks(read_table(folder), "tgt", CHUNK)


def _numbered(columns: Sequence[pa.ChunkedArray]) -> list[np.ndarray]:
    """Return the numbers of the texts of each column: the same for the same text in any column."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    encoded = pa.chunked_array(chunks, columns[0].type).dictionary_encode()
    numbers = np.concatenate(
        [np.zeros(0, np.int64), *(np.asarray(chunk.indices) for chunk in encoded.chunks)]
    )
    return np.split(numbers, np.cumsum([len(column) for column in columns])[:-1])


def _by_language(texts: Sequence[np.ndarray]) -> np.ndarray:
    """Return numbers of the texts of several languages: the same text in two languages has two."""
    size = 1 + max(int(part.max(initial=0)) for part in texts)
    return np.concatenate([part + k * size for k, part in enumerate(texts)])
