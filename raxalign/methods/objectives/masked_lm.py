"""Masked language modelling on rows of sentences or of pairs (Devlin et al. 2019; of pairs Conneau
and Lample 2019, §3.3, which they call TLM).

Formula: mean over the masked places m of the global batch of -log p(x_m | the row with masks).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from raxalign.encoders.training.masked_words import MaskedWords
from raxalign.encoders.training.masking import Masks
from raxalign.methods.rows.sentences import Rows
from raxalign.methods.rows.states import lay_out_rows
from raxalign.train.objective import Step

if TYPE_CHECKING:
    from raxalign.encoders.models.packing import Packed
    from raxalign.encoders.models.transformer import TransformerEncoder


class MaskedLM(MaskedWords[Rows]):
    """Predicts the masked pieces of the rows that `rows_of(step)` makes, row r of them from
    ``step.rows[r]``.
    """

    def __init__(
        self, encoder: TransformerEncoder, rows_of: Callable[[Step], Rows], mask_share: float
    ) -> None:
        super().__init__(encoder, mask_share)
        self.rows_of = rows_of

    def on(self, rows_of: Callable[[Step], Rows]) -> Self:
        """Return the same objective over other rows; it shares the module."""
        other = copy.copy(self)
        other.rows_of = rows_of
        return other

    def batch(self, step: Step) -> Rows:
        """Return the rows of the global batch."""
        return self.rows_of(step)

    def lay_out(self, rows: Rows, masks: Masks) -> Packed:
        """Return some rows as the encoder reads them."""
        return lay_out_rows(self.encoder, [(rows, masks.applied(rows))])
