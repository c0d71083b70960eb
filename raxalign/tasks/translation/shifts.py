"""Tokens out of a masked LM whose stream is shifted after one block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from raxalign.arrays import Ints
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.blocks import recorded, replayable, replayed
from raxalign.encoders.models.pieces import PieceRow, read_template, token_batches
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.encoders.models.vectors import Batch

_HEAD_ROWS = 1024
"""Positions that the masked-LM head reads at once: its scores are as wide as the vocabulary."""


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
    """Return the encoder with its inside transforms alone: the head never reads readouts."""
    return replace(aligned, transforms=tuple(t for t in aligned.transforms if t.sort == "inside"))


@torch.no_grad()
def translate(
    stream: AlignedEncoder,
    rows: Sequence[PieceRow],
    lang: str,
    shifts: Mapping[Shift, torch.Tensor],
) -> dict[Shift, list[Ints]]:
    """Return the likeliest piece at every position of each row but those of special pieces, for
    each shift: what is added to the stream (H,), after the block that its key names.

    Nothing is masked. Rows stay in their order. The blocks below a shift run once for all shifts
    where the architecture allows it. The encoder has inside transforms alone.
    """
    encoder = stream.encoder
    assert isinstance(encoder, TransformerEncoder)
    found = {shift: [np.zeros(0, np.int64)] * len(rows) for shift in shifts}
    template = read_template(encoder.tokenizer)
    with evaluating(encoder.model):
        for chosen in token_batches([len(row) for row in rows], encoder.batch_tokens):
            batch = encoder.collate([rows[i] for i in chosen])
            places_T = torch.arange(batch.mask_BT.shape[1], device=batch.mask_BT.device)
            ends_B1 = batch.mask_BT.sum(1, keepdim=True) - len(template.after_single)
            # Neither padding nor what the tokenizer adds around a sentence.
            kept_BT = (places_T >= len(template.before)) & (places_T < ends_B1)
            ends = np.cumsum(kept_BT.sum(1).cpu().numpy())[:-1]
            for shift, states_BTH in _shifted(stream, batch, lang, shifts):
                parts = torch.split(states_BTH[kept_BT], _HEAD_ROWS)
                ids_P = torch.cat([encoder.lm_logits(part).argmax(-1) for part in parts])
                rows_ids = np.split(ids_P.cpu().numpy(), ends)
                for place, ids in zip(chosen.tolist(), rows_ids, strict=True):
                    found[shift][place] = ids
    return found


def _shifted(
    stream: AlignedEncoder, batch: Batch, lang: str, shifts: Mapping[Shift, torch.Tensor]
) -> Iterator[tuple[Shift, torch.Tensor]]:
    """Yield the last layer's states (B, T, H) under each shift."""
    encoder = stream.encoder
    assert isinstance(encoder, TransformerEncoder)
    base, outputs = encoder.model.base_model, list[Any]()
    if len(shifts) > 1 and replayable(base):
        highest = max(shift.layer for shift in shifts)
        with recorded(base, highest) as outputs:
            encoder.hidden(batch, edits=stream.edits(), upto=highest)
    for shift, step_H in shifts.items():
        step = Transform(lang, shift.layer, "inside", (Affine(shift=step_H),))
        shifted = replace(stream, transforms=(*stream.transforms, step))
        with replayed(base, outputs[: shift.layer]):
            states_BTH = shifted.hidden(batch)[-1]
        yield shift, states_BTH
