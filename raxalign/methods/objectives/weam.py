"""The training of `weam` (Yang et al. 2021): masked words predicted from their context, and from the words that they are linked with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import nn

from raxalign.encoders.training.masking import MaskRule, Masks, chance_of, choose_masks
from raxalign.methods._exchange import CrossHead, copy_transform, exchange, output_embedding, prediction_loss
from raxalign.methods._packed_rows import read_rows
from raxalign.methods.objectives.masked_lm import MASKING
from raxalign.methods.rows.piece_links import Partners
from raxalign.methods.rows.sentences import Bitexts, Rows, joint_rows
from raxalign.pairing.aligners.base import Links
from raxalign.train.objective import Objective, Step

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder


@dataclass(frozen=True)
class ExchangeOptions:
    """The names are those of the params of `weam`."""

    reg_weight: float
    mask_share: float
    reduction: Literal["sum", "mean"]


@dataclass(frozen=True)
class _Batch:
    """A global batch: its rows, their masked places, the partners of all pieces, and how many masked places have one."""

    rows: Rows
    masks: Masks
    partners: Partners
    linked: int


class WordExchange(Objective):
    """Cross-entropy of masked pieces, by the masked-LM head from their own states and by a second head from those of their partners.

    Row r is sentence pair r of the bitexts, `[CLS] tgt [SEP] src [SEP]`; `links` are links of places in these rows. Means are over the masked
    places of the global batch, and over those of them that are linked.
    """

    def __init__(self, encoder: TransformerEncoder, bitexts: Bitexts, links: Links, options: ExchangeOptions) -> None:
        self.encoder, self.bitexts, self.links, self.options = encoder, bitexts, links, options
        self.decoder = output_embedding(encoder.model)
        self.head = CrossHead(copy_transform(encoder.model), encoder.hidden_size).to(encoder.device)
        self.module = nn.ModuleDict({"model": encoder.model, "head": self.head})
        self.rule = MaskRule.of(encoder, options.mask_share)
        self.batch: _Batch | None = None

    def begin(self, step: Step) -> None:
        """Masks of the global batch, and which of them have partners."""
        rows = joint_rows(self.bitexts.sentences, self.bitexts.tgt_P[step.rows], self.bitexts.src_P[step.rows])
        masks = choose_masks(rows, self.rule, chance_of(step, MASKING))
        links = self.links.take(step.rows)
        partners = Partners.of(rows.offsets[links.rows()], links.src, links.tgt, len(rows.ids))
        self.batch = _Batch(rows, masks, partners, int(partners.linked(masks.flat(rows.offsets)).sum()))

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:  # noqa: ARG002
        """The contribution of some rows of the global batch."""
        assert self.batch is not None, "begin comes first"
        batch, options = self.batch, self.options
        rows, masks = batch.rows.take(positions), batch.masks.take(positions)
        states_FH, starts_S = read_rows(self.encoder, [(rows, masks.applied(rows))])
        pieces = masks.flat(batch.rows.offsets[positions])
        linked = batch.partners.linked(pieces)
        places, owners = batch.partners.of_pieces(pieces[linked])
        starts = np.repeat(starts_S, np.diff(masks.offsets))[linked]
        masked_M, partners_E, owners_E, targets_M, linked_M = (
            torch.from_numpy(part).to(states_FH.device) for part in (masks.flat(starts_S), starts[owners] + places, owners, masks.targets, linked)
        )
        exchanged_NH = exchange(states_FH, partners_E, owners_E, int(linked.sum()))
        mean = options.reduction == "mean"
        return prediction_loss(
            self.encoder.lm_logits(states_FH[masked_M]),
            targets_M,
            self.decoder(self.head(exchanged_NH)),
            targets_M[linked_M],
            weight=1 / max(masks.total, 1) if mean else 1.0,
            cross_weight=options.reg_weight * (1 / max(batch.linked, 1) if mean else 1.0),
        )
