"""Word pairs and sentence pairs of several languages in one numbering of rows, with the types by
which false negatives are recognised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raxalign.arrays import offsets_of
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.models.flat_pieces import CHUNK
from raxalign.errors import DataError
from raxalign.methods.rows.linked_words import (
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
