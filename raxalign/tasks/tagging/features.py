"""Features of pieces from an encoder that stays as it is: computed once, kept in memory, or in an
unnamed file where they are large.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from raxalign.encoders.models.pieces import PieceRow, token_batches
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder

_IN_MEMORY = 2 << 30
"""Bytes of features up to which they are kept in memory."""


@dataclass(frozen=True)
class Features:
    """`flat_PH`, float32, the pieces of all rows one after the other; those of row i begin at
    ``offsets[i]``.
    """

    flat_PH: np.ndarray
    offsets: np.ndarray

    def padded(self, chosen: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """(vectors (B, T, H) of the rows `chosen`, zero beyond their ends, and their lengths)."""
        begins, lengths = (
            self.offsets[chosen],
            self.offsets[np.asarray(chosen) + 1] - self.offsets[chosen],
        )
        vectors_BTH = np.zeros(
            (len(chosen), int(lengths.max()), self.flat_PH.shape[1]), dtype=np.float32
        )
        for row, (begin, length) in enumerate(zip(begins, lengths, strict=True)):
            vectors_BTH[row, :length] = self.flat_PH[begin : begin + length]
        return torch.from_numpy(vectors_BTH), torch.from_numpy(lengths)


@torch.no_grad()
def extract(
    aligned: AlignedEncoder,
    rows: Sequence[PieceRow],
    layers: Sequence[int],
    in_memory: int = _IN_MEMORY,
) -> Features:
    """The sum of the layers for every piece, special ones too, each layer after its own readouts;
    eval mode.
    """
    encoder = aligned.encoder
    assert isinstance(encoder, TransformerEncoder)
    lengths = [len(row) for row in rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat_PH = _room((int(offsets[-1]), aligned.hidden_size), in_memory)
    with evaluating(encoder.model):
        for chosen in token_batches(lengths, encoder.batch_tokens):
            states = aligned.hidden(encoder.collate([rows[i] for i in chosen]))
            summed_BTH = (
                torch.stack([states[layer] for layer in layers]).sum(0).float().cpu().numpy()
            )
            for k, i in enumerate(chosen):
                flat_PH[offsets[i] : offsets[i + 1]] = summed_BTH[k, : lengths[i]]
    return Features(flat_PH, offsets)


def _room(shape: tuple[int, int], in_memory: int) -> np.ndarray:
    if 4 * shape[0] * shape[1] <= in_memory:
        return np.empty(shape, dtype=np.float32)
    with tempfile.TemporaryFile(
        prefix="raxalign-"
    ) as file:  # the mapping outlives the file's name and handle
        return np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
