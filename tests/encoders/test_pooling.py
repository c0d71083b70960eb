from __future__ import annotations

import numpy as np
import pytest
import torch

from raxalign.encoders.models.vectors import index_words, pool_words

# Two rows: word 0 has pieces 1 and 2, word 1 none, word 2 piece 3; the second row's word 0 has
# piece 1.
WORDS = np.array([[-1, 0, 0, 2, -1], [-1, 0, -1, -1, -1]])
STATES = torch.tensor(
    [[[9.0, 9], [1, 2], [3, 6], [5, 5], [9, 9]], [[9, 9], [7, 8], [9, 9], [0, 0], [0, 0]]]
)
EXPECTED = {
    "first": [[1.0, 2], [0, 0], [5, 5], [7, 8]],
    "last": [[3.0, 6], [0, 0], [5, 5], [7, 8]],
    "mean": [[2.0, 4], [0, 0], [5, 5], [7, 8]],
    "sum": [[4.0, 8], [0, 0], [5, 5], [7, 8]],
}


@pytest.mark.parametrize("pooling", EXPECTED)
def test_pooling_is_what_one_computes_by_hand(pooling: str) -> None:
    index = index_words(WORDS, WORDS, [3, 1], "cpu")
    assert pool_words(STATES, index, pooling).tolist() == EXPECTED[pooling]
    assert index.present().tolist() == [True, False, True, True]


@pytest.mark.parametrize("pooling", EXPECTED)
def test_gradient_flows_to_the_pieces_that_were_read(pooling: str) -> None:
    states = STATES.clone().requires_grad_()
    pool_words(states, index_words(WORDS, WORDS, [3, 1], "cpu"), pooling).sum().backward()
    shares = {"first": (1.0, 0.0), "last": (0.0, 1.0), "mean": (0.5, 0.5), "sum": (1.0, 1.0)}
    assert states.grad[0, :, 0].tolist() == [0.0, *shares[pooling], 1.0, 0.0]


def test_no_word_at_all_is_no_vector() -> None:
    index = index_words(np.full((2, 2), -1), np.full((2, 2), -1), [0, 0], "cpu")
    assert pool_words(torch.zeros(2, 2, 4), index, "mean").shape == (0, 4)
    with pytest.raises(ValueError, match="median"):
        pool_words(torch.zeros(2, 2, 4), index, "median")
