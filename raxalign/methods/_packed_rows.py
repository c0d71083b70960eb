"""Last-layer states of rows, by one forward pass without padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raxalign.encoders.models.packing import can_pack, flat_states, pack
from raxalign.methods.rows.sentences import Rows

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.models.transformer import TransformerEncoder


def read_rows(encoder: TransformerEncoder, parts: Sequence[tuple[Rows, np.ndarray]]) -> tuple[torch.Tensor, np.ndarray]:
    """The last-layer states (F, H) of all rows of several parts, and where each row begins in them; gradient flows.

    A part is rows, and the pieces that the encoder reads in the place of their own (`Masks.applied`, or ``rows.ids``).
    """
    ids, lengths, segments = (
        np.concatenate(arrays) for arrays in ([ids for _, ids in parts], [rows.lengths for rows, _ in parts], [rows.segments for rows, _ in parts])
    )
    width = {} if can_pack(encoder) else {"width": 0}
    packed = pack(ids, lengths, int(encoder.tokenizer.pad_token_id or 0), segments=segments, **width)
    (states_FH,) = flat_states(encoder, packed, (encoder.n_layers,))
    return states_FH, packed.starts_S
