"""Several sentences (or sentence pairs) in one row, each seeing only itself: the forward pass
without padding.

Position ids begin anew with each sentence, and attention keeps sentences apart, so every sentence
has exactly the states that it has alone, by a block-diagonal mask. A probe compares packed with
padded sentences once per encoder: where sentences have other states, rows are padded. Blocks may be
compiled: one graph serves all of a kind, and hooks and what is outside run as always.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from types import MethodType
from typing import Any

from raxalign.encoders.models.blocks import find_blocks, watched
from raxalign.encoders.models.model_inputs import first_position, states_dtype
from raxalign.encoders.models.rows import Rows
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.encoders.models.vectors import Batch
from raxalign.lazy import np, torch
from raxalign.train.devices import forward_as, on_device

WIDTH = 128
"""Pieces per row, about, where sentences share rows."""
_LOCAL = ("local_attention", "sliding_window", "attention_window", "block_size", "axial_pos_shape")
"""Entries of configs by which attention is within a window or of blocks. It is as the whole one in
sentences as short as those of the probe, which would find no difference.
"""
_LONGEST = 512  # the pieces of the widest packed rows, about
_LENGTHS = (5, 8)  # the pieces of the sentences of a probe
_TOLERANCE = 1e-5  # of the norm of the states, in float32
_ROUNDINGS = 100  # how many units of the least precise type in use are rounding, not a difference
_GRAPHS = 64
"""The most graphs per kind of block. Each encoder has some: with and without gradient or dropout,
for one row and for several.
"""


@dataclass(frozen=True)
class Packed:
    """Rows of pieces: `ids_BT`, the place of each piece in its sentence `positions_BT`, and its
    sentence `sentences_BT` (-1: padding). Sentence s has `lengths_S` pieces from `starts_S` on of
    the rows laid end to end; several may share a row where they are `shared`. `segments_BT` are
    token types, which encoders without a second one ignore. `langs_BT` is the language of each
    piece, a number of `languages` (-1: padding; None: it is not known).
    """

    ids_BT: np.ndarray
    positions_BT: np.ndarray
    sentences_BT: np.ndarray
    starts_S: np.ndarray
    lengths_S: np.ndarray
    segments_BT: np.ndarray
    langs_BT: np.ndarray | None
    languages: tuple[str, ...]
    shared: bool


def lay_out(encoder: TransformerEncoder, parts: Sequence[Rows], width: int | None = None) -> Packed:
    """Return all rows of several parts as the encoder reads them, at about `width` pieces per row
    (None: `WIDTH` where it keeps them apart; 0: one per row). The device has no part in it.
    """
    width = (WIDTH if can_pack(encoder) else 0) if width is None else width
    return pack(parts, int(encoder.tokenizer.pad_token_id or 0), width)


def pack(parts: Sequence[Rows], pad: int, width: int = WIDTH) -> Packed:
    """Put sentences (or pairs), the rows of several parts, into as few rows as hold them at about
    `width` pieces each (0: one row per sentence), filled up with the piece `pad`. The longest come
    first, each into the emptiest row, so that hardly any padding is left.
    """
    lengths_S = np.concatenate([rows.lengths for rows in parts])
    rows_S, columns_S, n_rows, used = _layout(lengths_S, width)
    owners = np.repeat(np.arange(len(lengths_S)), lengths_S)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(lengths_S) - lengths_S, lengths_S)
    starts_S = rows_S * used + columns_S
    flat = starts_S[owners] + places

    def placed(values: np.ndarray | Sequence[np.ndarray], filler: int) -> np.ndarray:
        rows_F = np.full(n_rows * used, filler, np.int64)
        rows_F[flat] = np.concatenate(values) if isinstance(values, list) else values
        return rows_F.reshape(n_rows, used)

    names: tuple[str, ...] = ()
    if all(rows.languages for rows in parts):
        names = tuple(dict.fromkeys(name for rows in parts for name in rows.languages))
    langs = [
        np.array([names.index(n) for n in rows.languages])[rows.langs] for rows in parts if names
    ]
    return Packed(
        placed([rows.ids for rows in parts], pad),
        placed(places, 0),
        placed(owners, -1),
        starts_S,
        lengths_S,
        placed([rows.segments for rows in parts], 0),
        placed(langs, -1) if names else None,
        names,
        bool(width),
    )


def fitting_width(lengths_S: np.ndarray, width: int = WIDTH) -> int:
    """The width to give to `pack` for rows that hold at most `width` pieces each, or as many as the
    longest sentence has, with hardly any padding.

    >>> fitting_width(np.array([70, 70, 70]), 128)  # two in one row would leave half of another
    70
    >>> fitting_width(np.array([60, 60, 60, 60]), 128)
    120
    """
    total, widest = int(lengths_S.sum()), max(width, int(lengths_S.max(initial=0)))
    n_rows = -(-total // widest)
    while True:
        fitting = -(-total // max(n_rows, 1))
        if _layout(lengths_S, fitting)[-1] <= widest:
            return fitting
        n_rows += 1


def _layout(lengths_S: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, int, int]:
    """(row, column) of each sentence, the number of rows, and the width of the fullest."""
    rows_S, columns_S = np.arange(len(lengths_S)), np.zeros(len(lengths_S), np.int64)
    if not width:
        return rows_S, columns_S, len(lengths_S), int(lengths_S.max(initial=0))
    filled = [(0, row) for row in range(-(-int(lengths_S.sum()) // width))]
    for s in np.argsort(-lengths_S, kind="stable").tolist():
        used, row = filled[0]
        rows_S[s], columns_S[s] = row, used
        heapq.heapreplace(filled, (used + int(lengths_S[s]), row))
    return rows_S, columns_S, len(filled), max(used for used, _ in filled)


def flat_states(
    encoder: TransformerEncoder, packed: Packed, layers: tuple[int, ...]
) -> list[torch.Tensor]:
    """The hidden states of some layers, (B * T, H) each, by `starts_S`. Gradient flows."""
    if packed.shared:
        with encoder.arithmetic(), compiled_blocks(encoder):
            states = _packed_states(encoder, packed, layers)
        states = [encoder.widened(state) for state in states]
    else:
        hidden = encoder.hidden(one_per_row(encoder, packed), upto=max(layers))
        states = [hidden[layer] for layer in layers]
    return [state.reshape(-1, state.shape[-1]) for state in states]


def one_per_row(encoder: TransformerEncoder, packed: Packed) -> Batch:
    """Rows of one sentence each as a batch, with their languages where they are known."""
    ids_BT = on_device(packed.ids_BT, encoder.device)
    none_BT = torch.full_like(ids_BT, -1)
    langs_BT = none_BT if packed.langs_BT is None else on_device(packed.langs_BT, ids_BT.device)
    segments_BT = _segments(encoder, packed)
    segments_BT = torch.zeros_like(ids_BT) if segments_BT is None else segments_BT
    mask_BT = on_device((packed.sentences_BT >= 0).astype(np.int64), ids_BT.device)
    return Batch(ids_BT, mask_BT, segments_BT, none_BT, none_BT, langs_BT, packed.languages)


def _segments(encoder: TransformerEncoder, packed: Packed) -> torch.Tensor | None:
    """The token types of rows, where the encoder has a second one."""
    inputs = encoder.inputs
    if not inputs.has_segments or inputs.segment_types < 2:
        return None
    return on_device(packed.segments_BT, encoder.device)


def _packed_states(
    encoder: TransformerEncoder, packed: Packed, layers: tuple[int, ...]
) -> list[torch.Tensor]:
    """The hidden states (B, T, H) of some layers, in which a piece sees its sentence alone. Whether
    the encoder can do this is what a probe of it finds.
    """
    base, top, device = encoder.model.base_model, encoder.n_layers, encoder.device
    inputs = {
        "input_ids": on_device(packed.ids_BT, device),
        "attention_mask": _mask(base, on_device(packed.sentences_BT, device)),
    }
    if encoder.inputs.has_positions:
        inputs["position_ids"] = on_device(packed.positions_BT, device) + first_position(base)
    if (segments_BT := _segments(encoder, packed)) is not None:
        inputs["token_type_ids"] = segments_BT
    if layers == (top,):
        return [base(**inputs).last_hidden_state]
    # Hooks of transformers' own `output_hidden_states` would stay, and torch.compile stops at them.
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
    dtype = torch.get_autocast_dtype(kind) if rounds else states_dtype(base)
    same_BTT = sentences_BT[:, :, None] == sentences_BT[:, None, :]
    return torch.zeros_like(same_BTT, dtype=dtype).masked_fill_(~same_BTT, torch.finfo(dtype).min)[
        :, None
    ]


@contextmanager
def compiled_blocks(encoder: TransformerEncoder) -> Iterator[None]:
    """Run the blocks of an encoder as compiled within the block, where it is `compiled`. A block
    that runs again in the backward pass runs again as compiled.
    """
    if not encoder.compiled:
        yield
        return
    found = find_blocks(encoder.model.base_model).parts
    blocks = [block for block in found if not isinstance(block, torch.nn.ModuleList)]
    # Copies of a model must not run the weights of the original, so nothing is left behind.
    with ExitStack() as stack:
        for block in dict.fromkeys(blocks):
            kind: Any = type(block)
            stack.enter_context(forward_as(block, MethodType(_compiled(kind), block)))
        yield


@cache
def _compiled(kind: Any) -> Callable[..., Any]:
    """The forward pass of a class of blocks."""
    from torch.compiler import config  # an argument of torch.compile only from torch 2.13 on

    config.recompile_limit = max(config.recompile_limit, _GRAPHS)
    made: Callable[..., Any] = torch.compile(kind.forward, dynamic=True)
    return made


def can_pack(encoder: TransformerEncoder) -> bool:
    """Whether sentences may share a row, which a probe finds at the first call."""
    if encoder.packs is None:
        encoder.packs = probe(encoder)
    return encoder.packs


def probe(encoder: TransformerEncoder) -> bool:
    """Whether two sentences in one row have the states, at all layers, of a padded batch.

    What an encoder cannot do is False too: a mask of four dimensions, positions from outside, a
    language per row. Neither random state nor the model's mode is changed.
    """
    config, precision = encoder.model.config, encoder.precision
    if not _keeps_positions(encoder) or any(getattr(config, name, None) for name in _LOCAL):
        return False
    # rounding, also that of an autocast around the call, would hide a difference
    plain = torch.autocast(torch.device(encoder.device).type, enabled=False)
    with evaluating(encoder.model), torch.random.fork_rng(devices=[]), plain, torch.no_grad():
        encoder.precision = "fp32"
        try:
            together, apart = _probed(encoder)
        except Exception:  # noqa: BLE001 (whatever stops a packed row, padded rows do without)
            return False
        finally:
            encoder.precision = precision
    return all(_equal(a, b) for a, b in zip(together, apart, strict=True))


def _keeps_positions(encoder: TransformerEncoder) -> bool:
    """Whether nothing but attention could mix up the sentences of a row: neither a language per
    row, nor a row's own positions, which run on from sentence to sentence and could run out.
    """
    limit = getattr(encoder.model.config, "max_position_embeddings", None) or 0
    return not encoder.inputs.has_languages and (
        encoder.inputs.has_positions or not 0 < limit < _LONGEST
    )


def _probed(encoder: TransformerEncoder) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The states (F, H) of all layers of random sentences, always the same ones: in one row, and in
    a padded batch, in the same order.
    """
    sizes, pad = np.array(_LENGTHS), int(encoder.tokenizer.pad_token_id or 0)
    known = np.setdiff1d(np.arange(encoder.model.get_input_embeddings().num_embeddings), [pad])
    ids = np.random.default_rng(0).choice(known, sizes.sum())
    rows = Rows.of(ids, sizes)
    row = pack([rows], pad, sum(_LENGTHS))
    together = _packed_states(encoder, row, tuple(range(encoder.n_layers + 1)))
    places = (torch.from_numpy(part[0]) for part in (row.sentences_BT, row.positions_BT))
    sentence_F, place_F = (part.to(encoder.device) for part in places)
    apart = encoder.hidden(one_per_row(encoder, pack([rows], pad, 0)))
    return [state[0] for state in together], [state[sentence_F, place_F] for state in apart]


def _equal(together_FH: torch.Tensor, apart_FH: torch.Tensor) -> bool:
    """Whether they differ by rounding alone."""
    coarse = torch.finfo(apart_FH.dtype).eps
    if apart_FH.is_cuda and torch.get_float32_matmul_precision() != "highest":
        coarse = max(coarse, torch.finfo(torch.float16).eps)  # TF32 has as many digits
    tolerance = max(_TOLERANCE, min(_ROUNDINGS * coarse, 0.02))
    difference = (together_FH - apart_FH).norm(dim=-1)
    return bool((difference <= tolerance * apart_FH.norm(dim=-1)).all())
