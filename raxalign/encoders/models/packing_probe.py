"""Whether the sentences of an encoder may share rows: a small forward pass both ways, compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from raxalign.encoders.models.packing import pack, packed_states
from raxalign.encoders.models.vectors import Batch

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder

_LENGTHS = (5, 8)
_TOLERANCE = 1e-5  # of the norm of the states, in float32
_ROUNDINGS = 100  # how many units of the least precise type in use are rounding, not a difference
# Attention within a window or of blocks is as the whole one in sentences as short as those of the
# probe, so that it would find no difference.
_LOCAL = ("local_attention", "sliding_window", "attention_window", "block_size", "axial_pos_shape")
_LONGEST = 512  # the pieces of the widest packed rows, about


def probe(encoder: TransformerEncoder) -> bool:
    """Whether two sentences in one row have the states, at all layers, that they have in a padded
    batch.

    What an encoder cannot do is False too: a mask of four dimensions, positions from outside, a
    language per row. Random state is not changed. The model has to be in eval mode.
    """
    config = encoder.model.config
    if encoder.inputs.has_languages or any(getattr(config, name, None) for name in _LOCAL):
        return False
    if not encoder.inputs.has_positions and (
        0 < (getattr(config, "max_position_embeddings", None) or 0) < _LONGEST
    ):  # a row's own positions run on from sentence to sentence, and could run out
        return False
    device = torch.device(encoder.device)
    with (
        torch.random.fork_rng(devices=[]),
        torch.no_grad(),
        torch.autocast(device.type, enabled=False),
    ):
        try:
            together, apart = _both(encoder)
        except Exception:  # noqa: BLE001 (whatever stops a packed row, padded rows do without)
            return False
    return all(_equal(a, b) for a, b in zip(together, apart, strict=True))


def _both(encoder: TransformerEncoder) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The states (F, H) of the pieces of two random sentences at all layers: packed, and padded."""
    lengths_S, pad = np.array(_LENGTHS), int(encoder.tokenizer.pad_token_id or 0)
    known = np.setdiff1d(np.arange(encoder.model.get_input_embeddings().num_embeddings), [pad])
    ids = np.random.default_rng(0).choice(known, lengths_S.sum())
    packed = pack(ids, lengths_S, pad, width=int(lengths_S.sum()))
    padded = pack(ids, lengths_S, pad, width=0)
    layers = tuple(range(encoder.n_layers + 1))
    ids_BT, sentences_BT, positions_BT, apart_BT, mask_BT = (
        torch.from_numpy(part).to(encoder.device)
        for part in (
            packed.ids_BT,
            packed.sentences_BT,
            packed.positions_BT,
            padded.ids_BT,
            (padded.sentences_BT >= 0).astype(np.int64),
        )
    )
    none_BT = torch.full_like(apart_BT, -1)
    batch = Batch(apart_BT, mask_BT, torch.zeros_like(apart_BT), none_BT, none_BT, ())
    found = packed_states(encoder, ids_BT, sentences_BT, positions_BT, None, layers)
    together = [_flat(state, packed.starts_S, lengths_S) for state in found]
    apart = [_flat(state, padded.starts_S, lengths_S) for state in encoder.hidden(batch)]
    return together, apart


def _flat(states_BTH: torch.Tensor, starts_S: np.ndarray, lengths_S: np.ndarray) -> torch.Tensor:
    flat = states_BTH.reshape(-1, states_BTH.shape[-1])
    return torch.cat([flat[a : a + n] for a, n in zip(starts_S, lengths_S, strict=True)])


def _equal(together_FH: torch.Tensor, apart_FH: torch.Tensor) -> bool:
    """Whether they differ by rounding alone."""
    coarse = torch.finfo(apart_FH.dtype).eps
    if apart_FH.is_cuda and torch.get_float32_matmul_precision() != "highest":
        coarse = max(coarse, torch.finfo(torch.float16).eps)  # TF32 has as many digits
    tolerance = max(_TOLERANCE, min(_ROUNDINGS * coarse, 0.02))
    difference = (together_FH - apart_FH).norm(dim=-1)
    return bool((difference <= tolerance * apart_FH.norm(dim=-1)).all())
