"""Pieces of running text with the characters that they cover, and rows of such pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raxalign.encoders.models.encoding import CHUNK, encode_texts
from raxalign.encoders.models.pieces import PieceRow, Template


@dataclass(frozen=True, slots=True)
class TextPieces:
    """The pieces of a text, none of them special: `ids` (n,), and the characters
    ``text[starts[i]:ends[i]]`` of each, white space around them left out (a bare blank has none).
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def spanning(self, start: int, end: int) -> tuple[int, int] | None:
        """The first and last piece that share characters with ``text[start:end]``, or None."""
        shared = np.flatnonzero((self.ends > start) & (self.starts < end))
        return (int(shared[0]), int(shared[-1])) if len(shared) else None


def text_pieces(tokenizer: Any, texts: Sequence[str], lang: str) -> Iterator[TextPieces]:
    """The pieces of every text. Offsets are those of the text as it was given, whatever the
    tokenizer's normaliser made of it.

    Unknown pieces are counted for `lang` while caveats are collected.
    """
    for start in range(0, len(texts), CHUNK):
        part = texts[start : start + CHUNK]
        encoded = encode_texts(tokenizer, part, lang)
        for i, text in enumerate(part):
            own = slice(encoded.offsets[i], encoded.offsets[i + 1])
            begins = encoded.starts_P[own]
            ends = np.where(encoded.blank_P[own], begins, encoded.ends_P[own])
            spans = [
                _trimmed(text, *span) for span in zip(begins.tolist(), ends.tolist(), strict=True)
            ]
            found = np.array(spans, dtype=np.int64).reshape(-1, 2)
            yield TextPieces(encoded.ids_P[own], found[:, 0], found[:, 1])


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Without white space at either end (some tokenizers count the space before a word as its
    piece's).
    """
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def pair_row(
    template: Template, first: np.ndarray, second: np.ndarray, languages: tuple[str, str]
) -> tuple[PieceRow, int]:
    """The row of two texts' pieces with special ones (no piece is a word), and the position of the
    second text's first piece.
    """
    ids = np.concatenate(
        [template.before, first, template.between, second, template.after_pair]
    ).astype(np.int32)
    begin = len(template.before) + len(first) + len(template.between)
    words = np.broadcast_to(np.int32(-1), len(ids))
    return PieceRow(ids, words, words, begin, 0, languages), begin
