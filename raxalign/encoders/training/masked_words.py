"""The prediction of masked pieces (Devlin et al. 2019): the loss, and the base of the objectives
that predict them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

import numpy as np

from raxalign import lazy
from raxalign.encoders.models.packing import Packed, can_pack, flat_states
from raxalign.encoders.training.masking import FlatRows, MaskRule, Masks, chance_of, choose_masks
from raxalign.train.chance import MASKING
from raxalign.train.devices import on_device
from raxalign.train.objective import HostSided, Step

if TYPE_CHECKING:
    import torch
    from torch import nn

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


@dataclass(frozen=True)
class Masked(Generic[_R]):
    """The rows of a global batch, and their masked places."""

    rows: _R
    masks: Masks


@dataclass(frozen=True)
class Predicted:
    """Rows as the encoder reads them, the places (M,) in its states that are predicted, the pieces
    that stood there, and the number of such places in the global batch.
    """

    packed: Packed
    places_M: np.ndarray
    targets_M: np.ndarray
    total: int


class MaskedWords(HostSided[Masked[_R], Predicted | None], Generic[_R]):
    """The mean cross-entropy over the masked places of the global batch. Subclasses make its rows,
    and lay some of them out for the encoder.
    """

    def __init__(self, encoder: TransformerEncoder, mask_share: float) -> None:
        can_pack(encoder)  # found out here, and not by the thread that prepares steps
        self.module = encoder.model
        self.encoder, self.rule = encoder, MaskRule.of(encoder, mask_share)

    @abstractmethod
    def batch(self, step: Step) -> _R:
        """The rows of the global batch, row r of them made from ``step.rows[r]``."""

    @abstractmethod
    def lay_out(self, rows: _R, masks: Masks) -> Packed:
        """Some rows as the encoder reads them, with their masks; the device has no part in it."""

    def choose(self, step: Step, rows: _R) -> Masks:
        """The masked places of the global batch."""
        return choose_masks(rows, self.rule, chance_of(step, MASKING))

    def blocks(self) -> Sequence[nn.Module]:
        """The encoder's blocks."""
        return self.encoder.blocks()

    def host_batch(self, step: Step) -> Masked[_R]:
        """The rows of the global batch and its masks."""
        rows = self.batch(step)
        return Masked(rows, self.choose(step, rows))

    def host_part(
        self,
        step: Step,  # noqa: ARG002
        batch: Masked[_R],
        positions: np.ndarray,
    ) -> Predicted | None:
        """Some rows; rows without a masked place are not read. None where no row has one."""
        masked = positions[np.diff(batch.masks.offsets)[positions] > 0]
        if not len(masked):
            return None
        masks = batch.masks.take(masked)
        packed = self.lay_out(batch.rows.take(masked), masks)
        return Predicted(packed, masks.flat(packed.starts_S), masks.targets, masks.total)

    def device_loss(self, step: Step, part: Predicted | None) -> torch.Tensor:  # noqa: ARG002
        """The contribution of some rows, a scalar. Only the masked places reach the masked-LM head:
        with a large vocabulary it costs more than the blocks.
        """
        if part is None:
            return torch.zeros((), device=self.encoder.device)
        logits_MV = masked_logits(self.encoder, part.packed, part.places_M)
        targets_M = on_device(part.targets_M, logits_MV.device)
        return masked_lm_loss(logits_MV, targets_M, part.total)


def masked_logits(
    encoder: TransformerEncoder, packed: Packed, places_M: np.ndarray
) -> torch.Tensor:
    """What the masked-LM head predicts at some places of the states of rows, (M, V)."""
    (states_FH,) = flat_states(encoder, packed, (encoder.n_layers,))
    return encoder.lm_logits(states_FH[on_device(places_M, states_FH.device)])
