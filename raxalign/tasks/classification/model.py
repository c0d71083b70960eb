"""A classifier of sentence pairs on top of an encoder: one linear layer on the last layer's first
piece ([CLS]), without a pooler.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from raxalign.encoders.models.pieces import PieceRow, token_batches
from raxalign.encoders.models.transformer import evaluating
from raxalign.tasks.transfer.model import FineTuned


class SentenceClassifier(FineTuned):
    """Transforms apply to what the head reads by the language of the first sentence, whose [CLS]
    is.
    """

    def rows(
        self,
        first: Sequence[Sequence[str]],
        second: Sequence[Sequence[str]],
        lang: str,
        second_lang: str | None = None,
    ) -> list[PieceRow]:
        """The pieces of sentence pairs, the longer sentence cut first where they are too long
        together.
        """
        return self.encoder.pieces(first, lang, pairs=second, pair_lang=second_lang)

    def forward(self, rows: Sequence[PieceRow]) -> torch.Tensor:
        """Logits (rows, labels); gradient flows, dropout follows the mode."""
        states_BTH = self.aligned.hidden(self.encoder.collate(rows))[-1]
        logits: torch.Tensor = self.head(self.dropout(states_BTH[:, 0]))
        return logits

    @torch.no_grad()
    def probabilities(self, rows: Sequence[PieceRow]) -> torch.Tensor:
        """Probabilities (rows, labels) on the CPU, in input order; length-sorted batches, eval
        mode.
        """
        found = torch.empty(len(rows), self.head.out_features)
        with evaluating(self):
            for chosen in token_batches([len(row) for row in rows], self.encoder.batch_tokens):
                logits = self([rows[i] for i in chosen])
                found[torch.from_numpy(chosen)] = logits.float().softmax(1).cpu()
        return found
