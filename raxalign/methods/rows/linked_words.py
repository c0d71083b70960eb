"""A word-pair dataset as pieces: tokenised once, in flat arrays, so that a batch is put together
without a loop over words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lazy_loader as lazy

from raxalign.arrays import offsets_of, word_pieces
from raxalign.corpora.text.dataset import read_metadata
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.models.spoken import Spoken
from raxalign.errors import DataError
from raxalign.pairing.schema import links_of, read_pairs

if TYPE_CHECKING:
    import numpy as np

    from raxalign.encoders.models.pieces import Pieces
    from raxalign.encoders.models.transformer import TransformerEncoder
else:
    np = lazy.load("numpy")

CHUNK = 8192
"""Sentences that are tokenised at once."""


@dataclass(frozen=True)
class PieceSide:
    """The sentences of one language: the pieces of sentence i, special ones included, are
    ``ids[offsets[i]:offsets[i + 1]]``.

    Word w of sentence i, number ``word_offsets[i] + w``, begins at the place `first_W` of its row
    and has `count_W` adjacent pieces (none where it was not read). Neighbours may share a piece.
    `spoken` are the languages of the sentences (None: they are not known).
    """

    ids: np.ndarray
    offsets: np.ndarray
    first_W: np.ndarray
    count_W: np.ndarray
    word_offsets: np.ndarray
    spoken: Spoken | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1


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
        tokenise(encoder, sentence_chunks(table, name, CHUNK), max_length, *read_as)
        for name, read_as in zip(("src", "tgt"), side_languages(folder), strict=True)
    )
    links = links_of(table)
    rows = np.repeat(np.arange(len(links)), np.diff(links.offsets))
    read = (src.count_W[src.word_offsets[rows] + links.src] > 0) & (
        tgt.count_W[tgt.word_offsets[rows] + links.tgt] > 0
    )
    counts = np.bincount(rows[read], minlength=len(links))
    return LinkedRows(
        src,
        tgt,
        offsets_of(counts),
        links.src[read].astype(np.int64),
        links.tgt[read].astype(np.int64),
    )


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
    from raxalign.encoders.models.pieces import bulk_pieces, cut, read_template

    template = read_template(encoder.tokenizer)
    before, after = (np.array(p, np.int32) for p in (template.before, template.after_single))
    around = len(before) + len(after)
    room = min(max_length, encoder.max_positions) - around
    parts = []
    for sentences in chunks:
        read = bulk_pieces(encoder.tokenizer, sentences, lang, counted)
        pieces = [cut(row, room) for row in read]
        sizes = np.array([len(sentence) for sentence in sentences], np.int64)
        rows = [part for row in pieces for part in (before, row.ids, after)]
        lengths = np.array([len(row.ids) + around for row in pieces], np.int64)
        flat = np.concatenate(rows).astype(np.int32)
        parts.append((flat, *_spans(pieces, sizes, len(before)), lengths, sizes))
    ids, first, count, n_pieces, n_words = map(np.concatenate, zip(*parts, strict=True))
    spoken = None if lang is None else Spoken.of(lang, len(n_pieces))
    return PieceSide(ids, offsets_of(n_pieces), first, count, offsets_of(n_words), spoken)


def _spans(pieces: list[Pieces], sizes: np.ndarray, before: int) -> tuple[np.ndarray, np.ndarray]:
    """(place of the first piece in its row, number of pieces) of all words of some sentences."""
    lengths = np.array([len(row.ids) for row in pieces], np.int64)
    read, words = word_pieces(*(np.concatenate([row[i] for row in pieces]) for i in (1, 2)))
    place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths) + before
    number = words + np.repeat(np.cumsum(sizes) - sizes, lengths)[read]
    found, where, counts = np.unique(number, return_index=True, return_counts=True)
    first, count = np.zeros(int(sizes.sum()), np.int32), np.zeros(int(sizes.sum()), np.int32)
    first[found], count[found] = place[read[where]], counts
    return first, count
