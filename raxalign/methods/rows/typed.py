"""Word pairs and sentence pairs of several languages in one numbering of rows, with the types by
which false negatives are recognised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raxalign.arrays import offsets_of
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.models.flat_pieces import CHUNK
from raxalign.errors import DataError
from raxalign.methods.rows.linked_words import (
    LinkedRows,
    PieceSide,
    read_linked_rows,
    read_side,
    side_languages,
)
from raxalign.pairing.schema import read_pairs

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder


@dataclass(frozen=True)
class WordRows:
    """The word pairs of all languages. The links of row r are ``link_offsets[r]`` to
    ``link_offsets[r + 1]``; each has a word position and a word type (a number for a surface form
    of a language) on both sides. `dropped` counts links of words that are spelt the same.
    `word_types` are the types of all words of both sides, linked or not, in the numbering of the
    links' types, where they were asked for.
    """

    src: PieceSide
    tgt: PieceSide
    link_offsets: np.ndarray
    link_src: np.ndarray
    link_tgt: np.ndarray
    src_types: np.ndarray
    tgt_types: np.ndarray
    dropped: int
    word_types: tuple[np.ndarray, np.ndarray] | None = None

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
    encoder: TransformerEncoder,
    folders: Sequence[Path],
    max_length: int,
    *,
    drop_identical: bool,
    all_types: bool = False,
) -> WordRows:
    """Return the word pairs of some datasets, one after the other, with the types of all words
    where `all_types` asks for them.

    Raises `DataError` where none is left to learn from.
    """
    read = [_read_words(encoder, folder, max_length) for folder in folders]
    before = sum(len(corpus.link_src) for corpus, _ in read)
    if drop_identical:
        read = [_without_identical(corpus, spelt) for corpus, spelt in read]
    corpora, words = [corpus for corpus, _ in read], [spelt for _, spelt in read]
    dropped = before - sum(len(corpus.link_src) for corpus in corpora)
    if not any(len(corpus.link_src) for corpus in corpora):
        raise DataError(
            folders[0],
            f"has no word pair to learn from ({dropped} were dropped: their words are spelt the"
            " same)",
        )
    joined = WordRows(
        PieceSide.join([corpus.src for corpus in corpora]),
        PieceSide.join([corpus.tgt for corpus in corpora]),
        _join_offsets([corpus.link_offsets for corpus in corpora]),
        np.concatenate([corpus.link_src for corpus in corpora]),
        np.concatenate([corpus.link_tgt for corpus in corpora]),
        _types_by_language([src for src, _ in words]),
        _types([tgt for _, tgt in words]),
        dropped,
    )
    return _with_all_types(joined, folders) if all_types else joined


def read_sentence_rows(
    encoder: TransformerEncoder, folders: Sequence[Path], max_length: int
) -> SentenceRows:
    """Return the sentence pairs of some bitexts, one after the other. Raises `DataError` where one
    has none.
    """
    sides: list[tuple[PieceSide, PieceSide]] = []
    for folder in folders:
        table = read_table(folder)
        if not len(table):
            raise DataError(folder, "the bitext has no rows")
        src_read, tgt_read = side_languages(folder)
        sides.append(
            (
                read_side(encoder, folder, "src", max_length, *src_read),
                read_side(encoder, folder, "tgt", max_length, *tgt_read),
            )
        )
    src, tgt = ([_sentences(folder, name) for folder in folders] for name in ("src", "tgt"))
    return SentenceRows(
        PieceSide.join([s for s, _ in sides]),
        PieceSide.join([t for _, t in sides]),
        _types_by_language(src),
        _types(tgt),
    )


def pivot_sentences(folders: Iterable[Path]) -> Iterator[list[list[str]]]:
    """Yield the pivot's sentences of some bitexts in the order of `read_sentence_rows`, some at a
    time.
    """
    for folder in folders:
        yield from sentence_chunks(read_table(folder), "tgt", CHUNK)


def _read_words(
    encoder: TransformerEncoder, folder: Path, max_length: int
) -> tuple[LinkedRows, tuple[pa.Array, pa.Array]]:
    """A dataset's rows, and how the words of each link are spelt on both sides."""
    corpus, table = read_linked_rows(encoder, folder, max_length), read_pairs(folder)
    rows = np.repeat(np.arange(len(corpus)), np.diff(corpus.link_offsets))
    places = ((corpus.src, corpus.link_src, "src"), (corpus.tgt, corpus.link_tgt, "tgt"))
    src, tgt = (
        _one(pc.list_flatten(table.column(name)).take(pa.array(side.word_offsets[rows] + words)))
        for side, words, name in places
    )
    return corpus, (src, tgt)


def _with_all_types(corpus: WordRows, folders: Sequence[Path]) -> WordRows:
    """The rows with the types of all words, and those of the links numbered as these."""
    src, tgt = (
        [_one(pc.list_flatten(read_pairs(folder).column(name))) for folder in folders]
        for name in ("src", "tgt")
    )
    types = _types_by_language(src), _types(tgt)
    rows = np.repeat(np.arange(len(corpus)), np.diff(corpus.link_offsets))
    src_types, tgt_types = (
        types[0][corpus.src.word_offsets[rows] + corpus.link_src],
        types[1][corpus.tgt.word_offsets[rows] + corpus.link_tgt],
    )
    return replace(corpus, src_types=src_types, tgt_types=tgt_types, word_types=types)


def _without_identical(
    corpus: LinkedRows, spelt: tuple[pa.Array, pa.Array]
) -> tuple[LinkedRows, tuple[pa.Array, pa.Array]]:
    """Rows without the links whose words are spelt the same, and how the words of the others are
    spelt.
    """
    differ = np.asarray(pc.not_equal(*spelt))
    return _kept(corpus, differ), (spelt[0].filter(differ), spelt[1].filter(differ))


def _kept(corpus: LinkedRows, keep: np.ndarray) -> LinkedRows:
    """The rows with some of their links."""
    before = offsets_of(keep)
    return LinkedRows(
        corpus.src,
        corpus.tgt,
        before[corpus.link_offsets],
        corpus.link_src[keep],
        corpus.link_tgt[keep],
    )


def _sentences(folder: Path, name: str) -> pa.Array:
    return _one(pc.binary_join(read_table(folder).column(name), " "))


def _one(column: Any) -> pa.Array:
    """A column in one piece."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _types(parts: Sequence[pa.Array]) -> np.ndarray:
    """A number for each different text of all parts."""
    return np.asarray(pa.concat_arrays(parts).dictionary_encode().indices, np.int64)


def _types_by_language(parts: Sequence[pa.Array]) -> np.ndarray:
    """A number for each different text of each part: the same text in two languages has two."""
    numbers, used = [], 0
    for part in parts:
        numbers.append(_types([part]) + used)
        used += int(numbers[-1].max(initial=used - 1)) + 1 - used
    return np.concatenate(numbers)


def _join_offsets(parts: Sequence[np.ndarray]) -> np.ndarray:
    return offsets_of(np.concatenate([np.diff(part) for part in parts]))
