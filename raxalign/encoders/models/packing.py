"""Several sentences (or sentence pairs) in one row, each seeing only itself: the forward pass
without padding.

Position ids begin anew with each sentence, and attention keeps sentences apart, so every sentence
has exactly the states that it has alone: by kernels that take the places where sentences begin
(`flash`), or else by a block-diagonal mask. Encoders in which a probe finds that a sentence has
others are run padded (`packing_probe`).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.encoders.models.compiling import compiled_blocks
from raxalign.encoders.models.flash import Runs, has_kernels
from raxalign.encoders.models.flash_probe import probe_runs
from raxalign.encoders.models.packing_probe import packed_states, probe
from raxalign.encoders.models.spoken import Spoken
from raxalign.encoders.models.vectors import Batch
from raxalign.errors import RaxalignError
from raxalign.train.devices import on_device

if TYPE_CHECKING:
    import numpy as np
    import torch

    from raxalign.encoders.models.transformer import TransformerEncoder
else:
    np = lazy.load("numpy")
    torch = lazy.load("torch")

WIDTH = 128
"""Pieces per row, about, where sentences share rows."""


@dataclass(frozen=True)
class Packed:
    """Rows of pieces: `ids_BT`, the place of each piece in its sentence `positions_BT`, and its
    sentence `sentences_BT` (-1: padding). Sentence s begins at `starts_S` of the rows laid end to
    end. `segments_BT` are token types (None: all 0), which encoders without a second one ignore.
    `langs_BT` is the language of each piece, a number of `languages` (-1: padding; None: it is not
    known).
    """

    ids_BT: np.ndarray
    positions_BT: np.ndarray
    sentences_BT: np.ndarray
    starts_S: np.ndarray
    segments_BT: np.ndarray | None = None
    langs_BT: np.ndarray | None = None
    languages: tuple[str, ...] = ()

    def langs_on(self, device: str) -> torch.Tensor:
        """The language of each piece (B * T,) on a device. Raises `RaxalignError` where it is not
        known.
        """
        if self.langs_BT is None:
            raise RaxalignError("transforms of packed rows need the language of each piece")
        return on_device(self.langs_BT, device).reshape(-1)


def can_pack(encoder: TransformerEncoder) -> bool:
    """Whether sentences may share a row, which a probe finds at the first call."""
    if attends_by_runs(encoder):
        return True
    if encoder.packs is None:
        encoder.packs = probe(encoder)
    return encoder.packs


def attends_by_runs(encoder: TransformerEncoder) -> bool:
    """Whether packed rows attend by the places where sentences begin, without a mask: where the
    device has kernels for it, and a probe at the first call finds that they do the same.
    """
    if not has_kernels(encoder.model, encoder.precision, encoder.device):
        return False
    if encoder.by_runs is None:
        encoder.by_runs = probe_runs(encoder)
    return encoder.by_runs


def pack(
    ids: np.ndarray,
    lengths_S: np.ndarray,
    pad: int,
    width: int = WIDTH,
    segments: np.ndarray | None = None,
    spoken: Spoken | None = None,
) -> Packed:
    """Put sentences into as few rows as hold them at about `width` pieces each. The longest come
    first, each into the emptiest row, so that hardly any padding is left.

    Args:
        ids: the pieces of the sentences, laid end to end.
        lengths_S: the number of pieces of each sentence.
        pad: the piece that fills rows up.
        width: pieces per row; 0: one row per sentence.
        segments: the token type of each piece, for sentence pairs.
        spoken: the language of each piece, where it is known.
    """
    rows_S, columns_S, n_rows, used = _layout(lengths_S, width)
    owners = np.repeat(np.arange(len(lengths_S)), lengths_S)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(lengths_S) - lengths_S, lengths_S)
    starts_S = rows_S * used + columns_S
    flat = starts_S[owners] + places

    def placed(values: np.ndarray, filler: int) -> np.ndarray:
        rows_F = np.full(n_rows * used, filler, np.int64)
        rows_F[flat] = values
        return rows_F.reshape(n_rows, used)

    return Packed(
        placed(ids, pad),
        placed(places, 0),
        placed(owners, -1),
        starts_S,
        None if segments is None else placed(segments, 0),
        None if spoken is None else placed(spoken.numbers, -1),
        () if spoken is None else spoken.names,
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
    if not width:
        return _a_row_each(lengths_S)
    return _spread(lengths_S, -(-int(lengths_S.sum()) // width))


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
        on_device(part, encoder.device) for part in (packed.ids_BT, packed.sentences_BT)
    )
    segments_BT = None
    if (
        packed.segments_BT is not None
        and encoder.inputs.has_segments
        and (encoder.model.config.type_vocab_size or 0) > 1
    ):
        segments_BT = on_device(packed.segments_BT, encoder.device)
    if can_pack(encoder):
        positions_BT = on_device(packed.positions_BT, encoder.device)
        by_runs = attends_by_runs(encoder)
        apart = Runs.of(packed.sentences_BT, encoder.device) if by_runs else sentences_BT
        with encoder.arithmetic(), compiled_blocks(encoder):
            states = packed_states(encoder, ids_BT, apart, positions_BT, segments_BT, layers)
        states = [encoder.widened(state) for state in states]
    else:
        batch = _padded(packed, ids_BT, sentences_BT, segments_BT)
        hidden = encoder.hidden(batch, upto=max(layers))
        states = [hidden[layer] for layer in layers]
    return [state.reshape(-1, state.shape[-1]) for state in states]


def _padded(
    packed: Packed,
    ids_BT: torch.Tensor,
    sentences_BT: torch.Tensor,
    segments_BT: torch.Tensor | None,
) -> Batch:
    """Rows of one sentence each as a batch, with their languages where they are known."""
    none_BT = torch.full_like(ids_BT, -1)
    langs_BT = none_BT
    if packed.langs_BT is not None:
        langs_BT = on_device(packed.langs_BT, ids_BT.device)
    return Batch(
        ids_BT,
        (sentences_BT >= 0).long(),
        torch.zeros_like(ids_BT) if segments_BT is None else segments_BT,
        none_BT,
        none_BT,
        langs_BT,
        packed.languages,
    )
