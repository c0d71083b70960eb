"""Tests of a difference: variances, p-values and intervals by hand, and what must not matter."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.significance import (
    KINDS,
    MOST_FALSE,
    MOST_FALSE_MARKED,
    TABLES,
    TO_FIND,
    Cell,
    Side,
    planted,
    share_found,
    share_marked,
)
from raxalign.analysis.significance import Comparison, ContrastTest, Interval, Runs, holm
from raxalign.lazy import load
from raxalign.measured import Measured, share
from raxalign.sample import Sample
from tests.every import EVERY

stats = load("scipy.stats")  # whose import takes a second

FOUR = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=4, max_size=4)
SHARE, NUMBER = share("accuracy", "Share of what is right."), Measured.undeclared("distance")


def sample(gains, counts=None, units=None, links=None):
    gains = np.atleast_2d(np.array(gains, dtype=float))
    counts = np.ones_like(gains) if counts is None else np.atleast_2d(np.array(counts, dtype=float))
    units = np.arange(gains.shape[1]) if units is None else np.array(units)
    return Sample(units, gains, counts, links=None if links is None else np.array(links))


def system(*runs, chance=True, **options):
    """One accuracy over 0 and 1 per run; values beyond these are numbers."""
    samples = {seed: [sample(answers, **options)] for seed, answers in enumerate(runs)}
    return Runs.of(samples, chance=chance, measured=measured(samples))


def fixed(answers, **options):
    """A system without chance."""
    samples = {None: [sample(answers, **options)]}
    return Runs.of(samples, chance=False, measured=measured(samples))


def measured(samples):
    every = [one for several in samples.values() for one in several]
    within = all(np.all((one.gains >= 0) & (one.gains <= one.counts)) for one in every)
    return SHARE if within else NUMBER


def test_a_value_is_the_mean_over_parts_of_ratios_of_sums():
    two = sample([[1, 0, 2], [1, 1, 0]], [[2, 2, 2], [1, 1, 0]])
    assert two.value == pytest.approx((3 / 6 + 2 / 2) / 2)
    empty = sample([[1, 0], [0, 0]], [[1, 1], [0, 0]])
    assert empty.value == 0.5, "a part without counts is left out"


def test_a_brevity_penalty_is_formed_over_all_units():
    short, long = (
        Sample(np.arange(2), np.array([[2.0, 1.0]]), np.array([[4.0, 2.0]]), np.array([wanted]))
        for wanted in ([4.0, 6.0], [1.0, 2.0])
    )
    assert short.value == pytest.approx(3 / 6 * np.exp(1 - 10 / 6))
    assert long.value == 3 / 6


@pytest.mark.parametrize("penalty", [False, True])
def test_influences_are_the_derivatives_by_the_weights_of_units(penalty):
    rng = np.random.default_rng(0)
    gains, counts = rng.binomial(10, 0.3, (2, 7)).astype(float), np.full((2, 7), 10.0)
    wanted = rng.integers(9, 15, (2, 7)).astype(float) if penalty else None
    whole = Sample(np.arange(7), gains, counts, wanted)
    assert whole.influence().sum() == pytest.approx(0, abs=1e-15)
    for unit, influence in enumerate(whole.influence()):
        values = []
        for step in (1e-5, -1e-5):
            weight = np.ones(7)
            weight[unit] += step
            more = None if wanted is None else wanted * weight
            values.append(Sample(whole.units, gains * weight, counts * weight, more).value)
        assert influence == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-6)


def p_of(difference, examples, n, *sides):
    """The p-value by brute force: the mean over 1,000 equally probable chi-squares per side.

    Args:
        difference: the difference
        examples: its variance over examples
        n: the number of examples
        sides: (variance of the mean over runs, noise within runs in it, runs) of each trained side
    """
    middles = (np.arange(1000) + 0.5) / 1000
    total, weights, logs = np.array([examples]), None, []
    for own, within, runs in sides:
        true = np.maximum(own * (runs - 1) / stats.chi2.ppf(middles, runs - 1), within)
        total = np.add.outer(total, true - within)
        logs.append(np.log(true * runs))
    if len(sides) == 2:
        weights = 1 + 2 * np.exp(-((logs[0][:, None] - logs[1]) ** 2))
    freedom = (n - 1) * (total / examples) ** 2
    p = 2 * stats.t.sf(abs(difference) / np.sqrt(total[0]), freedom[0])
    return np.average(p, weights=weights)


def test_a_p_value_and_its_interval_by_brute_force():
    """Two systems with two runs over four examples: values 3/4, 1/4 and 1/4, 1/4; n / (n - 1) =
    4/3.

    Influences of A: (1, 1, 1, -3) / 16 and (3, -1, -1, -1) / 16, their mean (2, 0, 0, -2) / 16; of
    B (-1, 3, -1, -1) / 16 twice.
    """
    a, b = system([1, 1, 1, 0], [1, 0, 0, 0]), system([0, 1, 0, 0], [0, 1, 0, 0])
    examples = 4 / 3 * (3**2 + 3**2 + 1**2 + 1**2) / 256
    between = (0.5**2 / 2) / 2
    within = 4 / 3 * (2 * (1 + 1 + 1 + 1)) / 256 / (2 * 1)
    found = Comparison.of(b, a)
    assert (found.difference, found.runs, found.baseline_runs, found.examples) == (0.25, 2, 2, 4)
    assert found.p == pytest.approx(p_of(0.25, examples, 4, (between, within, 2)), rel=2e-3)
    assert (found.low, found.high) == (-1, 1), "a difference of shares stays within -1 and 1"
    scores = Comparison.of(
        system(*(np.array([1, 2, 0, 3.0]) + step for step in (0, 0.3, 0.7))),
        system(*(np.array([5, 4, 4, 5.0]) + step for step in (0, 1, 1.6, 2.2))),
    )
    sides = np.var([0, 0.3, 0.7], ddof=1) / 3, np.var([0, 1, 1.6, 2.2], ddof=1) / 4
    examples = np.var([4, 2, 4, 2], ddof=1) / 4
    half = (scores.high - scores.low) / 2
    for difference, p in ((scores.difference, scores.p), (half, 0.05)):
        wanted = p_of(difference, examples, 4, (sides[1], 0, 4), (sides[0], 0, 3))
        assert p == pytest.approx(wanted, rel=5e-3)


def test_two_runs_that_agree_by_chance_are_not_taken_for_runs_that_always_do():
    """The system is better by 2 points over 1,000 examples, and its two runs differ by one of them:
    so do about one in 15 pairs of runs whose standard deviation is 1 point.
    """
    base, better = np.arange(1000) % 10 < 6, np.arange(1000) % 25 == 9
    answers = [np.logical_or(base, better).astype(float) for _ in range(2)]
    answers[1][0] = 0
    found = Comparison.of(fixed(base.astype(float)), system(*answers))
    alone = Comparison.of(fixed(base.astype(float)), fixed(answers[0]))
    assert alone.p < 1e-5, "of the examples alone this is no chance"
    assert 0.002 < found.p < 0.05


@given(
    st.lists(st.floats(-3, 3), min_size=2, max_size=4),
    st.lists(st.floats(-3, 3), min_size=2, max_size=4),
    st.lists(st.floats(0, 9), min_size=2, max_size=2, unique=True),
)
def test_p_falls_with_the_difference_and_is_below_the_level_where_the_interval_has_no_0(
    one, other, apart
):
    noise = np.random.default_rng(0).standard_normal((len(one) + len(other), 50))
    base = system(*(noise[n] + value for n, value in enumerate(one)))
    rows = [noise[-n - 1] + value - np.mean(other) for n, value in enumerate(other)]
    near, far = (
        Comparison.of(base, system(*(row + much for row in rows))) for much in sorted(apart)
    )
    for found in (near, far):
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
    if abs(near.difference) < abs(far.difference):
        assert near.p >= far.p


def test_an_interval_of_a_share_is_wilson_s_and_stays_within_0_and_1():
    around = Interval.of(fixed([1] * 3 + [0] * 7))
    n, z = 9, stats.t.ppf(0.975, 9)  # the variance with n - 1 is worth one example less
    centre = (0.3 + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(0.3 * 0.7 / n + z * z / (4 * n * n))
    assert (around.low, around.high) == pytest.approx((centre - half, centre + half))
    perfect, z = Interval.of(fixed([1] * 20)), stats.norm.ppf(0.975)
    assert (perfect.low, perfect.high) == (pytest.approx(20 / (20 + z * z)), 1)
    # a value of .5 whose two runs are .9 and .1 may be nearly anything, and nothing else
    two = Interval.of(system([1] * 9 + [0], [0] * 9 + [1]))
    assert 0 <= two.low < 0.1
    assert 0.9 < two.high <= 1


def test_a_metric_that_is_no_share_has_student_s_interval_as_far_as_its_values_reach():
    runs = Runs.of({None: [sample([10.0, 20.0, 60.0])]}, chance=False)
    around = Interval.of(runs)
    half = stats.t.ppf(0.975, 2) * np.std([10, 20, 60], ddof=1) / 3**0.5
    assert (around.low, around.high) == (pytest.approx(30 - half), pytest.approx(30 + half))
    ended = Interval.of(replace(runs, limits=(0.0, 40.0)))
    assert (ended.low, ended.high) == (0.0, 40.0)


def test_values_between_0_and_1_that_are_not_declared_a_share_have_student_s_interval():
    ones = Runs.of({None: [sample([1.0] * 8)]}, chance=False)
    around = Interval.of(ones)
    assert (around.low, around.high) == (1.0, 1.0)


@given(st.lists(FOUR, min_size=2, max_size=4))
def test_intervals_of_shares_hold_their_value_and_stay_within_0_and_1(answers):
    runs = system(*answers)
    around = Interval.of(runs)
    assert 0 <= around.low <= runs.mean() <= around.high <= 1
    found = Comparison.of(system(*answers[::-1]), runs)
    assert -1 <= found.low <= found.difference <= found.high <= 1
    assert 0 <= found.p <= 1


def test_equal_systems_whose_runs_differ_are_not_called_different():
    """Ten planted pairs of equal systems whose runs differ by 1 point: with the seeds as fixed, as
    a bootstrap over examples has it, five of these are called different.
    """
    rng, called, as_fixed = np.random.default_rng(3), 0, 0
    for _ in range(10):
        a, b = planted(Cell(5010, Side(3, 1.0), Side(3, 1.0)), rng)
        called += Comparison.of(a, b).p < 0.05
        apart = b.influences.mean(0) - a.influences.mean(0)
        as_fixed += abs(b.mean() - a.mean()) > 1.96 * math.sqrt(apart @ apart)
    assert (called, as_fixed) == (0, 5)


def test_one_run_of_what_has_chance_tells_nothing_and_one_without_chance_does():
    answers = [1, 0, 1, 1, 0, 1, 1, 1]
    once = system(answers)
    assert Interval.of(once) is None
    found = Comparison.of(fixed(answers), once)
    assert (found.p, found.low, found.untested) == (None, None, Runs.ONE_RUN)
    assert Comparison.of(once, fixed(answers)).untested == Runs.ONE_RUN
    assert Interval.of(once, examples_alone=True) == Interval.of(fixed(answers))
    error = math.sqrt(8 / 7 * (2 * 0.75**2 + 6 * 0.25**2) / 64)
    p = Comparison.of(fixed(answers), fixed([1] * 8)).p
    assert p == pytest.approx(2 * stats.t.sf(0.25 / error, 7))


def test_one_example_tells_nothing():
    assert Interval.of(fixed([1])) is None
    assert Comparison.of(fixed([1]), fixed([0])).untested == Runs.ONE_EXAMPLE


def test_equal_systems_do_not_differ_and_p_is_not_zero_where_every_example_says_the_same():
    answers = fixed([1, 0, 1, 1])
    same = Comparison.of(answers, answers)
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)
    all_ = Comparison.of(fixed([0] * 6), fixed([1] * 6))
    assert (all_.difference, all_.p, all_.high) == (1, 2**-5, 1)
    assert all_.low == pytest.approx(6 / (6 + stats.norm.ppf(0.975) ** 2))


def test_runs_that_share_their_training_are_compared_seed_by_seed():
    """The trainings differ by much, what comes after them is better by a few examples: in pairs
    that is seen, unpaired it is lost.
    """
    rng = np.random.default_rng(0)
    trained = [(rng.random(400) < share).astype(float) for share in (0.5, 0.6, 0.7, 0.8)]
    better = [np.maximum(answers, np.arange(400) % 20 == 0) for answers in trained]
    base, other = system(*trained), system(*better)
    paired, apart = Comparison.of(base, other, paired=True), Comparison.of(base, other)
    assert (paired.runs, paired.baseline_runs, paired.paired) == (4, 4, True)
    assert paired.difference == pytest.approx(apart.difference)
    assert paired.p < 0.05 < 0.5 < apart.p
    shorter = Comparison.of(base.only([0, 1, 2]), other.only([3, 2, 1]), paired=True)
    assert shorter.runs == 2
    assert shorter.difference == pytest.approx(np.mean(other.values[1:3] - base.values[1:3]))


def test_examples_of_one_sentence_are_no_independent_examples():
    """Ten copies of each answer in one unit: the interval is that of the units; ten times as many
    units would make it narrower.
    """
    answers = np.array([1, 0] * 20, dtype=float)
    alone, copied = (
        Interval.of(fixed(answers)),
        Interval.of(fixed(answers * 10, counts=np.full(40, 10))),
    )
    apart = Interval.of(fixed(np.repeat(answers, 10)))
    assert (copied.low, copied.high) == (pytest.approx(alone.low), pytest.approx(alone.high))
    assert apart.high - apart.low < 0.5 * (copied.high - copied.low)


def test_linked_units_are_one_cluster():
    answers = [1, 1, 0, 0, 1, 0]
    linked = Interval.of(fixed(answers, links=[[0, 1], [2, 99], [99, 3]]))
    joined = Interval.of(fixed([2, 0, 1, 0], counts=[2, 2, 1, 1]))
    assert linked == joined
    assert linked.examples == 4


def test_units_that_one_system_lacks_count_as_nothing_of_it():
    first, second = fixed([1, 0, 1], units=[1, 2, 3]), fixed([0, 1, 1, 0], units=[2, 3, 4, 5])
    found = Comparison.of(first, second)
    assert (found.examples, found.difference) == (5, pytest.approx(1 / 2 - 2 / 3))
    influences = np.array([0, -1, 1, 1, -1]) / 8 - np.array([1, -2, 1, 0, 0]) / 9
    half = stats.t.ppf(0.975, 4) * math.sqrt(5 / 4 * influences @ influences)
    ends = (found.difference - half, found.difference + half)
    assert (found.low, found.high) == pytest.approx(ends)


def test_a_mean_over_languages_takes_parallel_examples_for_one():
    """Two languages with the same answers to the same examples tell no more than one; with other
    examples they tell more.
    """
    answers = [1, 0, 1, 1, 0, 1, 0, 0, 1, 1]
    one, apart = fixed(answers), fixed(answers, units=range(100, 110))
    alone, together = Interval.of(one), Interval.of(Runs.mean_of([one, fixed(answers)]))
    wider = Interval.of(Runs.mean_of([one, apart]))
    assert (together.low, together.high, together.examples) == (alone.low, alone.high, 10)
    assert wider.examples == 20
    assert wider.high - wider.low < alone.high - alone.low


def test_a_mean_over_languages_is_formed_run_by_run_over_the_seeds_that_all_have():
    both = Runs.mean_of([system([1, 0], [1, 1], [0, 0]), system([1, 1], [0, 1]).only([1, 0])])
    assert both.seeds == (0, 1)
    assert both.values.tolist() == [0.75, 0.75]
    with pytest.raises(ValueError, match="no seed"):
        Runs.mean_of([system([1, 0]).only([0]), Runs.of({7: [sample([1, 0])]}, chance=True)])


def test_several_models_of_one_seed_are_averaged():
    samples = {0: [sample([1, 0]), sample([1, 1])], 1: [sample([0, 0]), sample([1, 1])]}
    runs = Runs.of(samples, chance=True)
    assert runs.values.tolist() == [0.75, 0.5]
    assert runs.influences.tolist() == [[0.125, -0.125], [0, 0]]


def test_holm_by_hand():
    # 3 x .01, then 2 x .03, then at least as much
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p):
    adjusted = holm(p)
    assert all(b >= a for a, b in zip(p, adjusted, strict=True))
    order = sorted(range(len(p)), key=lambda i: p[i])
    assert all(adjusted[a] <= adjusted[b] for a, b in pairwise(order))


# `make bench` measures all of them, in more rounds
EQUAL = [cell for kind in KINDS.values() for cell in kind]


@pytest.mark.slow
@pytest.mark.parametrize("cell", EQUAL if EVERY else EQUAL[::5], ids=str)
def test_equal_systems_are_seldom_called_different(cell):
    rounds = 400
    assert share_found(cell, rounds) < MOST_FALSE + 2.5 * math.sqrt(MOST_FALSE / rounds)


@pytest.mark.slow
@pytest.mark.parametrize("cell", TABLES if EVERY else TABLES[::3], ids=str)
def test_a_table_of_equal_systems_seldom_has_a_mark(cell):
    """With degrees of freedom that are estimated, one of six tables has one where a system has two
    runs and the other one is deterministic.
    """
    rounds = 100
    most = MOST_FALSE_MARKED + 2.5 * math.sqrt(MOST_FALSE_MARKED / rounds)
    assert share_marked(cell, rounds) < most


@pytest.mark.slow
def test_a_true_difference_of_two_points_is_mostly_found():
    assert share_found(TO_FIND, 600) > 0.78


# Quantiles of Student's t at .975, as printed in tables: of 1, 2 and 3 degrees of freedom.
T_1, T_2, T_3 = 12.7062, 4.30265, 3.18245


def test_an_interval_over_runs_is_t_times_their_standard_error_in_numbers():
    """Two runs, 10 and 14 for both of two examples: no variance over examples, between runs 8 / 2 =
    4, so a standard error of 2 with 1 degree of freedom.
    """
    around = Interval.of(system([10.0, 10.0], [14.0, 14.0]))
    assert (around.runs, around.examples) == (2, 2)
    assert around.low == pytest.approx(12 - T_1 * 2, abs=0.01)
    assert around.high == pytest.approx(12 + T_1 * 2, abs=0.01)


def test_variances_of_runs_and_examples_add_up_in_numbers():
    """Runs 10, 14 and 18 for four examples each, of which two are 3 more and two 3 less: over
    examples 4 / 3 * 4 * (3 / 4)^2 = 3 with 3 degrees of freedom, between runs 16 / 3 with 2, and
    nothing within runs.
    """
    runs = system(*([mean + 3, mean + 3, mean - 3, mean - 3] for mean in (10.0, 14.0, 18.0)))
    around = Interval.of(runs)
    assert (around.low + around.high) / 2 == pytest.approx(14)
    half = (around.high - around.low) / 2
    assert p_of(half, 3, 4, (16 / 3, 0, 3)) == pytest.approx(0.05, rel=5e-3)
    assert half > T_2 * math.sqrt(16 / 3), "more than of the runs alone"


def test_a_difference_has_the_interval_and_the_p_of_its_t_in_numbers():
    """Differences 1, 2, 3 and 6 of four examples: their mean 3, variance 14 / 3, standard error
    sqrt(14 / 12) = 1.08012, t = 2.77746 of 3 degrees of freedom.
    """
    found = Comparison.of(fixed([0.0, 0.0, 0.0, 10.0]), fixed([1.0, 2.0, 3.0, 16.0]))
    assert found.difference == 3
    assert found.low == pytest.approx(3 - T_3 * 1.08012, abs=1e-3)
    assert found.high == pytest.approx(3 + T_3 * 1.08012, abs=1e-3)
    assert found.p == pytest.approx(0.0691, abs=1e-3)


def test_a_contrast_of_two_is_their_comparison():
    one, other = system([1, 0, 0, 1], [1, 1, 0, 1]), system([1, 1, 1, 1], [0, 1, 1, 1])
    found, pair = ContrastTest.of([(1.0, other), (-1.0, one)]), Comparison.of(one, other)
    assert (found.value, found.p, found.examples) == (pair.difference, pair.p, pair.examples)
    assert max(found.low, -1) == pytest.approx(pair.low)


def test_a_difference_of_differences_by_hand():
    # without chance in the runs, only the examples vary: gains of the four systems per example
    gains = np.array([[1, 0, 0, 0, 1], [1, 1, 0, 0, 1], [0, 0, 1, 0, 1], [1, 1, 1, 1, 0]], float)
    weights = (1.0, -1.0, -1.0, 1.0)
    found = ContrastTest.of([(w, fixed(row)) for w, row in zip(weights, gains, strict=True)])
    means = gains.mean(axis=1)
    assert found.value == pytest.approx(float(np.dot(weights, means)))
    psi = np.array(weights) @ (gains - means[:, None]) / 5
    error = math.sqrt(5 / 4 * float(psi @ psi))
    half = stats.t.ppf(0.975, 4) * error
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))
    assert found.p == pytest.approx(2 * stats.t.sf(abs(found.value) / error, 4))


def test_a_weight_scales_the_variance_between_runs_by_its_square():
    runs = [system([1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]) for _ in range(2)]
    single, double = ContrastTest.of([(1.0, runs[0])]), ContrastTest.of([(2.0, runs[0])])
    assert double.value == 2 * single.value
    assert double.high - double.low == pytest.approx(2 * (single.high - single.low))


def test_a_contrast_with_one_run_of_what_has_chance_is_not_tested():
    found = ContrastTest.of([(1.0, system([1, 0, 1])), (-1.0, fixed([1, 1, 1]))])
    assert (found.p, found.untested, found.runs) == (None, Runs.ONE_RUN, (1, 1))
