"""How Tune's events reach a sweep, and losses of workers: those with progress in between do not
count.
"""

import pickle
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from ray import cloudpickle

from raxalign.errors import TransientError
from raxalign.sweep.cluster import Room
from raxalign.sweep.order import Whole
from raxalign.sweep.running import Sweep, _Ask, _cause_of, _Watch
from raxalign.sweep.work import Losses

TWICE = "its worker was lost 2 times without progress in between"


@pytest.mark.parametrize(
    ("allowed", "steps", "tried", "count"),
    [
        pytest.param(2, [0, 0, 0], [True, True, False], 3, id="without progress"),
        pytest.param(1, [200, 200, 400, 400, 600, 600], [True] * 6, 1, id="with progress anew"),
        pytest.param(1, [400, 200, 300], [True, True, False], 2, id="what goes back is none"),
    ],
)
def test_losses_without_progress_in_between_are_allowed_as_often_as_said(
    plan, job, allowed, steps, tried, count, monkeypatch
):
    marks = iter(steps)
    monkeypatch.setattr(Losses, "progress", lambda losses: (0, 0, next(marks)))
    losses = Losses(replace(job, max_failures=allowed), plan, plan.trials[0].key)
    assert [losses.another() for _ in steps] == tried
    assert losses.count == count


def test_progress_is_evaluations_then_trainings_then_steps_that_checkpoints_keep(plan, job):
    trial = next(trial for trial in plan.trials if trial.method == "rotation")
    losses = Losses(job, plan, trial.key)
    assert losses.progress() == (0, 0, 0)
    checkpoints = job.storage.local / "checkpoints" / trial.aligned
    for name in ("train/step-00000200", "train/step-00000400", "warm/step-00000100", "train/.part"):
        (checkpoints / name).mkdir(parents=True)
    assert losses.progress() == (0, 0, 500)
    job.storage.artifacts.make("aligned", trial.aligned, lambda folder: {})
    assert losses.progress() == (0, 1, 0)
    for key in trial.evaluations.values():
        job.storage.ledger.write(key, {"scores": [], "notes": {}}, None)
    assert losses.progress() == (1, 1, 0)


class TuneTrial:
    """What Tune passes to its callbacks."""

    def __init__(self, config, error=None, *, result=None):
        self.config, self.last_result, self._error = config, result, error
        self.max_failures, self.num_failures = -1, 0

    def get_error(self):
        return self._error


def watch_of(plan, job, heard):
    """What hears of losses, of which one is allowed."""
    sweep = Sweep(Whole(plan), replace(job, max_failures=1), heard, lambda: Room(job, [{"CPU": 2}]))
    sweep.ask()
    return _Watch(sweep, job)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("killed\nat work"), f"{TWICE} (killed)"),
        (TransientError("busy"), "busy (tried 2 times)"),
    ],
)
def test_tune_starts_a_trial_again_until_it_was_lost_too_often(plan, job, heard, error, message):
    trial = TuneTrial({"trial": plan.trials[1].key}, error)
    watch = watch_of(plan, job, heard)
    for number in (1, 2):
        assert Losses.GIVEN_UP not in trial.config
        assert trial.max_failures == -1
        trial.num_failures = number
        watch.on_trial_recover(1, [], trial)
    assert trial.config[Losses.GIVEN_UP] == message
    assert trial.max_failures == 2


def test_the_cause_is_known_before_it_is_in_the_storage(plan, job, tmp_path):
    trial = TuneTrial({"trial": plan.trials[1].key}, None)
    trial.pickled_error_file = str(tmp_path / "error.pkl")
    assert _cause_of(trial) is None
    Path(trial.pickled_error_file).write_bytes(cloudpickle.dumps(RuntimeError("node died\nat 3")))
    said = Losses(job, plan, "").retry(_cause_of(trial))
    again = "it is tried again, from its last checkpoint where it has one"
    assert said == f"its worker was lost (node died); {again}"


def test_another_trial_has_losses_of_its_own(plan, job, heard):
    one, other = (TuneTrial({"trial": trial.key}, RuntimeError("killed")) for trial in plan.trials)
    watch = watch_of(plan, job, heard)
    watch.on_trial_recover(1, [], one)
    watch.on_trial_recover(1, [], other)
    assert not {Losses.GIVEN_UP} & (one.config.keys() | other.config.keys())


def test_a_loss_is_described_by_the_last_line_of_a_traceback(plan, job):
    losses = Losses(job, plan, "", count=1)
    for trace in ("Traceback (most recent call last):\n  x", "ray::train() (pid=3)\n  File x.py"):
        error = RuntimeError(f"{trace}\nActorDiedError: gone")
        assert losses.end(error) == "its worker was lost once (ActorDiedError: gone)"
    group = Losses(job, plan, "", "group of workers", count=2)
    assert group.end("gone") == TWICE.replace("worker", "group of workers") + " (gone)"


@pytest.fixture
def sweep(plan, job, heard):
    """A sweep on two cores whose shared stages are all made, as far as it knows."""
    found = Sweep(Whole(plan), job, heard, lambda: Room(job, [{"CPU": 2.0}]))
    found.ask()
    while (config := found.take()) and "stage" in config:
        found.ended(config, {})
    found.first = config
    return found


def test_the_watch_tells_the_ends_of_trials_apart(sweep, job, heard):
    watch = _Watch(sweep, job)
    one, other = sweep.first, sweep.take()
    one[Losses.GIVEN_UP] = "busy (tried once)"
    watch.on_trial_error(1, [], TuneTrial(one, TransientError("busy")))
    watch.on_trial_complete(1, [], TuneTrial(other, result={"error": "no pairs"}))
    assert heard.trials == [(one["trial"], "busy (tried once)"), (other["trial"], "no pairs")]
    assert set(sweep.counts.failed) == {one["trial"], other["trial"]}
    assert job.storage.ledger.failure(sweep.run_of(one["trial"]))["message"] == "busy (tried once)"
    assert sweep.over


def test_what_tune_pickles_has_no_display(sweep, job, heard):
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(threading.Lock())
    sweep.display = threading.Lock()
    pickle.dumps([_Ask(sweep), _Watch(sweep, job)])
