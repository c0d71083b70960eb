"""Running text sliced into training rows, so that no piece of it is lost, whatever the window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raxalign.arrays import offsets_of
from raxalign.encoders.models.pieces import PieceRow

TWO_SEGMENTS = 0.5
"""Share of the rows that have two segments, where a sentence ends within them."""


def slice_rows(
    sentences: Sequence[np.ndarray], window: int, ends: tuple[int, int], rng: np.random.Generator
) -> list[PieceRow]:
    """Slice a text, its sentences in their order, into rows of `window` pieces.

    A row is ``[CLS] ... [SEP]``, and goes on where the one before it stopped, within a sentence
    too. Half of the rows within which a sentence ends have two segments, ``[CLS] ... [SEP] ...
    [SEP]``, divided at such an end, so that the encoder knows the segments that pairs will have.

    Args:
        sentences: the pieces of each sentence, without special ones.
        window: the number of pieces per row, special ones included; the last row may be shorter.
        ends: the numbers of ``[CLS]`` and ``[SEP]``.
        rng: chooses the rows with two segments and where they are divided.

    Returns:
        the rows, which have every piece of the text once.
    """
    ids = np.concatenate([np.zeros(0, np.int32), *sentences])
    stops = offsets_of(np.array([len(sentence) for sentence in sentences], dtype=np.int64))[1:]
    rows, at = [], 0
    while at < len(ids):
        room = window - 2
        divide = None
        if rng.random() < TWO_SEGMENTS:
            last = min(at + room - 1, len(ids))
            inside = stops[np.searchsorted(stops, at, "right") : np.searchsorted(stops, last)]
            if len(inside):
                divide, room = int(rng.choice(inside)), room - 1
        rows.append(_row(ids, (at, divide, min(at + room, len(ids))), ends))
        at += room
    return rows


def _row(ids: np.ndarray, parts: tuple[int, int | None, int], ends: tuple[int, int]) -> PieceRow:
    """The row of a stretch (begin, begin of the second segment, end) of a text."""
    (begin, divide, end), (cls, sep) = parts, ends
    if divide is None:
        row = np.concatenate([[cls], ids[begin:end], [sep]])
        first = len(row)
    else:
        row = np.concatenate([[cls], ids[begin:divide], [sep], ids[divide:end], [sep]])
        first = divide - begin + 2
    none = np.full(len(row), -1)
    return PieceRow(row, none, none, first, 0, ())
