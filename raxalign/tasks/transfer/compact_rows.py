"""Rows of training examples without a Python object per row: their pieces lie in one array, and in
a file where they are many.
"""

from __future__ import annotations

import mmap
import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from raxalign.arrays import offsets_of
from raxalign.encoders.models.pieces import PieceRow

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder

_IN_MEMORY = 64 * 2**20
"""Bytes up to which pieces are kept in memory; more are written to a temporary file."""
_CHUNK = 4096
"""Texts that are divided into pieces at once."""


class CompactRows(Sequence[PieceRow]):
    """Rows of the same languages, of which each is made when it is asked for.

    Piece p of all rows end to end is row p of an int32 array (pieces, 3): the piece, its first and
    its last word. A row takes 12 bytes per piece, and 16 more.
    """

    def __init__(self, parts: Iterable[Sequence[PieceRow]]) -> None:
        """Keep rows that are given some at a time. The temporary file, where one is needed, is in
        the folder of `TMPDIR`, and goes with the rows.
        """
        lengths, numbers = [np.zeros(0, np.int64)], [np.zeros((0, 2), np.int32)]
        self.languages: tuple[str, ...] = ()
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
            for rows in parts:
                lengths.append(np.array([len(row) for row in rows], np.int64))
                numbers.append(np.array([(row.first, row.n_words) for row in rows], np.int32))
                for row in rows:
                    flat_P3 = np.stack([row.ids, row.words, row.lasts], axis=1).astype(np.int32)
                    file.write(flat_P3.tobytes())
                    self.languages = row.languages
            buffer = _held(file)
        self._pieces_P3 = np.frombuffer(buffer, np.int32).reshape(-1, 3)
        self._offsets = offsets_of(np.concatenate(lengths))
        self._numbers_S2 = np.concatenate([part.reshape(-1, 2) for part in numbers])

    def __len__(self) -> int:
        return len(self._numbers_S2)

    @overload
    def __getitem__(self, which: int) -> PieceRow: ...
    @overload
    def __getitem__(self, which: slice) -> list[PieceRow]: ...
    def __getitem__(self, which: int | slice) -> PieceRow | list[PieceRow]:
        """Return a row, or a list of some."""
        if isinstance(which, slice):
            return [self[i] for i in range(*which.indices(len(self)))]
        if not -len(self) <= which < len(self):
            raise IndexError(which)
        row = which % len(self)
        flat_3P = self._pieces_P3[self._offsets[row] : self._offsets[row + 1]].T.astype(np.int64)
        first, n_words = self._numbers_S2[row].tolist()
        return PieceRow(flat_3P[0], flat_3P[1], flat_3P[2], first, n_words, self.languages)


def compact_rows(
    encoder: TransformerEncoder,
    first: Sequence[Sequence[str]],
    lang: str,
    second: Sequence[Sequence[str]] | None = None,
    second_lang: str | None = None,
) -> CompactRows:
    """Divide sentences, or sentence pairs, into pieces.

    Args:
        encoder: The encoder that reads the rows.
        first: The words of the sentences.
        lang: Their language.
        second: The words of the sentences that follow them (None: there are none).
        second_lang: The language of the second ones (None: the same).

    Returns:
        One row per sentence or pair.
    """
    parts = (slice(start, start + _CHUNK) for start in range(0, len(first), _CHUNK))
    return CompactRows(
        encoder.pieces(
            first[part],
            lang,
            pairs=None if second is None else second[part],
            pair_lang=second_lang,
        )
        for part in parts
    )


class Ragged(Sequence[np.ndarray]):
    """Arrays of int64 that lie end to end, in four bytes per entry.

    >>> rows = Ragged()
    >>> rows.append(np.array([3, 1]))
    >>> rows.append(np.array([], int))
    >>> len(rows), rows[0].tolist(), rows[-1].tolist()
    (2, [3, 1], [])
    """

    def __init__(self) -> None:
        self._flat, self._ends = array("i"), array("q")

    def append(self, entries: np.ndarray) -> None:
        """Add an array."""
        self._flat.frombytes(entries.astype(np.int32).tobytes())
        self._ends.append(len(self._flat))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, which: Any) -> Any:
        """Return a copy of an array, or of some."""
        if isinstance(which, slice):
            return [self[i] for i in range(*which.indices(len(self)))]
        if not -len(self) <= which < len(self):
            raise IndexError(which)
        place = which % len(self)
        return np.array(
            self._flat[self._ends[place - 1] if place else 0 : self._ends[place]], np.int64
        )


class Chained(Sequence[Any]):
    """Several sequences, one after the other.

    >>> rows = Chained([[1, 2], [], [3]])
    >>> len(rows), [rows[i] for i in (0, 2, -2)], rows[1:]
    (3, [1, 3, 2], [2, 3])
    """

    def __init__(self, parts: Sequence[Sequence[Any]]) -> None:
        self.parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, which: Any) -> Any:
        """Return one entry, or a list of some."""
        if isinstance(which, slice):
            return [self[i] for i in range(*which.indices(len(self)))]
        if not -len(self) <= which < len(self):
            raise IndexError(which)
        place = which % len(self)
        part = bisect_right(self._ends, place)
        return self.parts[part][place - (self._ends[part - 1] if part else 0)]


def _held(file: tempfile.SpooledTemporaryFile[bytes]) -> bytes | mmap.mmap:
    """What was written: its bytes, or where they are many, the mapped file."""
    size = file.tell()
    if size > _IN_MEMORY:
        file.flush()
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    file.seek(0)
    return file.read()
