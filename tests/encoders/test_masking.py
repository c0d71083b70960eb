"""Masks of a pre-training, and GloVe against values worked by hand."""

import math
from itertools import product

import numpy as np
import pytest

from raxalign.encoders.models.masking import MaskRule
from raxalign.encoders.models.rows import Rows
from raxalign.encoders.static import Glove, Static, cooccurrences, train_glove
from raxalign.errors import RaxalignError
from raxalign.train.objective import Step
from tests.methods.toy import toy_encoder

# Of the vocabulary 0-99 the pieces 0-4 are special, and 4 is the mask.
RULE = MaskRule(0.15, 4, np.arange(5, 100), np.arange(100) >= 5)


def batch(lengths, seed=0):
    """Rows [2, random pieces, 3]."""
    rng = np.random.default_rng(seed)
    rows = [np.concatenate([[2], rng.integers(5, 100, n - 2), [3]]) for n in lengths]
    ids = np.concatenate(rows).astype(np.int32)
    return Rows.of(ids, np.array(lengths))


def test_the_share_is_of_all_pieces_that_are_not_special():
    rows = batch([30, 12, 60, 2])  # 28 + 10 + 58 + 0 pieces
    masks = RULE.choose(rows, np.random.default_rng(1))
    assert (len(masks.places), masks.total) == (14, 14)  # 14.4
    assert np.diff(masks.offsets).sum() == 14
    assert len(set(masks.flat(rows.offsets).tolist())) == 14


@pytest.mark.parametrize("within", ["batch", "row"])
def test_special_pieces_are_never_masked_and_targets_are_what_stood_there(within):
    rows = batch([9, 2, 14, 3] * 50)
    for seed in range(20):
        masks = RULE.choose(rows, np.random.default_rng(seed), within=within)
        flat = masks.flat(rows.offsets)
        assert (rows.ids[flat] >= 5).all()
        assert masks.targets.tolist() == rows.ids[flat].tolist()
        changed = masks.applied(rows).ids
        assert changed[flat].tolist() == masks.inputs.tolist()
        untouched = np.setdiff1d(np.arange(len(rows.ids)), flat)
        assert changed[untouched].tolist() == rows.ids[untouched].tolist()


def test_of_the_masked_80_are_the_mask_10_random_and_10_as_they_were():
    rows = batch([1002] * 40)
    masks = RULE.choose(rows, np.random.default_rng(0))
    n = masks.total
    assert n == 6000
    is_mask = (masks.inputs == 4).mean()
    same = (masks.inputs == masks.targets).mean()
    # Four standard deviations; a random piece is the same one in 95 draws.
    assert abs(is_mask - 0.8) < 4 * np.sqrt(0.16 / n)
    assert abs(same - (0.1 + 0.1 / 95)) < 4 * np.sqrt(0.09 / n)
    strange = masks.inputs[(masks.inputs != 4) & (masks.inputs != masks.targets)]
    assert (strange.min(), strange.max()) == (5, 99)


def test_every_piece_is_as_likely_as_another():
    rows = batch([12, 4, 22])  # 10 + 2 + 20 pieces: 5 of 32
    hits, draws = np.zeros(len(rows.ids)), 400
    for seed in range(draws):
        hits[RULE.choose(rows, np.random.default_rng(seed)).flat(rows.offsets)] += 1
    rate = hits[rows.ids >= 5] / draws
    assert np.abs(rate - 5 / 32).max() < 5 * np.sqrt(5 / 32 * 27 / 32 / draws)


def test_rows_masked_apart_have_the_same_share_each():
    rows = batch([22, 42, 5])  # 3, 6 and 0.45 of 20, 40 and 3 pieces
    chances = map(np.random.default_rng, range(600))
    masks = (RULE.choose(rows, chance, within="row") for chance in chances)
    counts = np.array([np.diff(found.offsets) for found in masks])
    assert [set(column) for column in counts.T] == [{3}, {6}, {0, 1}]
    assert abs(counts[:, 2].mean() - 0.45) < 4 * np.sqrt(0.25 / 600)


@pytest.mark.parametrize("within", ["batch", "row"])
def test_a_batch_has_one_masked_piece_at_least_and_none_where_all_are_special(within):
    for seed, lengths in product(range(20), ([3, 2], [2, 2])):
        masks = RULE.choose(batch(lengths), np.random.default_rng(seed), within=within)
        assert masks.total == (3 in lengths)


