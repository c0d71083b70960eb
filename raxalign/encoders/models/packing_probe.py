"""Sentences that share rows in an encoder, and whether it can: a small forward pass both ways,
compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.encoders.models.flash import Runs, implementation, inputs_of
from raxalign.encoders.models.flash_package import PACKAGE
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
LOCAL = ("local_attention", "sliding_window", "attention_window", "block_size", "axial_pos_shape")
"""Entries of configs by which attention is within a window or of blocks. It is as the whole one in
sentences as short as those of the probe, which would find no difference.
"""
_LONGEST = 512  # the pieces of the widest packed rows, about


def probe(encoder: TransformerEncoder) -> bool:
    """Whether two sentences in one row have the states, at all layers, that they have in a padded
    batch.

    What an encoder cannot do is False too: a mask of four dimensions, positions from outside, a
    language per row. Neither random state nor the model's mode is changed.
    """
    config = encoder.model.config
    if not keeps_positions(encoder) or any(getattr(config, name, None) for name in LOCAL):
        return False
    if implementation(encoder.model) == PACKAGE:  # it takes no mask of pairs of pieces
        return False
    with (
        at_rest(encoder),
        torch.no_grad(),
        torch.autocast(torch.device(encoder.device).type, enabled=False),
    ):
        encoder.precision = "fp32"  # rounding would hide a difference
        try:
            together, apart = _both(encoder)
        except Exception:  # noqa: BLE001 (whatever stops a packed row, padded rows do without)
            return False
    return all(_equal(a, b) for a, b in zip(together, apart, strict=True))


def keeps_positions(encoder: TransformerEncoder) -> bool:
    """Whether nothing but attention could mix up the sentences of a row: neither a language per
    row, nor a row's own positions, which run on from sentence to sentence and could run out.
    """
    limit = getattr(encoder.model.config, "max_position_embeddings", None) or 0
    return not encoder.inputs.has_languages and (
        encoder.inputs.has_positions or not 0 < limit < _LONGEST
    )


@contextmanager
def at_rest(encoder: TransformerEncoder) -> Iterator[None]:
    """The model in eval mode; afterwards its mode, the precision and the random state of the host
    are what they were.
    """
    training, precision = encoder.model.training, encoder.precision
    encoder.model.eval()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            encoder.model.train(training)
            encoder.precision = precision


@dataclass(frozen=True)
class Sample:
    """Random sentences: laid end to end in one row (their pieces, the place of each in its
    sentence, and its sentence), and as a padded batch, of which `mask_BT` are the pieces.
    """

    ids_BT: torch.Tensor
    places_BT: torch.Tensor
    owners_BT: np.ndarray
    padded: Batch

    @classmethod
    def of(cls, encoder: TransformerEncoder, lengths: tuple[int, ...]) -> Sample:
        """Return sentences of some lengths, always the same ones."""
        lengths_S, pad = np.array(lengths), int(encoder.tokenizer.pad_token_id or 0)
        known = np.setdiff1d(np.arange(encoder.model.get_input_embeddings().num_embeddings), [pad])
        ids = np.random.default_rng(0).choice(known, lengths_S.sum())
        mask = np.arange(lengths_S.max()) < lengths_S[:, None]
        apart = np.full(mask.shape, pad, np.int64)
        apart[mask] = ids
        places = np.concatenate([np.arange(n) for n in lengths])
        owners = np.repeat(np.arange(len(lengths)), lengths_S)
        ids_BT, places_BT, apart_BT, mask_BT = (
            torch.from_numpy(part.astype(np.int64)).to(encoder.device)
            for part in (ids[None], places[None], apart, mask)
        )
        none_BT = torch.full_like(apart_BT, -1)
        batch = Batch(apart_BT, mask_BT, torch.zeros_like(apart_BT), none_BT, none_BT, none_BT, ())
        return cls(ids_BT, places_BT, owners[None], batch)

    def together(self, encoder: TransformerEncoder, *, by_runs: bool) -> list[torch.Tensor]:
        """Return the states (F, H) of all layers of the sentences in one row."""
        owners_BT = torch.from_numpy(self.owners_BT).to(encoder.device)
        apart = Runs.of(self.owners_BT, encoder.device) if by_runs else owners_BT
        layers = tuple(range(encoder.n_layers + 1))
        states = packed_states(encoder, self.ids_BT, apart, self.places_BT, None, layers)
        return [state[0] for state in states]

    def apart(self, encoder: TransformerEncoder) -> list[torch.Tensor]:
        """Return those of the padded batch, in the same order."""
        return [state[self.padded.mask_BT.bool()] for state in encoder.hidden(self.padded)]


def _both(encoder: TransformerEncoder) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The states (F, H) of the pieces of two random sentences at all layers: packed, and padded."""
    sample = Sample.of(encoder, _LENGTHS)
    return sample.together(encoder, by_runs=False), sample.apart(encoder)


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
    apart: torch.Tensor | Runs,
    positions_BT: torch.Tensor,
    segments_BT: torch.Tensor | None,
    layers: tuple[int, ...],
) -> list[torch.Tensor]:
    """The hidden states (B, T, H) of some layers, in which a piece sees its sentence alone.

    Args:
        encoder: The encoder; whether it can do this is what a probe of it finds.
        ids_BT: Pieces.
        apart: What keeps sentences apart: the sentence of each piece (B, T) (-1: padding), of which
            a mask is made, or the runs of one sentence.
        positions_BT: The place of each piece in its sentence, from 0.
        segments_BT: Token types; None where all are 0.
        layers: The layers that are asked for.
    """
    base = encoder.model.base_model
    top = encoder.n_layers
    seen = inputs_of(apart) if isinstance(apart, Runs) else {"attention_mask": _mask(base, apart)}
    inputs = {"input_ids": ids_BT, **seen}
    if encoder.inputs.has_positions:
        inputs["position_ids"] = positions_BT + first_position(base)
    if segments_BT is not None:
        inputs["token_type_ids"] = segments_BT
    if layers == (top,):
        return [base(**inputs).last_hidden_state]
    # Hooks of transformers' own `output_hidden_states` would stay, and torch.compile stops at them.
    from raxalign.encoders.models.blocks import watched

    states: list[torch.Tensor] = []
    with watched(base, max(1, *layers), states, {}, None):
        output = base(**inputs)
    if top in layers:
        states[top] = output.last_hidden_state
    return [states[layer] for layer in layers]


def _mask(base: torch.nn.Module, sentences_BT: torch.Tensor) -> torch.Tensor:
    """The mask (B, 1, T, T) that is added to the scores of pairs of pieces."""
    kind = sentences_BT.device.type
    rounds = torch.is_autocast_enabled(kind)
    dtype = torch.get_autocast_dtype(kind) if rounds else next(base.parameters()).dtype
    same_BTT = sentences_BT[:, :, None] == sentences_BT[:, None, :]
    return torch.zeros_like(same_BTT, dtype=dtype).masked_fill_(~same_BTT, torch.finfo(dtype).min)[
        :, None
    ]
