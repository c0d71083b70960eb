"""From the vectors of pieces to the vectors of words, without a loop over words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from raxalign.arrays import word_pieces
from raxalign.encoders.models.vectors import Pooling
from raxalign.errors import RaxalignError
from raxalign.train.devices import on_device


@dataclass(frozen=True)
class WordIndex:
    """Where the words of a batch are among its pieces (flattened, row after row): the piece k of
    ``pieces_P`` belongs to word ``owners_P[k]`` of ``size``; words that have a piece are
    ``words_M`` (ascending), with ``counts_M`` pieces each. The entries of a word are adjacent; a
    piece that words share has one entry for each of them.
    """

    pieces_P: torch.Tensor
    owners_P: torch.Tensor
    words_M: torch.Tensor
    counts_M: torch.Tensor
    size: int

    def present(self) -> torch.Tensor:
        """Whether each word has a piece, (N,)."""
        present_N = torch.zeros(self.size, dtype=torch.bool, device=self.words_M.device)
        present_N[self.words_M] = True
        return present_N


def index_words(
    words_BT: np.ndarray,
    lasts_BT: np.ndarray,
    counts: Sequence[int],
    device: torch.device | str,
) -> WordIndex:
    """Return the index of a batch. Word w of row b becomes word ``sum(counts[:b]) + w``; a piece
    that several words share counts for each of them.

    Args:
        words_BT: the first word of each piece in its row (-1: none).
        lasts_BT: the last word of each piece.
        counts: the number of words of each row.
        device: the device of the index.
    """
    starts_B = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    pieces_P, words_P = word_pieces(words_BT.reshape(-1), lasts_BT.reshape(-1))
    owners_P = words_P + starts_B[pieces_P // max(words_BT.shape[1], 1)]
    order = np.argsort(owners_P, kind="stable")
    pieces_P, owners_P = pieces_P[order], owners_P[order]
    words_M, counts_M = np.unique(owners_P, return_counts=True)
    pieces, owners, words, sizes = (
        on_device(part.astype(np.int64), device) for part in (pieces_P, owners_P, words_M, counts_M)
    )
    return WordIndex(pieces, owners, words, sizes, int(starts_B[-1]))


def pool_words(states_BTH: torch.Tensor, index: WordIndex, pooling: Pooling) -> torch.Tensor:
    """Vectors of the words of a batch, (N, H); words without a piece are zero. Gradient flows."""
    flat_PH = states_BTH.reshape(-1, states_BTH.shape[-1])[index.pieces_P]
    vectors_NH = flat_PH.new_zeros(index.size, flat_PH.shape[-1])
    if pooling in ("first", "last"):
        ends_M = index.counts_M.cumsum(0)
        chosen_M = ends_M - index.counts_M if pooling == "first" else ends_M - 1
        return vectors_NH.index_copy(0, index.words_M, flat_PH[chosen_M])
    if pooling not in ("mean", "sum"):
        raise ValueError(f"pooling is first, last, mean or sum, not {pooling!r}")
    vectors_NH = vectors_NH.index_add(0, index.owners_P, flat_PH)
    if pooling == "mean":
        sizes_N = vectors_NH.new_ones(index.size).index_copy(
            0, index.words_M, index.counts_M.to(vectors_NH.dtype)
        )
        vectors_NH = vectors_NH / sizes_N[:, None]
    return vectors_NH


def refuse_infinite(vectors: torch.Tensor, lang: str) -> None:
    """Raise `RaxalignError` where vectors of a language are NaN or infinite: their similarities
    would be meaningless.
    """
    if not torch.isfinite(vectors.detach().sum()):
        raise RaxalignError(
            f"the encoder gives vectors with NaN or infinite values for sentences of {lang}: its"
            " weights are too large, as after a training that diverged. Train it again with a"
            " smaller `learning_rate`"
        )
