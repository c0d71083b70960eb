"""Tests of languages as a sample: variances by hand, and what must not matter."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.language_sample import Setting, planted_test
from raxalign.analysis.power import LanguageSample
from raxalign.analysis.significance import Runs
from raxalign.lazy import load

stats = load("scipy.stats")  # whose import takes a second

NOTHING = np.zeros((1, 10))


def fixed(value, influences=NOTHING, units=None):
    """A value of something without chance in one language."""
    units = np.arange(influences.shape[1]) if units is None else units
    return Runs((None,), np.array([value]), units, influences, chance=False)


def trained(values, influences=None):
    runs = len(values)
    influences = np.zeros((runs, 10)) if influences is None else influences
    return Runs(tuple(range(runs)), np.array(values), np.arange(10), influences, chance=True)


def test_where_languages_alone_differ_it_is_a_t_test_over_them():
    differences = np.array([0.01, 0.03, 0.02, 0.06])
    found = LanguageSample.of([fixed(0.5)] * 4, [fixed(0.5 + value) for value in differences])
    error = differences.std(ddof=1) / 2
    half = stats.t.ppf(0.975, 3) * error
    assert (found.difference, found.freedom) == (pytest.approx(0.03), pytest.approx(3))
    assert (found.low, found.high) == (pytest.approx(0.03 - half), pytest.approx(0.03 + half))
    assert found.p == pytest.approx(2 * stats.t.sf(0.03 / error, 3))
    ratios = np.sqrt(stats.chi2.ppf((np.arange(400) + 0.5) / 400, 3) / 3)  # estimated to true error
    true, later = np.meshgrid(error / ratios, ratios)  # this table's true error; a later estimate
    for among in (1, 12):
        half = stats.t.ppf(1 - 0.05 / among / 2, 3) * later * true
        power = stats.norm.sf(half, found.detectable(among), true)
        power += stats.norm.cdf(-half, found.detectable(among), true)
        assert power.mean() == pytest.approx(0.8, abs=0.005)


def test_examples_that_languages_share_add_their_covariance():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((1, 50)) / 500
    shared -= shared.mean()
    values = [0.51, 0.53, 0.52, 0.56]
    found = LanguageSample.of([fixed(0.5, 0 * shared)] * 4, [fixed(v, shared) for v in values])
    between, examples = np.var(values, ddof=1) / 4, 50 / 49 * float((shared**2).sum())
    freedom = (between + examples) ** 2 / (between**2 / 3 + examples**2 / 49)
    assert found.freedom == pytest.approx(freedom)
    half = stats.t.ppf(0.975, freedom) * (between + examples) ** 0.5
    assert found.high - found.low == pytest.approx(2 * half)
    apart = [fixed(v, shared, np.arange(50) + 50 * at) for at, v in enumerate(values)]
    others = [fixed(0.5, 0 * shared, np.arange(50) + 50 * at) for at in range(4)]
    # examples of one language are in the spread of languages
    assert LanguageSample.of(others, apart).freedom == pytest.approx(3)


def test_runs_that_move_all_languages_alike_add_their_covariance():
    moved = np.array([-0.02, 0.0, 0.02])
    system = [trained(0.5 + value + moved) for value in (0.01, 0.03, 0.02, 0.06)]
    found = LanguageSample.of([fixed(0.5)] * 4, system)
    between, runs = np.var([0.01, 0.03, 0.02, 0.06], ddof=1) / 4, moved.var(ddof=1) / 3
    freedom = (between + runs) ** 2 / (between**2 / 3 + runs**2 / 2)
    assert found.freedom == pytest.approx(freedom)
    half = stats.t.ppf(0.975, freedom) * (between + runs) ** 0.5
    assert found.high == pytest.approx(0.03 + half)


def test_runs_that_move_each_language_by_itself_count_in_the_freedom():
    values = np.random.default_rng(3).standard_normal((4, 3)) / 50
    found = LanguageSample.of([fixed(0.5)] * 4, [trained(list(0.5 + own)) for own in values])
    apart = values - values.mean(1, keepdims=True)
    pairs = [apart[k] @ apart[m] for k in range(4) for m in range(4) if k != m]
    between, runs = np.var(values.mean(1), ddof=1) / 4, max(np.mean(pairs), 0) / (3 * 2)
    of_runs = np.var(values.mean(0), ddof=1) / 3
    crossed = ((apart - apart.mean(0)) ** 2).sum() / (3 * 2) / (4 * 3)
    below = between**2 / 3 + of_runs**2 / 2 + crossed**2 / (3 * 2)
    assert found.freedom == pytest.approx((between + runs) ** 2 / below)


def test_paired_runs_are_compared_seed_by_seed():
    moved = np.array([-0.02, 0.0, 0.02])
    baseline = [trained(0.5 + moved)] * 4
    system = [trained(0.5 + value + moved) for value in (0.01, 0.03, 0.02, 0.06)]
    found = LanguageSample.of(baseline, system, paired=True)
    assert found.freedom == pytest.approx(3), "what both sides share cancels"
    apart = LanguageSample.of(baseline, system)
    assert apart.high - apart.low > found.high - found.low


def test_noise_of_examples_within_runs_counts_once():
    moved, differences = np.array([-0.02, 0.0, 0.02]), np.array([0.01, 0.03, 0.02, 0.06])
    noise = np.random.default_rng(1).standard_normal((3, 10)) / 1000
    noise -= noise.mean(0)  # of runs alone: the mean over runs has none of it
    system = [trained(0.5 + value + moved, noise) for value in differences]
    found = LanguageSample.of([fixed(0.5)] * 4, system)
    within = 10 / 9 * float((noise**2).sum()) / (3 * 2)
    between, runs = differences.var(ddof=1) / 4, moved.var(ddof=1) / 3
    variance = between + runs - within
    freedom = variance**2 / (between**2 / 3 + runs**2 / 2)
    assert found.freedom == pytest.approx(freedom)
    assert found.high == pytest.approx(0.03 + stats.t.ppf(0.975, freedom) * variance**0.5)


def test_few_languages_and_single_runs_are_not_tested_and_the_reason_is_given():
    few = LanguageSample.of([fixed(0.5)] * 3, [fixed(0.6)] * 3)
    assert (few.low, few.p, few.untested) == (None, None, LanguageSample.FEW_LANGUAGES)
    one = LanguageSample.of([fixed(0.5)] * 4, [trained([0.6])] * 4)
    assert (one.p, one.untested) == (None, Runs.ONE_RUN)
    assert one.difference == pytest.approx(0.1)


def test_the_order_of_languages_and_seeds_does_not_matter():
    rng = np.random.default_rng(2)
    values, influences = rng.standard_normal((4, 3)), rng.standard_normal((4, 3, 10)) / 50
    system = [trained(list(v), i) for v, i in zip(values, influences, strict=True)]
    base = [fixed(0.0)] * 4
    found = LanguageSample.of(base, system)
    turned = [replace(r, values=r.values[::-1], influences=r.influences[::-1]) for r in system]
    again = LanguageSample.of(base, turned[::-1])
    assert (again.low, again.p) == (pytest.approx(found.low), pytest.approx(found.p))


@pytest.mark.parametrize("setting", [Setting(4, 0, True), Setting(8, 3, False)], ids=str)
def test_equal_systems_are_seldom_called_different(setting):
    """As `benchmarks.language_sample` shows with more rounds."""
    tests = [planted_test(setting, np.random.default_rng([7, number])) for number in range(100)]
    assert sum((test.p or 1) < 0.05 for test in tests) <= 12  # .05 and 3.2 standard errors
