"""Word vectors that come batch by batch, put back into input order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from raxalign.encoders.models.vectors import WordVectors


def word_offsets(sentences: Sequence[Sequence[str]]) -> list[int]:
    """Where each sentence's words begin among all words, and the end: one more than there are
    sentences.
    """
    return [0, *np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64).tolist()]


def assemble(
    sentences: Sequence[Sequence[str]],
    batches: Iterable[tuple[Sequence[int], WordVectors]],
    n_layers: int,
    hidden_size: int,
) -> WordVectors:
    """One `WordVectors` in the order of `sentences` from `Encoder.iter_words`, on the device of the
    first batch.

    `n_layers` is the number of layers that were asked for. Sentences that are in no batch keep zero
    vectors and `present_N` False.
    """
    offsets = word_offsets(sentences)
    vectors_NLH = torch.zeros(offsets[-1], n_layers, hidden_size)
    present_N = torch.zeros(offsets[-1], dtype=torch.bool)
    for k, (indices, part) in enumerate(batches):
        if k == 0:
            vectors_NLH, present_N = (
                vectors_NLH.to(part.vectors_NLH.device),
                present_N.to(part.present_N.device),
            )
        rows = (
            np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in indices])
            if len(indices)
            else np.empty(0, dtype=np.int64)
        )
        where = torch.from_numpy(rows).to(vectors_NLH.device)
        vectors_NLH[where] = part.vectors_NLH
        present_N[where.to(present_N.device)] = part.present_N
    return WordVectors(vectors_NLH, offsets, present_N)
