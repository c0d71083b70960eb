"""The time left of a sweep, on a recorded run: how far the estimate is from what then happened."""

import json
from pathlib import Path

import pytest

from raxalign.sweep.order import SweepJob
from raxalign.sweep.progress import Remaining
from tests.sweep.conftest import expected_job

RECORDED = json.loads(
    Path(__file__).with_name("quickstart_timeline.json").read_text(encoding="utf-8")
)


def replayed(share, *, slower=1.0, off=None):
    """Replay a share of the recorded run: the estimate of all of it over what it took.

    `slower` stretches the run and not what is expected; `off` multiplies what is expected of a
    group.
    """
    steps = RECORDED["steps"]
    remaining = Remaining(RECORDED["workers"])
    expected = []
    for place, (group, kind, seconds, inputs, _, _) in enumerate(steps):
        wanted, needs = (off or {}).get(group, 1.0) * seconds, frozenset(map(str, inputs))
        expected.append(expected_job(str(place), group, wanted, needs, kind))
    remaining.add(expected)
    events = sorted(
        (slower * step[moment], moment, str(place))
        for place, step in enumerate(steps)
        for moment in (4, 5)
    )
    whole = events[-1][0]
    now = share * whole
    for moment, what, key in events:
        if moment <= now:
            (remaining.started if what == 4 else remaining.ended)(key, moment)
    left = remaining.all(now)
    return (now + left) / whole


@pytest.mark.parametrize("share", [0.25, 0.4, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("slower", [1.0, 2.5, 0.5])
def test_after_a_quarter_the_end_is_known_within_a_factor_of_one_and_a_half(share, slower):
    assert 1 / 1.5 < replayed(share, slower=slower) < 1.5


def test_a_wrong_expectation_of_one_group_is_mended_when_its_first_step_has_ended():
    wrong = {"tuned xnli": 3.0}
    assert replayed(0.2, off=wrong) > replayed(0.45, off=wrong)
    assert 1 / 1.5 < replayed(0.45, off=wrong) < 1.5


def test_chains_are_followed_and_workers_share_what_is_left():
    remaining = Remaining(2)
    trials = [expected_job(f"{n}", "trial", 10.0, frozenset({"encoder"})) for n in range(3)]
    remaining.add([expected_job("encoder", "encoder", 60.0), *trials])
    assert remaining.all(0.0) == 60 + 20  # nothing has begun
    remaining.started("encoder", 0.0)
    assert remaining.all(0.0) == 60 + 20
    assert remaining.all(30.0) == 30 + 20
    assert remaining.of("encoder", 45.0) == 15
    assert remaining.of("0", 45.0) is None


def test_a_step_that_is_late_makes_its_family_late_too():
    remaining = Remaining(1)
    both = (("a", "x"), ("b", "y"))
    remaining.add(expected_job(key, group, 10.0, family="model") for key, group in both)
    remaining.add([expected_job("c", "z", 10.0, family="data")])
    remaining.started("a", 0.0)
    assert remaining.all(10.0) == pytest.approx(1 + 10 + 10)  # late by a tenth of its time
    assert remaining.all(20.0) == pytest.approx(2 + 20 + 10)


def test_many_steps_cost_no_simulation_and_give_the_same_sum():
    remaining = Remaining(4)
    remaining.add(expected_job(str(number), "trial", 10.0) for number in range(1_000))
    for number in range(4):
        remaining.started(str(number), 0.0)
    assert remaining.all(0.0) == pytest.approx(2_500)
    assert remaining.all(5.0) == pytest.approx(2_495)
    for number in range(4):
        remaining.ended(str(number), 20.0)
    assert remaining.all(20.0) == pytest.approx(996 * 20 / 4, rel=0.2)


def test_a_failed_step_that_never_began_teaches_nothing():
    remaining = Remaining(1)
    remaining.add([expected_job("a", "x", 10.0), expected_job("b", "x", 10.0)])
    remaining.ended("a", 5.0)
    remaining.started("b", 5.0)
    assert remaining.all(5.0) == 10.0
    remaining.ended("b", 15.0)
    assert remaining.all(15.0) is None


def test_no_time_left_is_told_before_a_job_of_each_group_without_an_estimate_has_ended():
    remaining = Remaining(1)
    groups = {"a": "trained", "b": "trained", "d": "quick"}
    remaining.add(
        expected_job(key, group, 10.0, family=SweepJob.UNKNOWN) for key, group in groups.items()
    )
    remaining.ended("d", 0.0, 1.0)
    remaining.add([expected_job("c", "c", 10.0, family="model")])
    remaining.started("a", 0.0)
    assert remaining.all(0.0) is None, "a quick job says nothing of the others"
    assert remaining.of("a", 5.0) is None
    remaining.ended("a", 100.0)
    assert remaining.all(100.0) == pytest.approx(100 + 10), "the known job keeps its own estimate"
    remaining.started("b", 100.0)
    assert remaining.of("b", 130.0) == pytest.approx(70)
