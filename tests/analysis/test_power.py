"""Tests of planned power: by hand where nothing is trained, and by what more runs must do."""

import math

import numpy as np
import pytest

from benchmarks.significance import Cell, Side, planted, share_found
from raxalign.analysis.power import Assumed, Design
from raxalign.analysis.significance import Spread, TrainedSide
from raxalign.lazy import load

stats = load("scipy.stats")  # whose import takes a second


def test_without_runs_as_chance_power_is_that_of_a_t_test():
    spread = Spread(0.01**2, clusters=2000)
    smallest = Design.of(spread).smallest()
    quantiles = stats.t.ppf(0.975, 1999) + stats.norm.ppf(0.8)
    assert smallest == pytest.approx(0.01 * quantiles, rel=1e-4)
    found = stats.nct.sf(stats.t.ppf(0.975, 1999), 1999, smallest / 0.01)
    assert Design.of(spread).power(smallest) == pytest.approx(found, abs=2e-3)
    assert Design.of(spread).power(0) == pytest.approx(0.05, abs=1e-3), "false alarms"


def test_one_of_several_comparisons_is_tested_at_the_level_over_their_number():
    """With three runs of a side that varies between runs, and without any."""
    alone = Spread(0.01**2, clusters=2000)
    among = stats.t.ppf(1 - 0.05 / 400 / 2, 1999) + stats.norm.ppf(0.8)
    assert Design.of(alone, 400).smallest() == pytest.approx(0.01 * among, rel=1e-4)
    assert Design.of(alone, 400).power(0) == pytest.approx(0.05 / 400, rel=0.05)
    trained = Spread(1e-12, 2000, (TrainedSide(3, 0.01**2, 0.0),))
    rng = np.random.default_rng(0)
    runs = rng.normal(scale=0.01 * 3**0.5, size=(200_000, 3)).astype(np.float64)
    error = runs.std(1, ddof=1) / 3**0.5
    for count in (1, 10):
        smallest = Design.of(trained, count).smallest()
        critical = stats.t.ppf(1 - 0.05 / count / 2, 2)
        found = (abs(runs.mean(1) + smallest) > critical * error).mean()
        assert found == pytest.approx(0.8, abs=0.01)
    assert Design.runs_for(trained, 0.03, 100) > Design.runs_for(trained, 0.03)


def test_nothing_varies_and_any_difference_is_found():
    assert Design.of(Spread(0.0, clusters=100)).smallest() == pytest.approx(0, abs=1e-9)


def test_the_spread_with_other_runs_and_examples_follows_by_hand():
    # two runs: the mean over runs has .0004 between runs, of which .0001 is noise of the examples
    spread = Spread(0.0006, 500, (TrainedSide(2, 0.0004, 0.0001),))
    other = spread.at([8], examples=4)
    within = 0.0001 * 2 / 8 / 4
    assert other.trained == (TrainedSide(8, pytest.approx(0.0003 * 2 / 8 + within), within),)
    assert other.examples == pytest.approx(0.0005 / 4 + within)
    assert other.clusters == 2000
    same = spread.at([2])
    assert (same.examples, same.trained[0].between) == pytest.approx((0.0006, 0.0004))


def test_what_is_assumed_gives_the_variance_of_shared_examples_and_of_each_sides_own():
    shared = Assumed(examples=(400,), run_sd=(0,), disagree=12).spread(1)
    assert (shared.examples, shared.clusters) == (pytest.approx(0.12 / 400), 400)
    apart = Assumed(examples=(400, 100), run_sd=(0,), accuracy=80).spread(1)
    assert (apart.examples, apart.clusters) == (pytest.approx(0.16 / 400 + 0.16 / 100), 500)


def test_the_runs_that_are_asked_for_find_the_effect_and_one_less_does_not():
    sides = (TrainedSide(5, 0.004**2, 0.001**2), TrainedSide(5, 0.003**2, 0))
    spread = Spread(0.004**2, 5000, sides)
    runs = Design.runs_for(spread, 0.02)
    assert runs is not None
    assert Design.of(spread.at([runs, runs])).power(0.02) >= 0.8
    assert Design.of(spread.at([runs - 1] * 2)).power(0.02) < 0.8
    assert Design.runs_for(spread, 0.005) is None, "the examples alone vary by .004"


@pytest.mark.parametrize(("power", "effect"), [(0.8, 0.01), (1.0, 0.1)])
def test_where_nothing_is_trained_runs_do_not_help(power, effect):
    spread = Spread(0.005**2, 1000)
    assert Design.runs_for(spread, effect) == (1 if power == 1.0 else None)


def test_a_planned_share_of_true_differences_is_found():
    """As `benchmarks.significance` shows with more rounds."""
    planned = Cell(1000, Side(4, 1.0), Side(4, 1.0))
    baseline, system = planted(Cell(1000, Side(100, 1.0), Side(100, 1.0)), np.random.default_rng(1))
    spread = Spread.of([system, baseline])
    assert spread is not None
    smallest = Design.of(spread.at([4, 4])).smallest()
    found = share_found(Cell(1000, planned.baseline, planned.system, 100 * smallest), 300)
    assert abs(found - 0.8) < 3 * math.sqrt(0.8 * 0.2 / 300)
