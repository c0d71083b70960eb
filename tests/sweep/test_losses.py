"""Losses of workers: those with progress in between do not count."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray import cloudpickle, tune

from raxalign.errors import TransientError
from raxalign.sweep import tuner
from raxalign.sweep.job import Job, read_plan
from raxalign.sweep.losses import (
    GIVEN_UP,
    Losses,
    cause_of,
    describe_loss,
    describe_retry,
    progress_of,
)
from raxalign.sweep.tuner import _Watch, run_grid
from raxalign.sweep.work import run_stage


@pytest.mark.parametrize(
    ("allowed", "steps", "tried", "count"),
    [
        pytest.param(2, [0, 0, 0], [True, True, False], 3, id="without progress"),
        pytest.param(1, [200, 200, 400, 400, 600, 600], [True] * 6, 1, id="with progress anew"),
        pytest.param(1, [400, 200, 300], [True, True, False], 2, id="what goes back is none"),
    ],
)
def test_losses_without_progress_in_between_are_allowed_as_often_as_said(
    allowed, steps, tried, count
) -> None:
    marks = iter(steps)
    losses = Losses(allowed, lambda: (0, 0, next(marks)))
    assert [losses.another() for _ in steps] == tried
    assert losses.count == count


def test_progress_is_evaluations_then_trainings_then_steps_that_checkpoints_keep(plan, job):
    trial = next(trial for trial in plan.trials if trial.method == "rotation")
    assert progress_of(job, plan, trial.key) == (0, 0, 0)
    checkpoints = job.storage.local / "checkpoints" / trial.aligned
    for name in ("train/step-00000200", "train/step-00000400", "warm/step-00000100", "train/.part"):
        (checkpoints / name).mkdir(parents=True)
    assert progress_of(job, plan, trial.key) == (0, 0, 500)
    job.storage.artifacts.make("aligned", trial.aligned, lambda folder: {})
    assert progress_of(job, plan, trial.key) == (0, 1, 0)
    for key in trial.evaluations.values():
        job.storage.ledger.write(key, {"scores": [], "notes": {}}, None)
    assert progress_of(job, plan, trial.key) == (1, 1, 0)


class TuneTrial:
    """What Tune passes to its callbacks."""

    def __init__(self, key: str, error: Exception) -> None:
        self.config, self.max_failures, self._error = {"trial": key}, -1, error
        self.num_failures = 0

    def get_error(self) -> Exception:
        return self._error


def watch_of(plan, job, told=None) -> _Watch:
    """What hears of losses, of which one is allowed; what it says goes to `told`."""
    delayed = lambda key, text: (told if told is not None else []).append((key, text))  # noqa: E731
    sweep = SimpleNamespace(plan_of=lambda key: plan, delayed=delayed)
    return _Watch(sweep, replace(job, max_failures=1))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            RuntimeError("killed\nat work"),
            "its worker was lost 2 times without progress in between (killed)",
        ),
        (TransientError("busy"), "busy (tried 2 times)"),
    ],
)
def test_tune_starts_a_trial_again_until_it_was_lost_too_often(plan, job, error, message) -> None:
    trial = TuneTrial(plan.trials[1].key, error)
    watch = watch_of(plan, job)
    for number in (1, 2):
        assert GIVEN_UP not in trial.config
        assert trial.max_failures == -1
        trial.num_failures = number
        watch.on_trial_recover(1, [], trial)
    assert trial.config[GIVEN_UP] == message
    assert trial.max_failures == 2


def test_each_new_try_is_reported_and_giving_up_is_not(plan, job) -> None:
    told: list[tuple[str, str]] = []
    trial = TuneTrial(plan.trials[1].key, RuntimeError("killed\nat work"))
    watch = watch_of(plan, job, told)
    watch.on_trial_recover(1, [], trial)
    watch.on_trial_recover(1, [], trial)
    line = (
        "its worker was lost (killed); it is tried again, from its last checkpoint where it has one"
    )
    assert told == [(trial.config["trial"], line)]


def test_the_cause_is_known_before_it_is_in_the_storage(plan, job, tmp_path) -> None:
    trial = TuneTrial(plan.trials[1].key, None)
    trial.pickled_error_file = str(tmp_path / "error.pkl")
    assert cause_of(trial) is None
    Path(trial.pickled_error_file).write_bytes(cloudpickle.dumps(RuntimeError("node died\nat 3")))
    assert describe_retry(cause_of(trial)).startswith("its worker was lost (node died); it is")


def die(config: dict[str, object], job: Job) -> None:
    """A job: stages are made, and the worker of a trial is killed each time; that of `rotation`
    three times, each time after a later checkpoint.
    """
    if "stage" in config:
        return run_stage(config, replace(job, plan=config["plan"]))
    trial = read_plan(str(config["plan"])).by_key[str(config["trial"])]
    folder = Path(job.storage.root, "checkpoints", trial.aligned, "train")
    tries = len(list(folder.glob("step-*")))
    if trial.method == "rotation" and tries < 3:
        (folder / f"step-{tries + 1:08d}").mkdir(parents=True)
        os._exit(1)
    if trial.method == "none" and GIVEN_UP not in config:
        with Path(job.storage.root, "tries").open("a") as file:
            file.write("x")
        os._exit(1)
    error = config.get(GIVEN_UP, "")
    return tune.report({"trial": config["trial"], "error": error, "done": True})


@pytest.mark.slow
def test_really_killed_workers_are_replaced_as_long_as_they_get_further(
    plan, job, heard, monkeypatch
) -> None:
    dies, goes_on = sorted(plan.trials, key=lambda trial: trial.method)
    monkeypatch.setattr(tuner, "_work", die)
    failed = run_grid(plan, replace(job, max_failures=1), heard).failed
    assert failed[dies.key].startswith("its worker was lost 2 times without progress in between (")
    assert Path(job.storage.root, "tries").read_text() == "xx"
    assert sorted(heard.trials) == sorted([(dies.key, failed[dies.key]), (goes_on.key, None)])


def test_another_trial_has_losses_of_its_own(plan, job) -> None:
    one, other = (TuneTrial(trial.key, RuntimeError("killed")) for trial in plan.trials)
    watch = watch_of(plan, job)
    watch.on_trial_recover(1, [], one)
    watch.on_trial_recover(1, [], other)
    assert not {GIVEN_UP} & (one.config.keys() | other.config.keys())


def test_a_loss_is_described_by_the_last_line_of_a_traceback() -> None:
    error = RuntimeError("Traceback (most recent call last):\n  x\nActorDiedError: gone")
    assert describe_loss(error, 1) == "its worker was lost once (ActorDiedError: gone)"
    assert (
        describe_loss("gone", 1, "group of workers") == "its group of workers was lost once (gone)"
    )
