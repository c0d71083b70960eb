"""GloVe against values worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from raxalign.encoders.training.glove import Glove, GloveTraining, cooccurrences, train_glove


def numbers(*words: int) -> np.ndarray:
    return np.array(words, dtype=np.int64)


def test_neighbours_count_by_one_over_their_distance_within_a_sentence() -> None:
    """a b c | a b: a-b stand 1 apart twice, b-c 1 apart once, a-c 2 apart once; nothing crosses
    from c to the second a.
    """
    found = cooccurrences([numbers(0, 1, 2), numbers(0, 1)], 3, 2).toarray()
    assert found.tolist() == [[0, 2, 0.5], [2, 0, 1], [0.5, 1, 0]]


def test_words_without_a_number_keep_their_place_and_a_word_beside_itself_counts_twice() -> None:
    assert cooccurrences([numbers(0, -1, 1)], 2, 1).nnz == 0
    assert cooccurrences([numbers(0, -1, 1)], 2, 2).toarray().tolist() == [[0, 0.5], [0.5, 0]]
    assert cooccurrences([numbers(0, 0)], 1, 1).toarray().tolist() == [[2.0]]
    assert cooccurrences([], 2, 3).nnz == 0


def test_one_step_by_hand() -> None:
    """w_0 = 2, c_0 = 3, c_1 = 1, biases .5, -1 and 0; x_max 8, alpha .5.

    X_00 = 8: f = 1, gap 6 + .5 - 1 - ln 8; X_01 = 2: f = .5, gap 2 + .5 + 0 - ln 2. AdaGrad from
    (nearly) 0 moves every coordinate that has a gradient by the learning rate, against its sign.
    """
    start = ([[2.0], [7.0]], [[3.0], [1.0]], [0.5, 9.0], [-1.0, 0.0])
    parts = (np.array(part, np.float32) for part in start)
    model = Glove(*parts, x_max=8, alpha=0.5, learning_rate=0.1)
    first, second = 5.5 - math.log(8), 2.5 - math.log(2)
    loss = model.step(numbers(0, 0), numbers(0, 1), np.array([8.0, 2.0]))
    assert loss == pytest.approx((first**2 + 0.5 * second**2) / 2, rel=1e-6)
    assert model.words_VH.ravel().tolist() == pytest.approx([1.9, 7.0], abs=1e-6)
    assert model.contexts_VH.ravel().tolist() == pytest.approx([2.9, 0.9], abs=1e-6)
    assert model.word_bias_V.tolist() == pytest.approx([0.4, 9.0], abs=1e-6)
    assert model.context_bias_V.tolist() == pytest.approx([-1.1, -0.1], abs=1e-6)
    # A second step: the squares of both gradients are under the root.
    w, c0, c1, b, d0, d1 = 1.9, 2.9, 0.9, 0.4, -1.1, -0.1
    pulls = (w * c0 + b + d0 - math.log(8), 0.5 * (w * c1 + b + d1 - math.log(2)))
    before, now = first * 3 + 0.5 * second * 1, pulls[0] * c0 + pulls[1] * c1
    model.step(numbers(0, 0), numbers(0, 1), np.array([8.0, 2.0]))
    assert model.words_VH[0, 0] == pytest.approx(w - 0.1 * now / math.hypot(before, now), abs=1e-5)


def test_a_step_on_many_entries_adds_up_their_gradients_whatever_their_order() -> None:
    def stepped(order: list[int]) -> np.ndarray:
        model = Glove.random(4, 3, np.random.default_rng(0), x_max=5, learning_rate=0.1)
        if order:
            entries = numbers(0, 1, 3, 0), numbers(1, 1, 0, 2), np.array([2.0, 9.0, 1.0, 4.0])
            model.step(*(part[order] for part in entries))
        return model.vectors()

    assert np.allclose(stepped([0, 1, 2, 3]), stepped([3, 1, 0, 2]), atol=1e-6)
    assert (stepped([0, 1, 2, 3])[2] != stepped([])[2]).any()


def test_training_brings_the_products_to_the_logarithms_and_a_seed_is_one_result() -> None:
    rng = np.random.default_rng(1)
    sentences = [rng.integers(0, 6, size=5) for _ in range(60)]
    training = GloveTraining(8, window=3, epochs=150, x_max=10.0, learning_rate=0.1, seed=3)
    vectors, losses = train_glove(sentences, 6, training)
    assert vectors.shape == (6, 8)
    assert losses[-1] < 5e-3 < 0.1 < losses[0]
    assert np.array_equal(vectors, train_glove(sentences, 6, training)[0])
    assert not np.array_equal(vectors, train_glove(sentences, 6, replace(training, seed=4))[0])
