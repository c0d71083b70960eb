"""Masked language modelling on rows of sentences or of pairs: the loss, the objective that feeds it, and the options of such a training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import lazy_loader as lazy
import numpy as np
from pydantic import Field

from raxalign.methods._packed_rows import read_rows
from raxalign.methods.base import Method
from raxalign.methods.families import wording
from raxalign.methods.families.trained import losses
from raxalign.methods.rows.masking import MaskRule, Masks, chance_of, choose_masks
from raxalign.methods.rows.sentences import Rows
from raxalign.train.loop import TrainSettings, fit
from raxalign.train.objective import Objective, Step

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.train.runtime import Runtime
else:
    torch = lazy.load("torch")

MASKING, MIXING = 0, 1
"""What masks are drawn by, ``chance_of(step, MASKING)``, and what `rows_of` draws by beside them, ``chance_of(step, MIXING)``."""


class MaskedLMParams(Method.Params):
    """The options of a training by masked language modelling (Pan et al. 2021), with AdamW. Rows are sentences unless a subclass says otherwise."""

    mask_share: float = Field(0.15, gt=0, lt=1, description=wording.MASK_SHARE)
    learning_rate: float = Field(3e-5, gt=0, description=wording.LEARNING_RATE)
    batch_size: int = Field(128, ge=1, description=wording.BATCH_OF_SENTENCES)
    epochs: int = Field(10, ge=1, description=wording.EPOCHS)
    warmup: float = Field(0.1, ge=0, description=wording.WARMUP)
    weight_decay: float = Field(0.01, ge=0, description=wording.WEIGHT_DECAY)
    max_length: int = Field(128, ge=8, description=wording.ROW_LENGTH)
    dropout: bool = Field(True, description=wording.DROPOUT)


def masked_lm_loss(logits_MV: torch.Tensor, targets_M: torch.Tensor, total: int) -> torch.Tensor:
    """The cross-entropies of some masked places, summed, over the `total` of the global batch: their part of its mean."""
    return torch.nn.functional.cross_entropy(logits_MV, targets_M, reduction="sum") / total


def masked_logits(encoder: TransformerEncoder, rows: Rows, masks: Masks) -> torch.Tensor:
    """What the masked-LM head predicts at the masked places of rows, (M, V), in the order of `masks`; only these reach the head."""
    states_FH, starts_R = read_rows(encoder, [(rows, masks.applied(rows))])
    return encoder.lm_logits(states_FH[torch.from_numpy(masks.flat(starts_R)).to(states_FH.device)])


class MaskedLM(Objective):
    """The mean cross-entropy over the masked places of the global batch. `rows_of(step)` makes its rows, row r of them from ``step.rows[r]``."""

    def __init__(self, encoder: TransformerEncoder, rows_of: Callable[[Step], Rows], mask_share: float) -> None:
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
        return masked_lm_loss(logits_MV, torch.from_numpy(masks.targets).to(logits_MV.device), masks.total)


def train_settings(params: MaskedLMParams) -> TrainSettings:
    """The options of the loop."""
    return TrainSettings(
        learning_rate=params.learning_rate,
        batch_size=params.batch_size,
        epochs=params.epochs,
        warmup=params.warmup,
        schedule="linear",
        weight_decay=params.weight_decay,
        dropout=params.dropout,
    )


def train_masked_lm(
    encoder: TransformerEncoder, rows_of: Callable[[Step], Rows], n_rows: int, params: MaskedLMParams, runtime: Runtime, name: str
) -> dict[str, object]:
    """Train the encoder in place; returns notes: the number of rows, and `losses`."""
    fitted = fit(MaskedLM(encoder, rows_of, params.mask_share), n_rows, train_settings(params), runtime, name=name)
    return {"rows": n_rows, **losses(fitted)}
