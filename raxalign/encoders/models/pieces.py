"""Sentences to pieces: bulk tokenisation of their running text, special pieces, truncation,
batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from raxalign.encoders.models.encoding import CHUNK, encode_texts
from raxalign.encoders.models.placing import place_words
from raxalign.errors import RaxalignError
from raxalign.languages import language
from raxalign.running import in_text, unspaced_letter

_ANCHORS = (",", "1")
"""What a word follows whose pieces in the middle of a text are looked for."""


class Pieces(NamedTuple):
    """The pieces of a sentence, none of them special, three arrays (n,): `ids`, and the first and
    the last word of each piece (-1: it belongs to no word, as a bare blank does).

    The pieces of word w are those with ``words <= w <= lasts``, and are adjacent. `words` and
    `lasts` differ only where several words share a piece.
    """

    ids: np.ndarray
    words: np.ndarray
    lasts: np.ndarray


@dataclass(frozen=True, slots=True)
class PieceRow:
    """The pieces of a sentence or of a pair, with special pieces. `words` and `lasts` map pieces to
    their first and last word (-1: special, a bare blank, or a word that truncation cut in two),
    counted on through both sentences; they differ where words share a piece. Pieces from `first` on
    belong to the second sentence; `n_words` counts all words.
    """

    ids: np.ndarray
    words: np.ndarray
    lasts: np.ndarray
    first: int
    n_words: int
    languages: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def langs(self) -> np.ndarray:
        """The index into `languages` of every piece: the first separator is the first sentence's,
        the last one the second's.
        """
        return (np.arange(len(self.ids)) >= self.first).astype(np.int64)

    segments = langs


@dataclass(frozen=True)
class Template:
    """The special pieces that a tokenizer puts before, between and after sentences."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after_single: tuple[int, ...]
    after_pair: tuple[int, ...]


def read_template(tokenizer: Any) -> Template:
    """The special pieces of a tokenizer's post-processor; where it has none, [CLS] a [SEP] b [SEP],
    or nothing for a tokenizer that has no such pieces, as most decoders' have none.
    """
    backend, word = tokenizer.backend_tokenizer, [["a"], ["b"]]
    backend.no_truncation()
    backend.no_padding()
    single = backend.encode(word[0], is_pretokenized=True)
    pair = backend.encode(*word, is_pretokenized=True)
    if single.sequence_ids.count(None) == 0:
        cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        if cls is None and sep is None and tokenizer.mask_token_id is None:
            return Template((), (), (), ())
        if cls is None or sep is None:
            raise RaxalignError("the tokenizer has no [CLS] and [SEP], or names for them")
        return Template((cls,), (sep,), (sep,), (sep,))
    before, after_single = _around(single, 0, 0)
    _, between = _around(pair, 0, 0)
    _, after_pair = _around(pair, 1, 1)
    return Template(before, between, after_single, after_pair)


def _around(encoding: Any, first: int, last: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special pieces straight before sequence `first` and straight after sequence `last`."""
    sequence = encoding.sequence_ids
    start, end = sequence.index(first), len(sequence) - sequence[::-1].index(last)
    stop = next((i for i in range(end, len(sequence)) if sequence[i] is not None), len(sequence))
    begin = next((i + 1 for i in range(start - 1, -1, -1) if sequence[i] is not None), 0)
    return tuple(encoding.ids[begin:start]), tuple(encoding.ids[end:stop])


def bulk_pieces(
    tokenizer: Any,
    sentences: Sequence[Sequence[str]],
    lang: str | None,
    counted: str | None = None,
) -> Iterator[Pieces]:
    """Yield the pieces of every sentence: those that the tokenizer makes of its running text.

    Args:
        tokenizer: the tokenizer, a fast one.
        sentences: the sentences; the words of a plain list are joined as the language writes them.
        lang: their language (None: a spaced one, for which nothing is counted). One that is not
            known is taken for spaced.
        counted: the name under which unknown pieces are counted while caveats are collected (None:
            the language).
    """
    known = _known(lang)
    for start in range(0, len(sentences), CHUNK):
        part = [in_text(words, known) for words in sentences[start : start + CHUNK]]
        encoded = encode_texts(tokenizer, [sentence.text for sentence in part], counted or lang)
        words_P, lasts_P = (found.astype(np.int32) for found in place_words(encoded, part))
        ends = encoded.offsets.tolist()
        for begin, end in pairwise(ends):
            yield Pieces(encoded.ids_P[begin:end], words_P[begin:end], lasts_P[begin:end])


def _known(lang: str | None) -> str | None:
    """The language, or None where it is not a known one: an encoder reads the text of any."""
    try:
        return lang if lang is None or language(lang) else None
    except RaxalignError:
        return None


def inner_pieces(tokenizer: Any, words: Sequence[str]) -> list[np.ndarray]:
    """Return the pieces that each word has in the middle of a text, after a blank unless its script
    is written without them.

    They are read off the word behind a character with which it shares no piece.
    """
    gaps = ["" if word and unspaced_letter(word[0]) else " " for word in words]
    found: list[np.ndarray | None] = [None] * len(words)
    for anchor in (*_ANCHORS, ""):
        left = [i for i, pieces in enumerate(found) if pieces is None]
        for start in range(0, len(left), CHUNK):
            part = left[start : start + CHUNK]
            texts = [anchor + (gaps[i] if anchor else "") + words[i] for i in part]
            encoded = encode_texts(tokenizer, texts, None)
            for i, begin, end in zip(part, encoded.offsets, encoded.offsets[1:], strict=False):
                behind = encoded.starts_P[begin:end] >= len(anchor)
                clean = bool((behind | (encoded.ends_P[begin:end] <= len(anchor))).all())
                if clean or not anchor:
                    found[i] = encoded.ids_P[begin:end][behind]
    return [pieces for pieces in found if pieces is not None]


def cut(pieces: Pieces, room: int) -> Pieces:
    """Return at most `room` pieces; of a word that loses some of its pieces, the others stay as
    context and no longer count as the word's (-1).
    """
    if len(pieces.ids) <= room:
        return pieces
    ids, words, lasts = (part[:room] for part in pieces)
    lost = int(pieces.words[room])
    if room > 0 and lost >= 0:
        words = np.where(words >= lost, -1, words)
        lasts = np.where(words >= 0, np.minimum(lasts, lost - 1), -1)
    return Pieces(ids, words, lasts)


def share(first: int, second: int, room: int) -> tuple[int, int]:
    """How many pieces two sentences keep in `room`: the longer one is cut first, then both.

    >>> share(10, 3, 8), share(10, 9, 8), share(2, 3, 8)
    ((5, 3), (4, 4), (2, 3))
    """
    if first + second <= room:
        return first, second
    shorter = min(first, second, room // 2)
    return (
        (shorter, min(second, room - shorter))
        if first <= second
        else (min(first, room - shorter), shorter)
    )


def token_batches(lengths: Sequence[int] | np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Indices of rows, longest first, in batches of at most `budget` pieces with padding (one row
    at least); ties keep input order.
    """
    lengths = np.asarray(lengths)
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, int(lengths[order[start]])))
        yield order[start : start + size]
        start += size
