"""The training of `weam` (Yang et al. 2021): words predicted from context and from linked words."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.nn import functional

from raxalign.encoders.models.masking import MaskRule, Masks, choose_masks
from raxalign.encoders.models.rows import Rows
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.methods.rows.sentences import Bitexts, Partners
from raxalign.methods.rows.states import last_states
from raxalign.train.chance import Stream
from raxalign.train.devices import on_device
from raxalign.train.objective import Objective, Step


def exchange(
    states_FH: torch.Tensor, partners_E: torch.Tensor, owners_E: torch.Tensor, n: int
) -> torch.Tensor:
    """H' = A H with the rows of A summing to 1, at N of the pieces: (N, H), the mean of the states
    of each one's partners.

    Partner e is at row `partners_E[e]` of the states, for the piece `owners_E[e]`. A one-to-one
    link just swaps two vectors, as the paper's A^T H does (Eq. 5); the vector of a piece without a
    partner is zero.
    """
    sums_NH = states_FH.new_zeros(n, states_FH.shape[-1]).index_add(
        0, owners_E, states_FH[partners_E]
    )
    counts_N = owners_E.new_zeros(n).index_add(0, owners_E, torch.ones_like(owners_E)).clamp(min=1)
    return sums_NH / counts_N[:, None].to(sums_NH)


def prediction_loss(
    logits_MV: torch.Tensor,
    targets_M: torch.Tensor,
    cross_logits_NV: torch.Tensor,
    cross_targets_N: torch.Tensor,
    *,
    weight: float,
    cross_weight: float,
) -> torch.Tensor:
    """Return `weight` Σ_m -log p(w_m | context) + cross_weight Σ_n -log p(w_n | translation): with
    1/M and λ/N a mean each, L_mp + λ L_cp (Eq. 9-11).
    """
    multilingual = functional.cross_entropy(logits_MV, targets_M, reduction="sum")
    cross_lingual = functional.cross_entropy(cross_logits_NV, cross_targets_N, reduction="sum")
    return weight * multilingual + cross_weight * cross_lingual


class CrossHead(nn.Module):
    """δ(W3 (W2 h + b2) + b3): W2 starts as the identity, and W3 with its activation and norm as a
    copy of the masked-LM head's transform.

    The output embedding is the masked-LM head's own, shared; it is not in here.
    """

    def __init__(self, transform: nn.Module, hidden: int) -> None:
        super().__init__()
        self.exchange = nn.Linear(hidden, hidden)
        nn.init.eye_(self.exchange.weight)
        nn.init.zeros_(self.exchange.bias)
        self.transform = transform

    def forward(self, states_NH: torch.Tensor) -> torch.Tensor:
        """Return (N, H) to (N, width of the output embedding)."""
        return self.transform(self.exchange(states_NH))  # type: ignore[no-any-return]


def split_head(model: Any) -> tuple[nn.Module, nn.Module]:
    """Return a copy of a masked-LM head up to its output embedding, and that embedding itself,
    (..., width) to logits (..., V). Raises `RaxalignError` for heads that are not of a known shape.
    """
    head: Any = getattr(model, "lm_head", None)
    if hasattr(model, "cls") and hasattr(getattr(model.cls, "predictions", None), "transform"):
        parts, decoder = [model.cls.predictions.transform], model.cls.predictions.decoder
    elif hasattr(head, "dense") and hasattr(head, "layer_norm"):
        parts, decoder = [head.dense, nn.GELU(), head.layer_norm], head.decoder
    elif hasattr(model, "vocab_transform"):
        parts = [model.vocab_transform, model.activation, model.vocab_layer_norm]
        decoder = model.vocab_projector
    elif hasattr(model, "head") and hasattr(model, "decoder"):
        parts, decoder = [model.head], model.decoder
    else:
        raise RaxalignError(
            f"weam: {type(model).__name__} has no masked-LM head with a transform that can be"
            " copied (BERT, RoBERTa, XLM-R, DistilBERT and ModernBERT have one). Use an encoder of"
            " these"
        )
    # Trained even where the head that it is copied from is not, and so in float32.
    copied = nn.Sequential(*map(copy.deepcopy, parts)).float().requires_grad_(requires_grad=True)
    return copied, decoder


_Batch = tuple[Rows, Masks, Partners, int]
"""The rows of a global batch, their masked places, the partners of all pieces, and how many masked
places have one.
"""


class WordExchange(Objective):
    """Cross-entropy of masked pieces, by the masked-LM head from their own states and by a second
    head from those of their partners.

    Row r is sentence pair r of the bitexts, `[CLS] tgt [SEP] src [SEP]`, of whose places the
    bitexts have the links. Means are over the masked places of the global batch, and over those of
    them that are linked. `options` are the resolved params of `weam`.
    """

    def __init__(
        self, encoder: TransformerEncoder, bitexts: Bitexts, options: Mapping[str, Any]
    ) -> None:
        self.encoder, self.rows, self.options = encoder, bitexts, options
        transform, self.decoder = split_head(encoder.model)
        self.head = CrossHead(transform, encoder.hidden_size).to(encoder.device)
        self.module = nn.ModuleDict({"model": encoder.model, "head": self.head})
        self.rule = MaskRule.of(encoder, options["mask_share"])
        self.batch: _Batch | None = None

    def begin(self, step: Step) -> None:
        """Masks of the global batch, and which of them have partners."""
        bitexts: Bitexts = self.rows
        first, second = bitexts.tgt_P[step.rows], bitexts.src_P[step.rows]
        rows = bitexts.sentences.joint_rows(first, second)
        masks = choose_masks(rows, self.rule, step.chance(Stream.MASKING))
        links = bitexts.links.take(step.rows)
        partners = Partners.of(rows.offsets[links.rows()], links.src, links.tgt, len(rows.ids))
        self.batch = rows, masks, partners, int(partners.linked(masks.flat(rows.offsets)).sum())

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:  # noqa: ARG002
        """Return the contribution of some rows of the global batch."""
        assert self.batch is not None, "begin comes first"
        (of_batch, masks, partners, n_linked), options = self.batch, self.options
        rows, masks = of_batch.take(positions), masks.take(positions)
        packed = self.encoder.lay_out([masks.applied(rows)])
        states_FH, starts_S = last_states(self.encoder, packed), packed.starts_S
        pieces = masks.flat(of_batch.offsets[positions])
        linked = partners.linked(pieces)
        places, owners = partners.of_pieces(pieces[linked])
        starts = np.repeat(starts_S, np.diff(masks.offsets))[linked]
        arrays = masks.flat(starts_S), starts[owners] + places, owners, masks.targets
        masked_M, partners_E, owners_E, targets_M = (on_device(a, states_FH.device) for a in arrays)
        linked_N = on_device(masks.targets[linked], states_FH.device)
        exchanged_NH = exchange(states_FH, partners_E, owners_E, int(linked.sum()))
        mean = options["reduction"] == "mean"
        return prediction_loss(
            self.encoder.lm_logits(states_FH[masked_M]),
            targets_M,
            self.encoder.within(self.decoder, self.head(exchanged_NH)),
            linked_N,
            weight=1 / max(masks.total, 1) if mean else 1.0,
            cross_weight=options["lambda"] * (1 / max(n_linked, 1) if mean else 1.0),
        )
