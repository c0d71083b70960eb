"""Linked words change places (Yang et al. 2021): the exchange, the loss, and the head that predicts a word from its translation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from raxalign.errors import RaxalignError


def exchange(states_FH: torch.Tensor, partners_E: torch.Tensor, owners_E: torch.Tensor, n: int) -> torch.Tensor:
    """H' = A H with the rows of A summing to 1, at N of the pieces: (N, H), the mean of the states of each one's partners.

    Partner e is at row `partners_E[e]` of the states, for the piece `owners_E[e]`. A one-to-one link just swaps two vectors, as the paper's
    A^T H does (Eq. 5); the vector of a piece without a partner is zero.
    """
    sums_NH = states_FH.new_zeros(n, states_FH.shape[-1]).index_add(0, owners_E, states_FH[partners_E])
    counts_N = torch.bincount(owners_E, minlength=n).clamp(min=1)
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
    """`weight` Σ_m -log p(w_m | context) + cross_weight Σ_n -log p(w_n | translation): with 1/M and λ/N a mean each, L_mp + λ L_cp (Eq. 9-11)."""
    multilingual = functional.cross_entropy(logits_MV, targets_M, reduction="sum")
    cross_lingual = functional.cross_entropy(cross_logits_NV, cross_targets_N, reduction="sum")
    return weight * multilingual + cross_weight * cross_lingual


class CrossHead(nn.Module):
    """δ(W3 (W2 h + b2) + b3): W2 starts as the identity, and W3 with its activation and norm as a copy of the masked-LM head's transform.

    The output embedding is the masked-LM head's own, shared; it is not in here.
    """

    def __init__(self, transform: nn.Module, hidden: int) -> None:
        super().__init__()
        self.exchange = nn.Linear(hidden, hidden)
        nn.init.eye_(self.exchange.weight)
        nn.init.zeros_(self.exchange.bias)
        self.transform = transform

    def forward(self, states_NH: torch.Tensor) -> torch.Tensor:
        """(N, H) to (N, width of the output embedding)."""
        return self.transform(self.exchange(states_NH))  # type: ignore[no-any-return]


class _Activation(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.function(states)


def copy_transform(model: Any) -> nn.Module:
    """A copy of a masked-LM head up to its output embedding. Raises `RaxalignError` for heads that are not of a known shape."""
    if hasattr(model, "cls") and hasattr(getattr(model.cls, "predictions", None), "transform"):
        parts: list[Any] = [model.cls.predictions.transform]
    elif hasattr(model, "lm_head") and hasattr(model.lm_head, "dense") and hasattr(model.lm_head, "layer_norm"):
        parts = [model.lm_head.dense, nn.GELU(), model.lm_head.layer_norm]
    elif hasattr(model, "vocab_transform"):
        parts = [model.vocab_transform, _Activation(model.activation), model.vocab_layer_norm]
    elif hasattr(model, "head") and hasattr(model, "decoder"):
        parts = [model.head]
    else:
        raise RaxalignError(
            f"weam: {type(model).__name__} has no masked-LM head with a transform that can be copied (BERT, RoBERTa, XLM-R, DistilBERT and "
            "ModernBERT have one). Use an encoder of these"
        )
    return nn.Sequential(*(copy.deepcopy(part) for part in parts))


def output_embedding(model: Any) -> nn.Module:
    """The last part of a masked-LM head, (..., width) to logits (..., V): the one that `copy_transform` leaves out."""
    if hasattr(model, "cls"):
        decoder = model.cls.predictions.decoder
    elif hasattr(model, "lm_head"):
        decoder = model.lm_head.decoder
    elif hasattr(model, "vocab_projector"):
        decoder = model.vocab_projector
    else:
        decoder = model.decoder
    return decoder  # type: ignore[no-any-return]
