"""Tokenised sentences as taggers read them: pieces, and the first piece of each word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raxalign.arrays import word_pieces
from raxalign.encoders.models.pieces import PieceRow
from raxalign.tasks.transfer.compact_rows import Ragged

if TYPE_CHECKING:
    from raxalign.tasks.tagging.features import Features


@dataclass(frozen=True)
class Placed:
    """Tokenised sentences: for each the pieces, the positions of its words' first pieces, and the
    words of those positions (in order).

    Words without a piece, or beyond what a row may have, are missing there. `features` are those of
    the frozen encoder, where the tagger reads them.
    """

    rows: Sequence[PieceRow]
    firsts: Sequence[np.ndarray]
    words: Sequence[np.ndarray]
    features: Features | None = None

    @classmethod
    def of(cls, rows: Sequence[PieceRow], features: Features | None = None) -> Placed:
        """The first pieces of all words."""
        firsts, words = Ragged(), Ragged()
        for row in rows:
            pieces, owners = word_pieces(row.words, row.lasts)
            present, first = np.unique(owners, return_index=True)
            firsts.append(pieces[first])
            words.append(present)
        return cls(rows, firsts, words, features)
