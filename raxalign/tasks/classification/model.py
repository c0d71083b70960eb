"""A classifier of sentences or sentence pairs on top of an encoder: one linear layer on the last
layer's first piece ([CLS]), without a pooler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from raxalign.encoders.models.decoders import summary_places
from raxalign.encoders.models.pieces import PieceRow, token_batches
from raxalign.encoders.models.transformer import evaluating
from raxalign.tasks.transfer.compact_rows import CompactRows
from raxalign.tasks.transfer.model import FineTuned
from raxalign.tasks.transfer.row_states import RowLayout, lay_out, states_of

_CHUNK = 4096
"""Examples that are divided into pieces at once."""


@dataclass(frozen=True)
class ClassifiedRows:
    """Rows as the encoder reads them, and the place of the piece of each that the head reads."""

    layout: RowLayout
    places_B: np.ndarray


class SentenceClassifier(FineTuned):
    """Classifier whose head reads [CLS], or the last piece of a decoder; the transforms of that
    piece's language apply to it.
    """

    def rows(
        self,
        first: Sequence[Sequence[str]],
        second: Sequence[Sequence[str]] | None,
        lang: str,
        second_lang: str | None = None,
    ) -> Sequence[PieceRow]:
        """Divides sentences, or sentence pairs, into pieces; of a pair that is too long the longer
        sentence is cut first.

        Args:
            first: the words of the sentences.
            second: the words of the sentences that follow them (None: there are none).
            lang: the language of the first sentences.
            second_lang: the language of the second ones (None: the same).

        Returns:
            one row per example.
        """
        parts = (slice(start, start + _CHUNK) for start in range(0, len(first), _CHUNK))
        return CompactRows(
            self.encoder.pieces(
                first[part],
                lang,
                pairs=None if second is None else second[part],
                pair_lang=second_lang,
            )
            for part in parts
        )

    def lay_out(self, rows: Sequence[PieceRow]) -> ClassifiedRows:
        """Returns rows as the classifier reads them. The device has no part in it."""
        found = lay_out(self.aligned, rows)
        places_B = summary_places(self.encoder.model, found.starts_S, found.lengths_S)
        return ClassifiedRows(found, places_B)

    def logits(self, rows: ClassifiedRows) -> torch.Tensor:
        """Returns logits (rows, labels); gradient flows, dropout follows the mode."""
        found = states_of(self.aligned, rows.layout)
        logits: torch.Tensor = self.head(self.dropout(found.at(rows.places_B)))
        return logits

    def forward(self, rows: Sequence[PieceRow]) -> torch.Tensor:
        """Returns logits (rows, labels), as `logits` does."""
        return self.logits(self.lay_out(rows))

    @torch.no_grad()
    def probabilities(self, rows: Sequence[PieceRow]) -> torch.Tensor:
        """Returns probabilities (rows, labels) on the CPU, in input order; length-sorted batches,
        eval mode.
        """
        found = torch.empty(len(rows), self.head.out_features)
        with evaluating(self):
            for chosen in token_batches([len(row) for row in rows], self.encoder.batch_tokens):
                logits = self([rows[i] for i in chosen])
                found[torch.from_numpy(chosen)] = logits.float().softmax(1).cpu()
        return found
