"""Masked language modelling on rows of sentences or of pairs: the loss, and the objective that
feeds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import lazy_loader as lazy
import numpy as np

from raxalign.encoders.training.masking import MaskRule, Masks, chance_of, choose_masks
from raxalign.methods.rows.sentences import Rows
from raxalign.methods.rows.states import read_rows
from raxalign.train.objective import Objective, Step

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.models.transformer import TransformerEncoder
else:
    torch = lazy.load("torch")

MASKING, MIXING = 0, 1
"""What masks are drawn by, ``chance_of(step, MASKING)``, and what `rows_of` draws by beside them,
``chance_of(step, MIXING)``.
"""


def masked_lm_loss(logits_MV: torch.Tensor, targets_M: torch.Tensor, total: int) -> torch.Tensor:
    """The cross-entropies of some masked places, summed, over the `total` of the global batch:
    their part of its mean.
    """
    return torch.nn.functional.cross_entropy(logits_MV, targets_M, reduction="sum") / total


def masked_logits(encoder: TransformerEncoder, rows: Rows, masks: Masks) -> torch.Tensor:
    """What the masked-LM head predicts at the masked places of rows, (M, V), in the order of
    `masks`; only these reach the head.
    """
    states_FH, starts_R = read_rows(encoder, [(rows, masks.applied(rows))])
    return encoder.lm_logits(states_FH[torch.from_numpy(masks.flat(starts_R)).to(states_FH.device)])


class MaskedLM(Objective):
    """The mean cross-entropy over the masked places of the global batch. `rows_of(step)` makes its
    rows, row r of them from ``step.rows[r]``.
    """

    def __init__(
        self, encoder: TransformerEncoder, rows_of: Callable[[Step], Rows], mask_share: float
    ) -> None:
        self.module = encoder.model
        self.encoder, self.rows_of, self.rule = encoder, rows_of, MaskRule.of(encoder, mask_share)
        self.rows: Rows
        self.masks: Masks

    def begin(self, step: Step) -> None:
        """The rows of the global batch and its masks."""
        self.rows = self.rows_of(step)
        self.masks = choose_masks(self.rows, self.rule, chance_of(step, MASKING))

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:  # noqa: ARG002
        """The contribution of some rows; rows without a masked place are not read at all."""
        masked = positions[np.diff(self.masks.offsets)[positions] > 0]
        if not len(masked):
            return torch.zeros((), device=self.encoder.device)
        masks = self.masks.take(masked)
        logits_MV = masked_logits(self.encoder, self.rows.take(masked), masks)
        return masked_lm_loss(
            logits_MV, torch.from_numpy(masks.targets).to(logits_MV.device), masks.total
        )
