"""Several sentences (or sentence pairs) in one row, each seeing only itself: the forward pass
without padding.

Position ids begin anew with each sentence, and a block-diagonal mask keeps sentences apart, so
every sentence has exactly the states that it has alone. Encoders in which a probe finds that it has
others are run padded (`packing_probe`).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import lazy_loader as lazy
import numpy as np

from raxalign.encoders.models.packing_probe import packed_states, probe
from raxalign.encoders.models.vectors import Batch

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.models.transformer import TransformerEncoder
else:
    torch = lazy.load("torch")

_WIDTH = 128


@dataclass(frozen=True)
class Packed:
    """Rows of pieces: `ids_BT`, the place of each piece in its sentence `positions_BT`, and its
    sentence `sentences_BT` (-1: padding). Sentence s begins at `starts_S` of the rows laid end to
    end. `segments_BT` are token types (None: all 0), which encoders without a second one ignore.
    """

    ids_BT: np.ndarray
    positions_BT: np.ndarray
    sentences_BT: np.ndarray
    starts_S: np.ndarray
    segments_BT: np.ndarray | None = None


def can_pack(encoder: TransformerEncoder) -> bool:
    """Whether sentences may share a row, which a probe finds at the first call."""
    if encoder.packs is None:
        encoder.packs = probe(encoder)
    return encoder.packs


def pack(
    ids: np.ndarray,
    lengths_S: np.ndarray,
    pad: int,
    width: int = _WIDTH,
    segments: np.ndarray | None = None,
) -> Packed:
    """Put sentences, laid end to end in `ids`, into as few rows as hold them at about `width`
    pieces each; width 0: one row per sentence.

    For sentence pairs `segments` holds the token type of each piece.

    The longest come first, each into the emptiest row, so that rows are filled evenly and hardly
    any padding is left.
    """
    rows_S, columns_S, n_rows, used = (
        _spread(lengths_S, -(-int(lengths_S.sum()) // width)) if width else _a_row_each(lengths_S)
    )
    owners = np.repeat(np.arange(len(lengths_S)), lengths_S)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(lengths_S) - lengths_S, lengths_S)
    starts_S = rows_S * used + columns_S
    flat = starts_S[owners] + places
    ids_F = np.full(n_rows * used, pad, np.int64)
    positions_F, sentences_F = (
        np.zeros(n_rows * used, np.int64),
        np.full(n_rows * used, -1, np.int64),
    )
    ids_F[flat], positions_F[flat], sentences_F[flat] = ids, places, owners
    segments_F = np.zeros(n_rows * used, np.int64)
    if segments is not None:
        segments_F[flat] = segments
    ids_BT, positions_BT, sentences_BT, segments_BT = (
        part.reshape(n_rows, used) for part in (ids_F, positions_F, sentences_F, segments_F)
    )
    return Packed(
        ids_BT, positions_BT, sentences_BT, starts_S, None if segments is None else segments_BT
    )


def _spread(lengths_S: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray, int, int]:
    """(row, column) of each sentence, the number of rows, and the width of the fullest."""
    rows_S, columns_S = np.zeros(len(lengths_S), np.int64), np.zeros(len(lengths_S), np.int64)
    filled = [(0, row) for row in range(n_rows)]
    for s in np.argsort(-lengths_S, kind="stable").tolist():
        used, row = filled[0]
        rows_S[s], columns_S[s] = row, used
        heapq.heapreplace(filled, (used + int(lengths_S[s]), row))
    return rows_S, columns_S, n_rows, max(used for used, _ in filled)


def _a_row_each(lengths_S: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, int]:
    return (
        np.arange(len(lengths_S)),
        np.zeros(len(lengths_S), np.int64),
        len(lengths_S),
        int(lengths_S.max(initial=0)),
    )


def flat_states(
    encoder: TransformerEncoder, packed: Packed, layers: tuple[int, ...]
) -> list[torch.Tensor]:
    """The hidden states of some layers, (B * T, H) each, in the order of `starts_S`. Gradient
    flows.
    """
    ids_BT, sentences_BT = (
        torch.from_numpy(part).to(encoder.device) for part in (packed.ids_BT, packed.sentences_BT)
    )
    segments_BT = None
    if (
        packed.segments_BT is not None
        and encoder.inputs.has_segments
        and (encoder.model.config.type_vocab_size or 0) > 1
    ):
        segments_BT = torch.from_numpy(packed.segments_BT).to(encoder.device)
    if can_pack(encoder):
        positions_BT = torch.from_numpy(packed.positions_BT).to(encoder.device)
        states = packed_states(encoder, ids_BT, sentences_BT, positions_BT, segments_BT, layers)
    else:
        mask_BT, none_BT = (sentences_BT >= 0).long(), torch.full_like(ids_BT, -1)
        batch = Batch(
            ids_BT,
            mask_BT,
            torch.zeros_like(ids_BT) if segments_BT is None else segments_BT,
            none_BT,
            none_BT,
            none_BT,
            (),
        )
        hidden = encoder.hidden(batch, upto=max(layers))
        states = [hidden[layer] for layer in layers]
    return [state.reshape(-1, state.shape[-1]) for state in states]
