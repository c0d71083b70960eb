"""Tests of power without a grid: by hand, and what cannot be assumed."""

import pytest

from raxalign.analysis.power import Assumed
from raxalign.errors import RaxalignError
from raxalign.lazy import load

stats = load("scipy.stats")  # whose import takes a second


def test_without_training_the_smallest_difference_follows_by_hand():
    given = Assumed(examples=(10_000,), run_sd=(0.0,), disagree=16.0)
    smallest = 100 * (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * (0.16 / 10_000) ** 0.5
    assert list(given.lines(5, None)) == [
        "nothing is trained, 10,000 examples: the minimum detectable effect (80 % power) is"
        f" {smallest:.2g} points"
    ]


def test_the_variances_are_those_of_runs_and_of_examples():
    spread = Assumed((2000,), (0.5, 0.0), disagree=15.0, disagree_runs=10.0).spread(4)
    assert len(spread.trained) == 1, "the baseline is not trained"
    within = 0.10 / 2 / 2000 / 4
    assert spread.trained[0].within == pytest.approx(within)
    assert spread.trained[0].between == pytest.approx(0.005**2 / 4 + within)
    assert spread.examples == pytest.approx((0.15 - 0.05) / 2000 + within)


def test_different_examples_have_the_variance_of_both():
    spread = Assumed((500, 300), (0.0,), accuracy=70.0).spread(2)
    assert spread.examples == pytest.approx(0.21 / 500 + 0.21 / 300)
    assert (spread.clusters, spread.trained) == (800, ())


def test_what_an_effect_takes_is_named_in_runs_or_in_examples():
    enough = list(Assumed((5010,)).lines(3, 2.0))
    assert enough[-1].startswith("4 of 5 find it with ")
    few = list(Assumed((1000,)).lines(5, 1.0))
    assert few[-1] == "no number of runs is enough: it takes about 4,200 examples with many runs"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Assumed(disagree=5.0), "--disagree-runs 10 is too much"),
        (Assumed(examples=(1, 2, 3)), "--examples is given 3 times; at most twice"),
        (Assumed(run_sd=(1.0, 1.0, 1.0)), "--run-sd is given 3 times; at most twice"),
    ],
)
def test_what_cannot_be_is_refused(given, message):
    with pytest.raises(RaxalignError, match=message):
        given.spread(3)
