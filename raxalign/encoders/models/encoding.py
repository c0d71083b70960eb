"""Running text to pieces: many texts by one call of the tokenizer, with the characters that each
piece covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from raxalign.arrays import Ints, offsets_of
from raxalign.caveats import listener

CHUNK = 4096
"""Sentences tokenised by one call: bounds what the tokenizer's own objects take."""

_BLANKS = "\u2581\u0120"
"""The characters by which the pieces of Metaspace and of byte-level tokenizers mark a blank."""
_LONGEST_BLANK = 64


@dataclass(frozen=True, slots=True)
class Encoded:
    """The pieces of some texts end to end, none of them special: those of text i are the entries
    ``offsets[i]`` to ``offsets[i + 1]``.

    Piece p is `ids_P[p]`, comes from the characters ``starts_P[p]`` to ``ends_P[p]`` of its own
    text, as it was given, and is nothing but a blank where `blank_P[p]`. The characters may include
    a blank before a word.
    """

    ids_P: np.ndarray
    starts_P: Ints
    ends_P: Ints
    blank_P: np.ndarray
    offsets: Ints


def encode_texts(tokenizer: Any, texts: Sequence[str], counted: str | None) -> Encoded:
    """Return the pieces of texts as the tokenizer makes them of running text. ``[SEP]`` in a text
    is text, not a special piece.

    Args:
        tokenizer: the tokenizer, a fast one.
        texts: the texts, at most some thousands.
        counted: the language for which unknown pieces are counted while caveats are collected
            (None: not at all).
    """
    backend = tokenizer.backend_tokenizer
    # The tokenizer is shared: earlier truncation or padding is still switched on.
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    try:
        encodings = backend.encode_batch(list(texts), add_special_tokens=False)
    finally:
        backend.encode_special_tokens = False
    ids = [encoding.ids for encoding in encodings]
    offsets = offsets_of([len(part) for part in ids])
    ids_P = np.fromiter(chain.from_iterable(ids), np.int32, int(offsets[-1]))
    _count_unknown(tokenizer, counted, ids_P)
    spans = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
    spans_P2 = np.fromiter(spans, np.int64, 2 * int(offsets[-1])).reshape(-1, 2)
    starts_P, ends_P = spans_P2[:, 0].copy(), spans_P2[:, 1].copy()
    blank_P = np.isin(ids_P, _blank_pieces(backend))
    for p in _in_texts_with(_BLANKS[0], texts, offsets, blank_P):
        text = texts[int(np.searchsorted(offsets, p, side="right")) - 1]
        blank_P[p] = _BLANKS[0] not in text[starts_P[p] : ends_P[p]]
    return Encoded(ids_P, starts_P, ends_P, blank_P, offsets)


def _blank_pieces(backend: Any) -> list[int]:
    """The pieces of a tokenizer that stand for blanks alone.

    Their offsets do not show it: a blank that a tokenizer puts before a word has those of the
    word's first character.
    """
    marks = [mark for mark in _BLANKS if _is_blank(backend.decoder, mark)]
    runs = (mark * n for mark in marks for n in range(1, _LONGEST_BLANK + 1))
    return [number for run in runs if (number := backend.token_to_id(run)) is not None]


def _is_blank(decoder: Any, mark: str) -> bool:
    """Whether a character of pieces becomes a blank in the text that they are decoded to."""
    if decoder is None:
        return mark == _BLANKS[0]
    return not decoder.decode(["a", mark]).removeprefix("a").strip()


def _in_texts_with(
    char: str, texts: Sequence[str], offsets: Ints, chosen_P: np.ndarray
) -> list[int]:
    """The chosen pieces of those texts that have a character."""
    return [
        int(offsets[i]) + int(p)
        for i, text in enumerate(texts)
        if char in text
        for p in np.flatnonzero(chosen_P[offsets[i] : offsets[i + 1]])
    ]


def _count_unknown(tokenizer: Any, lang: str | None, ids_P: np.ndarray) -> None:
    """Report how many of some pieces are the tokenizer's unknown one, while caveats are
    collected.
    """
    found = listener()
    if found is None or lang is None or tokenizer.unk_token_id is None:
        return
    found.read(lang, len(ids_P), int((ids_P == tokenizer.unk_token_id).sum()))
