"""Tests of a difference: values by hand, agreement with exact enumeration, and what must not matter."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raxalign.analysis.significance import Sample, approximate_randomisation, compare, examples_interval, holm, stack


def sample(gains, counts=None, units=None):
    gains = np.atleast_2d(np.array(gains, dtype=float))
    counts = np.ones_like(gains) if counts is None else np.atleast_2d(np.array(counts, dtype=float))
    return Sample(np.arange(gains.shape[1]) if units is None else np.array(units), gains, counts)


def test_a_value_is_the_mean_over_parts_of_ratios_of_sums():
    two = sample([[1, 0, 2], [1, 1, 0]], [[2, 2, 2], [1, 1, 0]])
    assert two.value == pytest.approx((3 / 6 + 2 / 2) / 2)


def test_a_brevity_penalty_is_formed_over_what_was_drawn():
    short = Sample(np.arange(2), np.array([[2.0, 1.0]]), np.array([[4.0, 2.0]]), np.array([[4.0, 6.0]]))
    assert short.value == pytest.approx(3 / 6 * np.exp(1 - 10 / 6))
    assert short.drawn(np.array([[2.0, 0.0], [0.0, 2.0]])) == pytest.approx([1 / 2, 1 / 2 * np.exp(1 - 6 / 2)])
    long = Sample(np.arange(2), np.array([[2.0, 1.0]]), np.array([[4.0, 2.0]]), np.array([[1.0, 2.0]]))
    assert long.value == 3 / 6
    assert stack([short, long]).value == pytest.approx((short.value + long.value) / 2)
    low, high = examples_interval(short)
    assert low == pytest.approx(1 / 2 * np.exp(1 - 6 / 2))
    assert high == pytest.approx(1 / 2)


@pytest.mark.parametrize("seeds", [1, 2])
def test_scores_with_a_penalty_are_exchanged_with_their_references(seeds):
    rng = np.random.default_rng(0)
    counts, wanted = np.full((1, 60), 10.0), rng.integers(8, 14, (1, 60)).astype(float)
    worse = Sample(np.arange(60), rng.binomial(10, 0.3, (1, 60)).astype(float), counts, wanted)
    better = Sample(np.arange(60), rng.binomial(10, 0.6, (1, 60)).astype(float), counts, wanted)
    found = compare(worse, stack([better] * seeds), rounds=500)  # other numbers of seeds are compared by their means
    assert found.difference == pytest.approx(better.value - worse.value)
    assert found.p_randomisation == found.p_bootstrap == pytest.approx(1 / 501)
    assert compare(worse, worse).p_randomisation == 1


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # 3 x .01, then 2 x .03, then at least as much
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p):
    adjusted = holm(p)
    assert all(b >= a for a, b in zip(p, adjusted, strict=True))
    order = sorted(range(len(p)), key=lambda i: p[i])
    assert all(adjusted[a] <= adjusted[b] for a, b in pairwise(order))


def test_randomisation_is_the_exact_test_up_to_sampling():
    first, second = np.array([0, 0, 1, 0, 1, 0, 0, 0.0]), np.array([1, 1, 1, 0, 1, 1, 0, 1.0])
    observed = abs(second.mean() - first.mean())
    swaps = [abs(np.where(s, first - second, second - first).mean()) for s in product([0, 1], repeat=8)]
    exact = np.mean([value >= observed - 1e-12 for value in swaps])
    assert exact == 0.125  # four units differ, all the same way: 2 / 2^4
    assert approximate_randomisation(sample(first), sample(second), rounds=4000) == pytest.approx(exact, abs=0.02)


def test_equal_systems_do_not_differ():
    answers = sample([1, 0, 1, 1, 0, 0, 1, 0])
    found = compare(answers, answers)
    assert (found.difference, found.p_bootstrap, found.p_randomisation) == (0.0, 1.0, 1.0)


def test_a_clear_difference_is_told_by_both_tests_and_no_p_value_is_zero():
    rng = np.random.default_rng(0)
    found = compare(sample(rng.random(300) < 0.4), sample(rng.random(300) < 0.8), rounds=500)
    assert found.low > 0
    assert found.p_bootstrap == found.p_randomisation == pytest.approx(1 / 501)


def test_examples_of_one_sentence_are_no_independent_examples():
    """Ten copies of each answer in one unit: the interval is that of the units, ten times as many units would make it narrower."""
    answers = np.array([1, 0] * 20, dtype=float)
    alone, copied = sample(answers), sample(answers * 10, np.full(40, 10))
    apart = sample(np.repeat(answers, 10))
    assert examples_interval(copied) == examples_interval(alone)
    low, high = examples_interval(apart)
    assert high - low < 0.5 * np.subtract(*reversed(examples_interval(copied)))


def test_the_bootstrap_interval_is_near_the_normal_one():
    answers = sample(np.arange(1000) % 4 == 0)
    low, high = examples_interval(answers, rounds=2000)
    half = 1.96 * (0.25 * 0.75 / 1000) ** 0.5
    assert (low, high) == (pytest.approx(0.25 - half, abs=0.004), pytest.approx(0.25 + half, abs=0.004))


def test_only_units_that_both_have_are_compared():
    first, second = sample([1, 0, 1], units=[1, 2, 3]), sample([0, 1, 1, 0], units=[2, 3, 4, 5])
    found = compare(first, second)
    assert (found.units, found.difference) == (2, 0.0)
    with pytest.raises(ValueError, match="different units"):
        compare(sample([1], units=[1]), sample([1], units=[2]))


def test_seeds_stack_over_their_common_units():
    both = stack([sample([1, 0, 1], units=[1, 2, 3]), sample([0, 1], units=[2, 3])])
    assert both.units.tolist() == [2, 3]
    assert both.value == pytest.approx((0.5 + 0.5) / 2)


def test_systems_with_different_numbers_of_seeds_are_compared_by_their_means():
    one, three = sample([0, 0, 1, 1]), stack([sample([0, 0, 1, 1])] * 3)
    assert compare(one, three).p_randomisation == 1.0


def test_a_large_sample_is_drawn_in_parts_with_the_same_result(monkeypatch):
    rng = np.random.default_rng(1)
    answers = sample(rng.random(50) < 0.5)
    whole = examples_interval(answers, rounds=100, seed=3)
    monkeypatch.setattr("raxalign.analysis.significance._CELLS", 1000)
    assert examples_interval(answers, rounds=100, seed=3) == pytest.approx(whole, abs=1e-12)
