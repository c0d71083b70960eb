"""The prediction of masked pieces (Devlin et al. 2019): the loss, and the base of the objectives
that predict them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

import lazy_loader as lazy
import numpy as np

from raxalign.encoders.training.masking import FlatRows, MaskRule, Masks, chance_of, choose_masks
from raxalign.train.chance import MASKING
from raxalign.train.devices import on_device
from raxalign.train.objective import Objective, Step

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.models.transformer import TransformerEncoder
else:
    torch = lazy.load("torch")


class PieceRows(FlatRows, Protocol):
    """Rows of pieces of which some can be taken."""

    def take(self, rows: np.ndarray) -> Self:
        """Some of the rows, in the order given."""


_R = TypeVar("_R", bound=PieceRows)


def masked_lm_loss(logits_MV: torch.Tensor, targets_M: torch.Tensor, total: int) -> torch.Tensor:
    """The contribution of M masked places out of the `total` of the global batch to the mean over m
    of -log p(x_m | the row with masks) (Devlin et al. 2019, §3.1), a scalar: logits (M, V), and the
    pieces (M,) that stood there.
    """
    return torch.nn.functional.cross_entropy(logits_MV, targets_M, reduction="sum") / total


class MaskedWords(Objective, Generic[_R]):
    """The mean cross-entropy over the masked places of the global batch. Subclasses make its rows,
    and predict what is masked in some of them.
    """

    def __init__(self, encoder: TransformerEncoder, mask_share: float) -> None:
        self.module = encoder.model
        self.encoder, self.rule = encoder, MaskRule.of(encoder, mask_share)
        self.rows: _R
        self.masks: Masks

    @abstractmethod
    def batch(self, step: Step) -> _R:
        """The rows of the global batch, row r of them made from ``step.rows[r]``."""

    @abstractmethod
    def logits(self, rows: _R, masks: Masks) -> torch.Tensor:
        """What the masked-LM head predicts at the masked places of rows, (M, V), in the order of
        `masks`. Only these places reach the head: with a large vocabulary it costs more than the
        blocks.
        """

    def begin(self, step: Step) -> None:
        """The rows of the global batch and its masks."""
        self.rows = self.batch(step)
        self.masks = choose_masks(self.rows, self.rule, chance_of(step, MASKING))

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:  # noqa: ARG002
        """The contribution of some rows, a scalar; rows without a masked place are not read."""
        masked = positions[np.diff(self.masks.offsets)[positions] > 0]
        if not len(masked):
            return torch.zeros((), device=self.encoder.device)
        masks = self.masks.take(masked)
        logits_MV = self.logits(self.rows.take(masked), masks)
        targets_M = on_device(masks.targets, logits_MV.device)
        return masked_lm_loss(logits_MV, targets_M, masks.total)
