"""Last-layer states of rows, by one forward pass without padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from raxalign.methods._packing import Packed, can_pack, flat_states, pack

if TYPE_CHECKING:
    import torch

    from raxalign.encoders._transformer import TransformerEncoder


def packed_rows(encoder: TransformerEncoder, ids: np.ndarray, lengths: np.ndarray) -> Packed:
    """Rows laid end to end, packed where the encoder can read them so."""
    pad = int(encoder.tokenizer.pad_token_id or 0)
    return pack(ids, lengths, pad) if can_pack(encoder) else pack(ids, lengths, pad, width=0)


def read_rows(encoder: TransformerEncoder, parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[torch.Tensor, np.ndarray]:
    """(last-layer states (F, H), where each row begins in them) of parts of rows (pieces laid end to end, lengths), by one forward."""
    packed = packed_rows(encoder, np.concatenate([ids for ids, _ in parts]), np.concatenate([lengths for _, lengths in parts]))
    (states_FH,) = flat_states(encoder, packed, (encoder.n_layers,))
    return states_FH, packed.starts_S
