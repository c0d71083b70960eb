"""The states that the heads of tasks read: of rows that share the encoder's rows wherever they can,
so that hardly any padding is computed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.packing import Packed, can_pack, fitting_width, pack
from raxalign.encoders.models.pieces import Padded, PieceRow
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Spoken
from raxalign.train.devices import on_device


@dataclass(frozen=True)
class RowStates:
    """The last layer's states of some rows, end to end with padding between them: `states_FH`, of
    which row s has ``lengths_S[s]`` from ``starts_S[s]`` on.
    """

    states_FH: torch.Tensor
    starts_S: np.ndarray
    lengths_S: np.ndarray

    def at(self, places: np.ndarray) -> torch.Tensor:
        """The states (..., H) at some places of `states_FH`."""
        return self.states_FH[on_device(places, self.states_FH.device)]


def padded_places(starts_S: np.ndarray, lengths_S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of the pieces of each row (S, T), and which of them there are (S, T); the others
    have the place of the row's first piece.
    """
    steps_T = np.arange(int(lengths_S.max(initial=0)))
    there_ST = steps_T < lengths_S[:, None]
    return starts_S[:, None] + np.where(there_ST, steps_T, 0), there_ST


def shares_rows(aligned: AlignedEncoder, languages: Collection[str]) -> bool:
    """Whether several rows of these languages can go through the encoder as one: it keeps them
    apart, and no inside transform applies to them.
    """
    encoder = aligned.encoder
    return (
        isinstance(encoder, TransformerEncoder)
        and not any(transform.lang in languages for transform in aligned.active("inside"))
        and can_pack(encoder)
    )


@dataclass(frozen=True)
class RowLayout:
    """Rows as an encoder reads them, packed or padded, and where they will be in its states: row s
    has ``lengths_S[s]`` of them from ``starts_S[s]`` on.
    """

    read: Packed | Padded
    starts_S: np.ndarray
    lengths_S: np.ndarray


def lay_out(aligned: AlignedEncoder, rows: Sequence[PieceRow]) -> RowLayout:
    """Returns rows packed where `shares_rows` holds, else padded. The device has no part in it."""
    encoder = aligned.encoder
    assert isinstance(encoder, TransformerEncoder)
    lengths_S = np.array([len(row) for row in rows], np.int64)
    if shares_rows(aligned, {lang for row in rows for lang in row.languages}):
        packed = _packed(encoder, rows, lengths_S)
        return RowLayout(packed, packed.starts_S, lengths_S)
    filler = int(encoder.tokenizer.pad_token_id or 0)
    padded = Padded.of(rows, filler, encoder.inputs.segment_types)
    return RowLayout(padded, np.arange(len(rows)) * padded.ids_BT.shape[1], lengths_S)


def states_of(aligned: AlignedEncoder, layout: RowLayout) -> RowStates:
    """Returns the last layer's states of rows by one forward pass, transformed by the language of
    each piece. Gradient flows; dropout follows the model's mode.
    """
    if isinstance(layout.read, Packed):
        states_FH = aligned.packed_hidden(layout.read)
    else:
        states_FH = aligned.hidden(layout.read.on(aligned.device))[-1].flatten(0, 1)
    return RowStates(states_FH, layout.starts_S, layout.lengths_S)


def _packed(encoder: TransformerEncoder, rows: Sequence[PieceRow], lengths_S: np.ndarray) -> Packed:
    """The rows as few rows of about equal width."""
    names = tuple(dict.fromkeys(lang for row in rows for lang in row.languages))
    number = {name: i for i, name in enumerate(names)}
    langs_S2 = np.array([(number[row.languages[0]], number[row.languages[-1]]) for row in rows])
    owners_P = np.repeat(np.arange(len(rows)), lengths_S)
    segments_P = np.concatenate([row.segments for row in rows])
    return pack(
        np.concatenate([row.ids for row in rows]),
        lengths_S,
        int(encoder.tokenizer.pad_token_id or 0),
        fitting_width(lengths_S),
        segments_P,
        Spoken(names, langs_S2[owners_P, segments_P]),
    )
