"""Tokens out of a masked LM whose stream is shifted after one block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import PieceRow, Template, read_template, token_batches
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.encoders.models.transforms import Affine, Transform

if TYPE_CHECKING:
    from raxalign.encoders.models.vectors import Batch

_HEAD_ROWS = 1024
"""Positions that the masked-LM head reads at once: its scores are as wide as the vocabulary."""

Ints = npt.NDArray[np.int64]


class Shift(NamedTuple):
    """One setting of the sweep: the `layer` after whose block the stream is shifted, and the weight
    `alpha` of the difference of the language means.
    """

    layer: int
    alpha: float

    @property
    def prefix(self) -> str:
        """The beginning of the names of its metrics."""
        return f"layer{self.layer}_alpha{self.alpha:g}_"


def stream_of(aligned: AlignedEncoder) -> AlignedEncoder:
    """Return the encoder with its inside transforms alone, because the masked-LM head never reads
    readouts.
    """
    return replace(aligned, transforms=tuple(t for t in aligned.transforms if t.sort == "inside"))


@torch.no_grad()
def translate(
    stream: AlignedEncoder, rows: Sequence[PieceRow], lang: str, layer: int, shift_H: torch.Tensor
) -> list[Ints]:
    """Return the likeliest piece at every position of each row but those of special pieces.

    Nothing is masked. Rows stay in their order.

    Args:
        stream: the encoder, with inside transforms alone.
        rows: the sentences as the encoder reads them.
        lang: their language.
        layer: the block after which the stream is shifted.
        shift_H: what is added to the stream.
    """
    encoder = stream.encoder
    assert isinstance(encoder, TransformerEncoder)
    shifted = replace(
        stream,
        transforms=(*stream.transforms, Transform(lang, layer, "inside", (Affine(shift=shift_H),))),
    )
    found = [np.zeros(0, np.int64)] * len(rows)
    template = read_template(encoder.tokenizer)
    with evaluating(encoder.model):
        for chosen in token_batches([len(row) for row in rows], encoder.batch_tokens):
            batch = encoder.collate([rows[i] for i in chosen])
            kept_BT = _inner(template, batch)
            ids_P = _likeliest(encoder, shifted.hidden(batch)[-1][kept_BT])
            ends = np.cumsum(kept_BT.sum(1).cpu().numpy())[:-1]
            for place, ids in zip(
                chosen.tolist(), np.split(ids_P.cpu().numpy(), ends), strict=True
            ):
                found[place] = ids
    return found


def _inner(template: Template, batch: Batch) -> torch.Tensor:
    """Mark the positions (B, T) that hold a piece of the text: neither padding nor what the
    tokenizer adds around a sentence.
    """
    lengths_B1 = batch.mask_BT.sum(1, keepdim=True)
    places_T = torch.arange(batch.mask_BT.shape[1], device=batch.mask_BT.device)
    return (places_T >= len(template.before)) & (places_T < lengths_B1 - len(template.after_single))


def _likeliest(encoder: TransformerEncoder, states_PH: torch.Tensor) -> torch.Tensor:
    """Return the best piece of every state, (P,)."""
    parts = [encoder.lm_logits(part).argmax(-1) for part in torch.split(states_PH, _HEAD_ROWS)]
    return torch.cat(parts)
