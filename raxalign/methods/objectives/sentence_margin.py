"""The additive margin softmax over sentence pairs (Yang et al. 2019; Feng et al. 2022), and the
objective that feeds it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from raxalign import lazy
from raxalign.encoders.models.sentence_config import SentencePooling
from raxalign.methods.objectives.whole_batch import WholeBatch
from raxalign.methods.objectives.word_contrast import sharing
from raxalign.methods.rows.states import pool_sentences, read_states
from raxalign.methods.rows.typed import SentenceRows
from raxalign.train.devices import on_device

if TYPE_CHECKING:
    import torch
    from torch import nn

    from raxalign.encoders.models.transformer import TransformerEncoder
else:
    torch = lazy.load("torch")


def margin_loss(
    src_ND: torch.Tensor,
    tgt_ND: torch.Tensor,
    *,
    margin: float,
    scale: float,
    hidden_NN: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the sum over both directions of the mean of -log softmax of scale · (cosine - margin
    for the translation), among the other side's sentences (Feng et al. 2022, Eq. 1-2).

    Args:
        src_ND: The vectors of the other language.
        tgt_ND: The vectors of the pivot.
        margin: The margin.
        scale: The factor of the cosines.
        hidden_NN: Symmetric; where ``hidden_NN[i, j]``, sentence j is not a candidate for i.
    """
    src_ND, tgt_ND = (torch.nn.functional.normalize(part, dim=-1) for part in (src_ND, tgt_ND))
    itself_NN = torch.eye(len(src_ND), dtype=torch.bool, device=src_ND.device)
    logits_NN = scale * (src_ND @ tgt_ND.T - margin * itself_NN.to(src_ND))
    if hidden_NN is not None:
        logits_NN = logits_NN.masked_fill(hidden_NN & ~itself_NN, -torch.inf)
    gold_N = torch.arange(len(src_ND), device=src_ND.device)
    loss: torch.Tensor = torch.nn.functional.cross_entropy(
        logits_NN, gold_N
    ) + torch.nn.functional.cross_entropy(logits_NN.T, gold_N)
    return loss


@dataclass(frozen=True)
class MarginOptions:
    """The options of the method that the loss reads; `layer` is the layer whose vectors are
    compared.
    """

    layer: int
    pooling: SentencePooling
    margin: float
    scale: float
    mask_same_sentence: bool


class Margin(WholeBatch):
    """Ranks a sentence's translation above the other sentences of the global batch; an item is a
    sentence pair.
    """

    def __init__(
        self, encoder: TransformerEncoder, corpus: SentenceRows, options: MarginOptions
    ) -> None:
        self.encoder, self.corpus, self.options = encoder, corpus, options
        self.module = encoder.model
        self.shape = (2, encoder.hidden_size)

    def blocks(self) -> Sequence[nn.Module]:
        """Return the encoder's blocks."""
        return self.encoder.blocks()

    def on(self, corpus: SentenceRows) -> Self:
        """Return the same objective over other sentence pairs; it shares the module."""
        other = copy.copy(self)
        other.corpus = corpus
        return other

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Return one pair per row."""
        return np.ones(len(rows), np.int64)

    def vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of the sentences, (N, 2, H)."""
        states = read_states(
            self.encoder, [(self.corpus.src, rows), (self.corpus.tgt, rows)], (self.options.layer,)
        )
        vectors_SH = pool_sentences(states, self.options.pooling)
        return torch.stack([vectors_SH[: len(rows)], vectors_SH[len(rows) :]], dim=1)

    def batch_loss(self, rows: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        """Return the loss; pairs that share a sentence are not negatives of one another."""
        hidden_NN = None
        if self.options.mask_same_sentence:
            hidden_NN = sharing(
                *(
                    on_device(types[rows], vectors.device)
                    for types in (self.corpus.src_types, self.corpus.tgt_types)
                )
            )
        src_NH, tgt_NH = vectors.unbind(dim=1)
        return margin_loss(
            src_NH,
            tgt_NH,
            margin=self.options.margin,
            scale=self.options.scale,
            hidden_NN=hidden_NN,
        )
