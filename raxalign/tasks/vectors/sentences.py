"""One vector per sentence: the mean of its pieces, its first piece, or the mean of its static word
vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from raxalign.encoders.models.pieces import token_batches
from raxalign.encoders.models.pooling import refuse_infinite
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.encoders.models.vectors import parse_layers
from raxalign.errors import RaxalignError

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.vectors import Batch

Vectors = tuple[torch.Tensor, "np.ndarray"]


@dataclass(frozen=True)
class SentenceReading:
    """How sentences become vectors: the `layers` that are added up, the `mean` of the pieces or the
    first one (`cls`), and whether special pieces are part of the mean.
    """

    layers: str
    pooling: Literal["cls", "mean"]
    specials: bool


@torch.no_grad()
def sentence_vectors(
    aligned: AlignedEncoder, sentences: Sequence[Sequence[str]], lang: str, reading: SentenceReading
) -> Vectors:
    """Return (vectors (S, H) in input order, transforms applied; whether each sentence has a piece
    or word that was read).

    Raises `RaxalignError` for the first piece of an encoder that has none.
    """
    chosen = parse_layers(reading.layers, aligned.n_layers)
    if not isinstance(aligned.encoder, TransformerEncoder):
        if reading.pooling == "cls":
            raise RaxalignError(
                "sentence_retrieval: `pooling: cls` requires a transformer encoder; static vectors"
                " have `pooling: mean`"
            )
        return _mean_of_words(aligned, sentences, lang, reading.layers)
    encoder = aligned.encoder
    rows = encoder.pieces(sentences, lang)
    vectors_SH = torch.zeros(len(rows), encoder.hidden_size, device=encoder.device)
    read = np.array([bool((row.words >= 0).any()) for row in rows], dtype=np.bool_)
    with evaluating(encoder.model):
        for part in token_batches([len(row) for row in rows], encoder.batch_tokens):
            batch = encoder.collate([rows[i] for i in part])
            states = aligned.hidden(batch)
            states_BTH = torch.stack([states[layer] for layer in chosen]).sum(0)
            pooled_BH = _pooled(states_BTH, batch, reading)
            vectors_SH[torch.from_numpy(part).to(encoder.device)] = pooled_BH
    refuse_infinite(vectors_SH, lang)
    return vectors_SH, read


def _pooled(states_BTH: torch.Tensor, batch: Batch, reading: SentenceReading) -> torch.Tensor:
    """The vector of each sentence (B, H)."""
    if reading.pooling == "cls":
        return states_BTH[:, 0]
    mask_BT = (batch.mask_BT if reading.specials else batch.words_BT >= 0).to(states_BTH.dtype)
    return (states_BTH * mask_BT[..., None]).sum(1) / mask_BT.sum(1, keepdim=True).clamp(min=1)


def _mean_of_words(
    aligned: AlignedEncoder, sentences: Sequence[Sequence[str]], lang: str, layers: str
) -> Vectors:
    found = aligned.words(sentences, lang, layers=layers, pooling="mean")
    owners = torch.from_numpy(np.repeat(np.arange(len(sentences)), np.diff(found.offsets))).to(
        found.vectors_NLH.device
    )
    vectors_NH = found.vectors_NLH.sum(1)
    sums_SH = vectors_NH.new_zeros(len(sentences), vectors_NH.shape[1]).index_add(
        0, owners, vectors_NH
    )
    counts_S = torch.bincount(owners[found.present_N], minlength=len(sentences))
    return sums_SH / counts_S.clamp(min=1)[:, None], (counts_S > 0).cpu().numpy()
