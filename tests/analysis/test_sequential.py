"""Tests of looks that are planned: their levels, and the correction for several questions."""

from itertools import product

import numpy as np
import pytest

from benchmarks.sequential import Setting, simulated
from raxalign.analysis.sequential import PlannedLooks, PlannedQuestions, Seen, closed
from raxalign.analysis.significance import Spread, TrainedSide, holm
from raxalign.lazy import load

stats = load("scipy.stats")  # whose import takes a second

FOUR = PlannedLooks((3, 5, 8, 12))


@pytest.mark.parametrize("total", [0.05, 0.004])
def test_looks_spend_the_level_as_obrien_and_fleming_do(total):
    """Two looks whose p-values go together as the docstring has it."""
    looks = PlannedLooks((5, 12))
    first, second = (stats.norm.isf(looks.level(look, total) / 2) for look in (1, 2))
    z = stats.norm.isf(total / 2)
    assert looks.level(1, total) == pytest.approx(2 * stats.norm.sf(z / (4 / 11) ** 0.5))
    together = stats.multivariate_normal(cov=[[1, (3 / 10) ** 0.5], [(3 / 10) ** 0.5, 1]])
    signs = product((1, -1), repeat=2)
    inside = sum(a * b * together.cdf([a * first, b * second]) for a, b in signs)
    assert 1 - inside == pytest.approx(total, rel=0.005)


def test_one_look_tests_at_the_level_itself():
    assert PlannedLooks((9,)).level(1) == pytest.approx(0.05)
    assert PlannedLooks((9,)).over_all(0.01, 1) == pytest.approx(0.01)


def test_a_p_value_over_all_looks_is_the_level_at_which_its_look_tests_there():
    for look, total in product((1, 2, 3, 4), (0.2, 0.05, 0.004, 1e-6)):
        assert FOUR.over_all(FOUR.level(look, total), look) == pytest.approx(total, rel=1e-3)
    assert FOUR.over_all(0.9, 1) == 1
    assert FOUR.over_all(0.0, 4) < 1e-9


def test_levels_grow_from_look_to_look():
    levels = [FOUR.level(look) for look in (1, 2, 3, 4)]
    assert levels == sorted(levels)
    assert levels[0] < 1e-4
    assert levels[-1] > 0.043


def test_without_margins_it_is_holm():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = (rng.uniform(size=6) ** 3).tolist()
        assert closed(p, [None] * 6)[0] == pytest.approx(holm(p))


def test_adjusted_p_values_are_those_of_the_closed_test():
    """Each hypothesis against all intersections that contain it, one by one: of each question that
    there is no difference (weight 1), that it is the margin or more (1/2), or neither is true.
    """
    rng = np.random.default_rng(1)
    for _ in range(60):
        p, q = (rng.uniform(size=(2, 4)) ** 3).tolist()
        found = closed(p, q)[0]
        wanted = [0.0] * 4
        for true in product((0, 1, 2), repeat=4):
            parts = [p[i] if kind == 0 else q[i] for i, kind in enumerate(true) if kind < 2]
            weight = sum((1.0, 0.5, 0.0)[kind] for kind in true)
            for which in [i for i, kind in enumerate(true) if kind == 0]:
                wanted[which] = max(wanted[which], min(1.0, weight * min(parts)))
        assert found == pytest.approx(wanted)


def test_a_question_that_is_answered_stays_so():
    asked = PlannedQuestions(FOUR, 2)
    asked.look(1, {0: Seen(1e-9, 1.0), 1: Seen(0.01, 0.8)})
    assert asked.open == [1]
    asked.look(2, {0: Seen(0.9, 1.0), 1: Seen(0.4, 1e-5)})
    answers = [(asked.answers[which].look, asked.answers[which].different) for which in (0, 1)]
    assert answers == [(1, True), (2, False)]


def test_in_whatever_order_questions_come_to_their_looks_the_answers_are_the_same():
    rng, fewer = np.random.default_rng(3), 0

    def asked_of(every, choose):
        """The answers where of the looks that are due those that are chosen are taken."""
        seen = [dict(every[0]), {}, {}, {}]
        while True:
            asked = PlannedQuestions(FOUR, 4)
            for number, own in enumerate(filter(None, seen), start=1):
                asked.look(number, own)
            depths = {q: sum(q in own for own in seen) for q in asked.open}
            due = [q for q, depth in depths.items() if depth < 4]
            if not due:
                return asked.answers, sum(map(len, seen))
            for q in choose(due, depths):
                seen[depths[q]][q] = every[depths[q]][q]

    for _ in range(150):
        p = rng.uniform(size=(4, 4, 2)) ** 7
        every = [{q: Seen(*p[look, q].tolist()) for q in range(4)} for look in range(4)]
        answers, looks = asked_of(every, lambda due, _: due)
        shuffled, taken = asked_of(every, lambda due, _: [rng.choice(due)])
        deepest, _ = asked_of(every, lambda due, depths: [max(due, key=depths.get)])
        assert shuffled == deepest == answers
        fewer += taken != looks
    assert fewer


def test_what_a_look_does_not_see_stays_open():
    asked = PlannedQuestions(FOUR, 2)
    asked.look(4, {0: Seen(1e-6)})
    assert asked.open == [1]
    asked.look(4, {})
    assert asked.open == [1]


def test_what_no_seed_changes_is_tested_at_the_whole_level_by_the_first_look():
    asked = PlannedQuestions(FOUR, 1)
    asked.look(1, {0: Seen(0.04)})
    assert asked.open == [0]
    asked.look(1, {0: Seen(0.04, chance=False)})
    assert asked.open == []


def test_a_repeated_interval_has_what_its_look_does_not_reject():
    trained = (TrainedSide(5, 0.0004, 0.0001), TrainedSide(5, 0.0002, 0.0001))
    noise = Spread(0.0003, 1000, trained).noise()
    for look in (1, 2, 3, 4):
        low, high = FOUR.interval(0.1, noise, look)
        assert noise.p(0.1 - low) == pytest.approx(FOUR.level(look), rel=1e-3)
        assert (low + high) / 2 == pytest.approx(0.1)
    margin = 0.1 + (high - low) / 2
    assert Seen.of(0.1, noise, margin).within == pytest.approx(FOUR.level(4), rel=1e-3)
    assert Seen.of(0.1, noise, 0.1).within == 1


def test_equal_systems_are_rarely_called_different_and_differences_are_found_with_fewer_seeds():
    """As `benchmarks.sequential` shows with more rounds."""
    plan = (3, 5, 8, 12)
    equal = simulated(Setting(5000, 2.0, True, (0.0,)), 300, [plan])[plan]
    assert equal.false < 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5
    large = simulated(Setting(5000, 0.5, False, (4.0,)), 40, [plan])
    assert large[plan].real == pytest.approx(1)
    assert large[plan].seeds < 7
