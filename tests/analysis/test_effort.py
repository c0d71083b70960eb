"""The best of so many trials."""

from __future__ import annotations

import itertools

import pytest

from raxalign.analysis.search import best_so_far, expected_best, expected_best_interval


def test_the_expected_best_is_the_mean_over_all_draws_with_replacement() -> None:
    values = [0.1, 0.4, 0.4, 0.9]
    for n in (1, 2, 3):
        draws = list(itertools.product(values, repeat=n))
        mean = sum(max(draw) for draw in draws) / len(draws)
        assert expected_best(values)[n - 1] == pytest.approx(mean)


def test_the_interval_holds_the_curve_and_is_a_point_for_equal_values() -> None:
    values = [0.2, 0.5, 0.6, 0.7, 0.3]
    low, high = expected_best_interval(values)
    curve = expected_best(values)
    assert all(b <= c <= t for b, c, t in zip(low, curve, high, strict=True))
    flat_low, flat_high = expected_best_interval([0.5, 0.5])
    assert flat_low == pytest.approx([0.5, 0.5])
    assert flat_high == pytest.approx([0.5, 0.5])


def test_the_best_so_far_never_falls() -> None:
    assert best_so_far([0.3, 0.2, 0.6, 0.4]) == [0.3, 0.3, 0.6, 0.6]
