"""Special pieces as words: two more at the end of every sentence, linked across the pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from raxalign.encoders.models.pieces import token_batches
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.encoders.models.vectors import parse_layers
from raxalign.errors import RaxalignError
from raxalign.tasks.vectors.linked_words import Bools, LinkedWords, Words

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder

SPECIALS = ("[CLS]", "[SEP]")
"""The names of the first and the last piece, whatever the encoder calls them."""


def link_specials(pairs: LinkedWords) -> LinkedWords:
    """Return the pairs with both specials after the words of every sentence, each linked to its
    counterpart on the other side.
    """
    rows = np.arange(len(pairs.ids))
    src, tgt = (
        Words([[*sentence, *SPECIALS] for sentence in side.sentences])
        for side in (pairs.src, pairs.tgt)
    )
    links = []
    for old, words, side in ((pairs.src_word, src, pairs.src), (pairs.tgt_word, tgt, pairs.tgt)):
        moved = old + len(SPECIALS) * side.row[old]
        links.append(np.concatenate([moved, words.offsets[1:] - 2, words.offsets[1:] - 1]))
    return LinkedWords(
        pairs.ids, src, tgt, np.concatenate([pairs.row, rows, rows]), links[0], links[1]
    )


@torch.no_grad()
def add_specials(
    aligned: AlignedEncoder,
    words: Words,
    lang: str,
    vectors_NH: torch.Tensor,
    read: Bools,
    layers: str,
) -> tuple[torch.Tensor, Bools]:
    """Add the vectors of the specials, of `layers` added up, after those of each sentence's words.

    `vectors_NH` are those of `words`, and `read` (N,) marks the words that have one. Returns both
    as `link_specials` numbers the words. Raises `RaxalignError` for an encoder without special
    pieces.
    """
    encoder = aligned.encoder
    if not isinstance(encoder, TransformerEncoder):
        raise RaxalignError(
            "retrieval: `specials: include` requires a transformer encoder; static vectors have no"
            " special pieces"
        )
    chosen = parse_layers(layers, aligned.n_layers)
    count, offsets = len(words.sentences), words.offsets
    wide_MH = vectors_NH.new_zeros(len(vectors_NH) + 2 * count, vectors_NH.shape[1])
    wide_MH[torch.from_numpy(np.arange(len(vectors_NH)) + 2 * words.row).to(wide_MH.device)] = (
        vectors_NH
    )
    first = torch.from_numpy(offsets[1:] + 2 * np.arange(count)).to(wide_MH.device)
    rows = encoder.pieces(words.sentences, lang)
    with evaluating(encoder.model):
        for part in token_batches([len(row) for row in rows], encoder.batch_tokens):
            batch = encoder.collate([rows[i] for i in part])
            states = aligned.hidden(batch)
            states_BTH = torch.stack([states[layer] for layer in chosen]).sum(0)
            where, last_B = first[torch.from_numpy(part).to(first.device)], batch.mask_BT.sum(1) - 1
            wide_MH[where] = states_BTH[:, 0]
            wide_MH[where + 1] = states_BTH[torch.arange(len(part), device=last_B.device), last_B]
    wide_read = np.ones(len(wide_MH), dtype=np.bool_)
    wide_read[np.arange(len(read)) + 2 * words.row] = read
    return wide_MH, wide_read
