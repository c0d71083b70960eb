"""Lists whose entries are made when they are asked for: rows without an object per row."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, overload

from raxalign.arrays import offsets_of, ranges
from raxalign.caveats import listener
from raxalign.encoders.models.flat_pieces import map_array, read_record
from raxalign.encoders.models.pieces import PieceRow, Pieces
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.lazy import np

ARRAYS = ("ids", "offsets", "words", "lasts", "word_offsets")
"""The arrays of pieces that rows are made of (see `FlatPieces`)."""
_CHUNK = 4096
"""Texts that are divided into pieces at once."""
EntryT = TypeVar("EntryT")


class LazyList(Sequence[EntryT]):
    """Entries that are made one by one.

    >>> squares = LazyList(4, lambda place: place * place)
    >>> len(squares), squares[1:3], squares[-1]
    (4, [1, 4], 9)
    """

    def __init__(self, count: int, make: Callable[[int], EntryT]) -> None:
        """`make` returns the entry of a place from 0 to `count` - 1."""
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, which: int) -> EntryT: ...
    @overload
    def __getitem__(self, which: slice) -> list[EntryT]: ...
    def __getitem__(self, which: int | slice) -> EntryT | list[EntryT]:
        """Return an entry, or a list of some."""
        if isinstance(which, slice):
            return [self._make(place) for place in range(*which.indices(self._count))]
        return self._make(range(self._count)[which])


def chained(parts: Sequence[Sequence[EntryT]]) -> LazyList[EntryT]:
    """Return several sequences, one after the other.

    >>> rows = chained([[1, 2], [], [3]])
    >>> len(rows), [rows[i] for i in (0, 2, -2)], rows[1:]
    (3, [1, 3, 2], [2, 3])
    """
    offsets = offsets_of([len(part) for part in parts]).tolist()

    def entry(place: int) -> EntryT:
        part = bisect_right(offsets, place) - 1
        found: EntryT = parts[part][place - offsets[part]]
        return found

    return LazyList(offsets[-1], entry)


def compact_rows(
    encoder: TransformerEncoder,
    first: Sequence[Sequence[str]],
    lang: str,
    second: Sequence[Sequence[str]] | None = None,
    second_lang: str | None = None,
) -> LazyList[PieceRow]:
    """Divide sentences, or pairs of them with `second`, into pieces; return one row per sentence or
    pair, of 12 bytes per piece and 16 more. Second ones are in the same language unless
    `second_lang` says otherwise.
    """
    flat, numbers, languages = [np.zeros((3, 0), np.int32)], array("q"), tuple[str, ...]()
    for start in range(0, len(first), _CHUNK):
        part = slice(start, start + _CHUNK)
        pairs = None if second is None else second[part]
        rows = encoder.pieces(first[part], lang, pairs=pairs, pair_lang=second_lang)
        for row in rows:
            numbers.extend((len(row), row.first, row.n_words))
            languages = row.languages
        of_part = [np.stack([row.ids, row.words, row.lasts]) for row in rows]
        flat.append(np.concatenate(of_part, axis=1, dtype=np.int32))
    pieces_3P = np.concatenate(flat, axis=1)
    numbers_S3 = np.frombuffer(numbers, np.int64).reshape(-1, 3)
    offsets = offsets_of(numbers_S3[:, 0])

    def row_of(place: int) -> PieceRow:
        ids, words, lasts = pieces_3P[:, offsets[place] : offsets[place + 1]].astype(np.int64)
        _, first, n_words = numbers_S3[place].tolist()
        return PieceRow(ids, words, lasts, first, n_words, languages)

    return LazyList(len(numbers_S3), row_of)


@dataclass(frozen=True)
class PreparedTexts:
    """The pieces of texts of one language, without special ones, made before for all trainings that
    read them; arrays as `FlatPieces` has them. `unknown` counts the tokenizer's unknown pieces
    (None: it has none), `chosen` numbers the texts that are read (None: all of them).
    """

    lang: str
    ids: np.ndarray
    offsets: np.ndarray
    words: np.ndarray
    lasts: np.ndarray
    word_offsets: np.ndarray
    unknown: int | None
    chosen: np.ndarray | None = None

    @classmethod
    def mapped(cls, folder: Path, lang: str) -> PreparedTexts:
        """Map the files of a folder. Raises `DataError` where it has no pieces of the language."""
        record = read_record(folder)
        if record is None or record["lang"] != lang:
            raise no_pieces(folder, f"texts in {lang}")
        arrays = {name: map_array(folder, name) for name in ARRAYS}
        return cls(lang, **arrays, unknown=record["unknown"])

    def __len__(self) -> int:
        return len(self.offsets) - 1 if self.chosen is None else len(self.chosen)

    def text(self, place: int) -> tuple[Pieces, int]:
        """Return the pieces of a text, and the number of its words."""
        number = place if self.chosen is None else int(self.chosen[place])
        start, stop = self.offsets[number : number + 2].tolist()
        found = (flat[start:stop].astype(np.int32) for flat in (self.ids, self.words, self.lasts))
        first, end = self.word_offsets[number : number + 2].tolist()
        return Pieces(*found), end - first

    def count(self, unknown: int) -> tuple[int, int]:
        """Return the number of pieces, and how many of them are the tokenizer's `unknown` one."""
        n = len(self.offsets) - 1
        if self.chosen is None or np.array_equal(self.chosen, np.arange(n)):
            return len(self.ids), self.unknown or 0
        ids = self.ids[ranges(self.offsets, self.chosen)[0]]
        return len(ids), int((ids == unknown).sum())


def no_pieces(folder: Path, what: str) -> DataError:
    """Return the fault of a folder that was prepared for something else."""
    remedy = "Remove the folder, and run the grid again to make it"
    return DataError(folder, f"does not have the pieces of {what}", remedy=remedy)


def prepared_rows(
    encoder: TransformerEncoder, sides: Sequence[PreparedTexts]
) -> LazyList[PieceRow]:
    """Return the rows that an encoder makes of texts, or of first and second texts, by whose
    tokenizer the pieces were made. Unknown pieces are reported while caveats are collected.
    """
    languages = tuple(side.lang for side in sides)
    if (heard := listener()) is not None:
        heard.not_as_trained.update(encoder.not_as_trained)
        unknown = encoder.tokenizer.unk_token_id
        for side in sides if unknown is not None else ():
            heard.read(side.lang, *side.count(unknown))

    def row_of(place: int) -> PieceRow:
        pieces, sizes = zip(*(side.text(place) for side in sides), strict=True)
        return encoder.row(pieces, sizes, languages)

    return LazyList(len(sides[0]), row_of)
