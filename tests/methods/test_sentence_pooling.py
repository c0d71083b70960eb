"""Vectors of sentences that are trained, from rows without padding, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from raxalign.methods.rows.sentences import tokenise
from raxalign.methods.rows.states import States, pool_sentences, read_states
from raxalign.methods.sentence_margin import SentenceMargin
from tests.methods.toy import toy_encoder

STATES = torch.tensor([[1.0], [2.0], [6.0], [0.0], [3.0], [5.0]])


@pytest.mark.parametrize(
    ("pooling", "trailing", "expected"),
    [
        ("last", 1, [[2.0], [3.0]]),
        ("last", 0, [[6.0], [5.0]]),
        ("last", 7, [[1.0], [3.0]]),
        ("weighted", 1, [[(1 + 4 + 18) / 6], [(3 + 10) / 3]]),
        ("mean", 1, [[3.0], [4.0]]),
        ("cls", 1, [[1.0], [3.0]]),
    ],
)
def test_pieces_are_pooled_within_their_sentences(pooling, trailing, expected):
    """The first sentence has the pieces 1, 2 and 6, the second one after a gap 3 and 5."""
    states = States([STATES], np.array([0, 4]), np.array([3, 2]), trailing)
    assert torch.allclose(pool_sentences(states, pooling), torch.tensor(expected))


def test_rows_know_how_many_special_pieces_end_them(tmp_path):
    encoder = toy_encoder(tmp_path)
    sentences = tokenise(encoder, [[["haus", "sieht"], ["rot"]]], 32)
    states = read_states(encoder, sentences, np.arange(2), (encoder.n_layers,))
    rows = encoder.pieces([["haus", "sieht"], ["rot"]], "de")
    with torch.no_grad():
        alone = torch.stack([encoder.hidden(encoder.collate([row]))[-1][0, -2] for row in rows])
    assert torch.allclose(pool_sentences(states, "last"), alone, atol=1e-5)


def test_the_pooling_of_the_last_layer_is_what_an_encoder_is_read_by_afterwards():
    for options, expected in (
        ({"pooling": "cls"}, "cls"),
        ({}, "mean"),
        ({"layers": "1"}, None),
        ({"layers": "0.5"}, None),
    ):
        method = SentenceMargin(SentenceMargin.Params.model_validate(options))
        assert method.sentence_pooling() == expected