def test_a_part_has_the_masks_of_its_rows_and_the_total_of_the_batch():
    rows = batch([30, 12, 60])
    masks = RULE.choose(rows, np.random.default_rng(1))
    some = np.array([2, 0])
    part, part_rows = masks.take(some), rows.take(some)
    assert part.total == masks.total
    assert rows.ids[masks.flat(rows.offsets)].tolist() == masks.targets.tolist()
    assert part_rows.ids[part.flat(part_rows.offsets)].tolist() == part.targets.tolist()
    changed = masks.applied(rows)
    assert part.applied(part_rows).ids.tolist() == changed.take(some).ids.tolist()


def test_chance_is_of_seed_step_and_use_and_not_of_the_worker():
    def draw(use=0, **changes):
        step = {"number": 3, "epoch": 0, "rows": np.arange(4), "seed": 1, **changes}
        return Step(**step).generator(use).random()

    assert draw() == draw(rank=1, world_size=2, micro=8)
    assert len({draw(), draw(number=4), draw(seed=2), draw(use=1)}) == 4


def test_the_rule_of_an_encoder_allows_all_but_its_special_pieces(tmp_path):
    encoder = toy_encoder(tmp_path)
    rule = MaskRule.of(encoder, 0.3)
    assert (rule.share, rule.mask) == (0.3, 4)
    assert np.flatnonzero(~rule.allowed_V).tolist() == [0, 1, 2, 3, 4]
    assert rule.ordinary.tolist() == list(range(5, len(encoder.tokenizer)))
    encoder.tokenizer.mask_token = None
    with pytest.raises(RaxalignError, match="no mask token"):
        MaskRule.of(encoder, 0.15)


def numbers(*words):
    return np.array(words, dtype=np.int64)


def test_neighbours_count_by_one_over_their_distance_within_a_sentence():
    """a b c | a b: a-b stand 1 apart twice, b-c 1 apart once, a-c 2 apart once; nothing crosses
    from c to the second a.
    """
    found = cooccurrences([numbers(0, 1, 2), numbers(0, 1)], 3, 2).toarray()
    assert found.tolist() == [[0, 2, 0.5], [2, 0, 1], [0.5, 1, 0]]


def test_words_without_a_number_keep_their_place_and_a_word_beside_itself_counts_twice():
    assert cooccurrences([numbers(0, -1, 1)], 2, 1).nnz == 0
    assert cooccurrences([numbers(0, -1, 1)], 2, 2).toarray().tolist() == [[0, 0.5], [0.5, 0]]
    assert cooccurrences([numbers(0, 0)], 1, 1).toarray().tolist() == [[2.0]]
    assert cooccurrences([], 2, 3).nnz == 0


def test_one_step_by_hand():
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


def test_a_step_on_many_entries_adds_up_their_gradients_whatever_their_order():
    def stepped(order):
        params = Static.Params(dimension=3, x_max=5, learning_rate=0.1)
        model = Glove.random(4, params, np.random.default_rng(0))
        if order:
            entries = numbers(0, 1, 3, 0), numbers(1, 1, 0, 2), np.array([2.0, 9.0, 1.0, 4.0])
            model.step(*(part[order] for part in entries))
        return model.vectors()

    assert np.allclose(stepped([0, 1, 2, 3]), stepped([3, 1, 0, 2]), atol=1e-6)
    assert (stepped([0, 1, 2, 3])[2] != stepped([])[2]).any()


def test_training_brings_the_products_to_the_logarithms_and_a_seed_is_one_result():
    rng = np.random.default_rng(1)
    sentences = [rng.integers(0, 6, size=5) for _ in range(60)]
    options = {"dimension": 8, "window": 3, "epochs": 150, "x_max": 10.0, "learning_rate": 0.1}
    first, other = (Static.Params(algorithm="glove", **options, seed=seed) for seed in (3, 4))
    vectors, losses = train_glove(sentences, 6, first)
    assert vectors.shape == (6, 8)
    assert losses[-1] < 5e-3 < 0.1 < losses[0]
    assert np.array_equal(vectors, train_glove(sentences, 6, first)[0])
    assert not np.array_equal(vectors, train_glove(sentences, 6, other)[0])
