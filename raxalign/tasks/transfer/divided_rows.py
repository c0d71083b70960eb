"""Rows of texts whose pieces were made before, for all trainings that read them: the pieces are
mapped, and a row is made of them when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np

from raxalign.arrays import ranges
from raxalign.caveats import listener
from raxalign.encoders.models.flat_pieces import map_array, read_record
from raxalign.encoders.models.pieces import PieceRow, Pieces
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError

ARRAYS = ("ids", "offsets", "words", "lasts", "word_offsets")
"""The arrays of pieces that rows are made of (see `FlatPieces`)."""
_CHUNK = 65_536


@dataclass(frozen=True)
class DividedTexts:
    """The pieces of texts of one language, without special ones; the fields are those of
    `FlatPieces`.
    """

    lang: str
    ids: np.ndarray
    offsets: np.ndarray
    words: np.ndarray
    lasts: np.ndarray
    word_offsets: np.ndarray
    unknown: int | None

    @classmethod
    def mapped(cls, folder: Path, lang: str) -> DividedTexts:
        """Map the files of a folder. Raises `DataError` where it has no pieces of the language."""
        record = read_record(folder)
        if record is None or record["lang"] != lang:
            raise DataError(
                folder,
                f"does not have the pieces of texts in {lang}",
                remedy="Remove the folder, and run the grid again to make it",
            )
        arrays = {name: map_array(folder, name) for name in ARRAYS}
        return cls(lang, **arrays, unknown=record["unknown"])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def text(self, number: int) -> tuple[Pieces, int]:
        """Return the pieces of a text, and the number of its words."""
        start, stop = self.offsets[number : number + 2].tolist()
        found = (flat[start:stop].astype(np.int32) for flat in (self.ids, self.words, self.lasts))
        first, end = self.word_offsets[number : number + 2].tolist()
        return Pieces(*found), end - first

    def count(self, chosen: np.ndarray | None, unknown: int) -> tuple[int, int]:
        """Return the number of pieces of some texts (None: of all), and how many of them are the
        tokenizer's `unknown` one.
        """
        if self.unknown is not None and (chosen is None or _is_all(chosen, len(self))):
            return len(self.ids), self.unknown
        pieces = found = 0
        numbers = np.arange(len(self)) if chosen is None else chosen
        for start in range(0, len(numbers), _CHUNK):
            ids = self.ids[ranges(self.offsets, numbers[start : start + _CHUNK])[0]]
            pieces, found = pieces + len(ids), found + int((ids == unknown).sum())
        return pieces, found


@dataclass(frozen=True)
class ChosenTexts:
    """Some of the texts that were divided before: those of the numbers `chosen` (None: all)."""

    texts: DividedTexts
    chosen: np.ndarray | None

    def __len__(self) -> int:
        return len(self.texts) if self.chosen is None else len(self.chosen)

    def text(self, place: int) -> tuple[Pieces, int]:
        """Return the pieces of a text, and the number of its words."""
        return self.texts.text(place if self.chosen is None else int(self.chosen[place]))


class DividedRows(Sequence[PieceRow]):
    """The rows that an encoder makes of texts, or of pairs of texts."""

    def __init__(self, encoder: TransformerEncoder, sides: Sequence[ChosenTexts]) -> None:
        """Report the unknown pieces of the texts, while caveats are collected.

        Args:
            encoder: The encoder whose tokenizer has made the pieces.
            sides: The texts, or the first and the second texts.
        """
        self.encoder, self.sides = encoder, tuple(sides)
        self.languages = tuple(side.texts.lang for side in self.sides)
        if (heard := listener()) is None:
            return
        heard.not_as_trained.update(encoder.not_as_trained)
        unknown = encoder.tokenizer.unk_token_id
        for side in self.sides if unknown is not None else ():
            heard.read(side.texts.lang, *side.texts.count(side.chosen, unknown))

    def __len__(self) -> int:
        return len(self.sides[0])

    @overload
    def __getitem__(self, which: int) -> PieceRow: ...
    @overload
    def __getitem__(self, which: slice) -> list[PieceRow]: ...
    def __getitem__(self, which: int | slice) -> PieceRow | list[PieceRow]:
        """Return a row, or a list of some."""
        if isinstance(which, slice):
            return list(self._rows(range(*which.indices(len(self)))))
        if not -len(self) <= which < len(self):
            raise IndexError(which)
        (row,) = self._rows([which % len(self)])
        return row

    def _rows(self, places: Sequence[int]) -> Iterator[PieceRow]:
        for place in places:
            pieces, sizes = zip(*(side.text(place) for side in self.sides), strict=True)
            yield self.encoder.row(pieces, sizes, self.languages)


def _is_all(chosen: np.ndarray, count: int) -> bool:
    """Whether all of `count` texts are chosen, each once and in their order."""
    return len(chosen) == count and bool((chosen == np.arange(count)).all())
