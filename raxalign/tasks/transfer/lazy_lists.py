"""Lists whose entries are made when they are asked for, and pieces that were made before."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, overload

from raxalign.arrays import offsets_of
from raxalign.encoders.models.pieces import Pieces
from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError

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


def no_pieces(folder: Path, what: str) -> DataError:
    """Return the fault of a folder that was prepared for something else."""
    remedy = "Remove the folder, and run the grid again to make it"
    return DataError(folder, f"does not have the pieces of {what}", remedy=remedy)


def read_pieces(folder: Path, lang: str) -> Pieces:
    """Return the pieces of texts that are in a folder, mapped. Raises `DataError` where it has none
    of the language.
    """
    found = Pieces.mapped(folder, lang)
    if found is None:
        raise no_pieces(folder, f"texts in {lang}")
    return found


def prepared_rows(encoder: TransformerEncoder, sides: Sequence[Pieces]) -> RowSource:
    """Return the rows that an encoder makes of texts, or of first and second texts, by whose
    tokenizer the pieces were made. Unknown pieces are reported while caveats are collected.
    """
    for side in sides:
        side.report(side.lang, encoder.tokenizer.unk_token_id)
    return RowSource.of(encoder, sides)
