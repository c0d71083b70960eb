"""Sentences that share rows in an encoder, and whether it can: a small forward pass both ways,
compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader as lazy

from raxalign.encoders.models.positions import first_position
from raxalign.encoders.models.vectors import Batch

if TYPE_CHECKING:
    import numpy as np
    import torch

    from raxalign.encoders.models.transformer import TransformerEncoder
else:
    np = lazy.load("numpy")
    torch = lazy.load("torch")

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
    language per row. Neither random state nor the model's mode is changed.
    """
    config = encoder.model.config
    if encoder.inputs.has_languages or any(getattr(config, name, None) for name in _LOCAL):
        return False
    if not encoder.inputs.has_positions and (
        0 < (getattr(config, "max_position_embeddings", None) or 0) < _LONGEST
    ):  # a row's own positions run on from sentence to sentence, and could run out
        return False
    device, training = torch.device(encoder.device), encoder.model.training
    precision, encoder.precision = encoder.precision, "fp32"  # rounding would hide a difference
    encoder.model.eval()
    with (
        torch.random.fork_rng(devices=[]),
        torch.no_grad(),
        torch.autocast(device.type, enabled=False),
    ):
        try:
            together, apart = _both(encoder)
        except Exception:  # noqa: BLE001 (whatever stops a packed row, padded rows do without)
            return False
        finally:
            encoder.model.train(training)
            encoder.precision = precision
    return all(_equal(a, b) for a, b in zip(together, apart, strict=True))


def _both(encoder: TransformerEncoder) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The states (F, H) of the pieces of two random sentences at all layers: packed, and padded."""
    lengths_S, pad = np.array(_LENGTHS), int(encoder.tokenizer.pad_token_id or 0)
    known = np.setdiff1d(np.arange(encoder.model.get_input_embeddings().num_embeddings), [pad])
    ids = np.random.default_rng(0).choice(known, lengths_S.sum())
    mask = np.arange(lengths_S.max()) < lengths_S[:, None]
    apart = np.full(mask.shape, pad, np.int64)
    apart[mask] = ids
    places = np.concatenate([np.arange(n) for n in _LENGTHS])
    owners = np.repeat(np.arange(len(_LENGTHS)), lengths_S)
    ids_BT, owners_BT, places_BT, apart_BT, mask_BT = (
        torch.from_numpy(part.astype(np.int64)).to(encoder.device)
        for part in (ids[None], owners[None], places[None], apart, mask)
    )
    none_BT = torch.full_like(apart_BT, -1)
    batch = Batch(apart_BT, mask_BT, torch.zeros_like(apart_BT), none_BT, none_BT, none_BT, ())
    layers = tuple(range(encoder.n_layers + 1))
    together = packed_states(encoder, ids_BT, owners_BT, places_BT, None, layers)
    return [state[0] for state in together], [s[mask_BT.bool()] for s in encoder.hidden(batch)]


def _equal(together_FH: torch.Tensor, apart_FH: torch.Tensor) -> bool:
    """Whether they differ by rounding alone."""
    coarse = torch.finfo(apart_FH.dtype).eps
    if apart_FH.is_cuda and torch.get_float32_matmul_precision() != "highest":
        coarse = max(coarse, torch.finfo(torch.float16).eps)  # TF32 has as many digits
    tolerance = max(_TOLERANCE, min(_ROUNDINGS * coarse, 0.02))
    difference = (together_FH - apart_FH).norm(dim=-1)
    return bool((difference <= tolerance * apart_FH.norm(dim=-1)).all())


def packed_states(
    encoder: TransformerEncoder,
    ids_BT: torch.Tensor,
    sentences_BT: torch.Tensor,
    positions_BT: torch.Tensor,
    segments_BT: torch.Tensor | None,
    layers: tuple[int, ...],
) -> list[torch.Tensor]:
    """The hidden states (B, T, H) of some layers, under a mask by which a piece sees its sentence.

    Args:
        encoder: The encoder; whether it can do this is what a probe of it finds.
        ids_BT: Pieces.
        sentences_BT: The sentence of each piece (-1: padding).
        positions_BT: The place of each piece in its sentence, from 0.
        segments_BT: Token types; None where all are 0.
        layers: The layers that are asked for.
    """
    base = encoder.model.base_model
    kind = ids_BT.device.type
    rounds = torch.is_autocast_enabled(kind)
    dtype = torch.get_autocast_dtype(kind) if rounds else next(base.parameters()).dtype
    same_BTT = sentences_BT[:, :, None] == sentences_BT[:, None, :]
    mask_B1TT = torch.zeros_like(same_BTT, dtype=dtype).masked_fill_(
        ~same_BTT, torch.finfo(dtype).min
    )[:, None]
    top = encoder.n_layers
    inputs = {"input_ids": ids_BT, "attention_mask": mask_B1TT}
    if encoder.inputs.has_positions:
        inputs["position_ids"] = positions_BT + first_position(base)
    if segments_BT is not None:
        inputs["token_type_ids"] = segments_BT
    output = base(**inputs, output_hidden_states=layers != (top,))
    return [
        output.last_hidden_state if layer == top else output.hidden_states[layer]
        for layer in layers
    ]
