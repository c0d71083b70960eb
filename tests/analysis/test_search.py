"""What a search finds for its effort, and which of its trials end early, computed by hand."""

import itertools

import pytest

from raxalign.analysis.search import (
    best_so_far,
    expected_best,
    expected_best_interval,
    is_rung,
    prunes,
)
from raxalign.config.search import Pruner

ASHA = Pruner(name="asha", startup=1, reduction=2)
MEDIAN = Pruner(name="median", startup=1)


@pytest.mark.parametrize(
    ("own", "others", "ends"),
    [
        (0.5, [0.6], True),  # of two values the best one goes on
        (0.6, [0.5], False),
        (0.6, [0.6], False),  # an equal one is among the best
        (0.6, [0.7, 0.5], True),  # of three values one goes on
        (0.6, [0.7, 0.5, 0.4], False),  # of four values two go on: 0.7 and 0.6
        (0.45, [0.7, 0.5, 0.4], True),
    ],
)
def test_asha_lets_the_best_half_of_a_rung_go_on(own, others, ends):
    assert prunes(ASHA, [own], [[score] for score in others]) is ends


def test_asha_lets_the_best_third_go_on_unless_it_is_told_otherwise():
    others = [[0.9], [0.8], [0.3], [0.2], [0.1]]
    rule = Pruner(name="asha")
    assert not prunes(rule, [0.85], others)  # six values: 0.9 and 0.85 go on
    assert prunes(rule, [0.7], others)


def test_asha_compares_at_its_rungs_alone():
    rungs = [number for number in range(1, 30) if is_rung(Pruner(name="asha"), number)]
    assert rungs == [1, 3, 9, 27]
    better = [[0.9, 0.9, 0.9, 0.9]]
    ends = [prunes(ASHA, [0.1] * number, better) for number in (1, 2, 3, 4)]
    assert ends == [True, True, False, True]


def test_a_warm_up_moves_the_first_rung():
    rule = Pruner(name="asha", startup=1, reduction=2, warmup=2)
    ends = [prunes(rule, [0.1] * number, [[0.9] * 6]) for number in (1, 2, 3, 4, 5, 6)]
    assert ends == [False, False, True, False, False, True]


@pytest.mark.parametrize(
    ("own", "others", "ends"),
    [
        ([0.4], [[0.3], [0.5], [0.6]], True),  # the median is 0.5
        ([0.5], [[0.3], [0.5], [0.6]], False),
        ([0.4], [[0.3], [0.6]], True),  # the median is 0.45
        ([0.3, 0.4], [[0.5], [0.2, 0.35]], False),  # at the second selection there is one other
        ([0.6, 0.1], [[0.5, 0.5]], False),  # the best weights so far are kept
        ([0.1, 0.4], [[0.6, 0.1]], True),  # of the others too
    ],
)
def test_a_trial_below_the_median_of_those_that_came_as_far_ends(own, others, ends):
    assert prunes(MEDIAN, own, others) is ends


@pytest.mark.parametrize("name", ["asha", "median"])
def test_nothing_ends_before_enough_others_came_as_far(name):
    rule = Pruner.model_validate({"name": name, "startup": 3})
    assert not prunes(rule, [0.1], [[0.9], [0.9]])
    assert not prunes(rule, [0.1, 0.1, 0.1], [[0.9, 0.9, 0.9], [0.9, 0.9, 0.9], [0.9]])
    assert prunes(rule, [0.1], [[0.9], [0.9], [0.9]])


def test_none_ends_nothing():
    assert not prunes(Pruner(), [0.0], [[0.9]] * 10)


def test_the_expected_best_is_the_mean_over_all_draws_with_replacement():
    values = [0.1, 0.4, 0.4, 0.9]
    for n in (1, 2, 3):
        draws = list(itertools.product(values, repeat=n))
        mean = sum(max(draw) for draw in draws) / len(draws)
        assert expected_best(values)[n - 1] == pytest.approx(mean)


def test_the_interval_holds_the_curve_and_is_a_point_for_equal_values():
    values = [0.2, 0.5, 0.6, 0.7, 0.3]
    low, high = expected_best_interval(values)
    curve = expected_best(values)
    assert all(b <= c <= t for b, c, t in zip(low, curve, high, strict=True))
    flat_low, flat_high = expected_best_interval([0.5, 0.5])
    assert flat_low == pytest.approx([0.5, 0.5])
    assert flat_high == pytest.approx([0.5, 0.5])


def test_the_best_so_far_never_falls():
    assert best_so_far([0.3, 0.2, 0.6, 0.4]) == [0.3, 0.3, 0.6, 0.6]
