"""Plan minus ledger: what is run, what has failed before it could, and how a sweep ends."""

from __future__ import annotations

import pytest

from raxalign.errors import TransientError
from raxalign.store.ledger import Ledger
from raxalign.sweep.prepare import Made
from raxalign.sweep.tuner import _fail_without_inputs, _Watch, pending_trials, run_grid


class TuneTrial:
    """What Tune passes to its callbacks."""

    def __init__(self, key: str, *, result: object = None, error: Exception | None = None) -> None:
        self.config, self.last_result, self._error = {"trial": key}, result, error

    def get_error(self) -> Exception | None:
        return self._error


def test_what_the_ledger_has_is_not_pending(plan, job) -> None:
    ledger = Ledger(job.root)
    assert pending_trials(plan, ledger) == list(plan.trials)
    for key in plan.trials[0].evaluations.values():
        ledger.write(key, {"scores": [], "notes": {}}, None)
    assert pending_trials(plan, ledger) == [plan.trials[1]]


def test_methods_that_train_nothing_need_no_group(plan) -> None:
    assert [plan.trains(trial) for trial in plan.trials] == [False, False]


def test_trials_without_their_inputs_fail_with_the_message_of_the_stage(plan, job, heard) -> None:
    key = next(stage.key for stage in plan.stages.values() if stage.kind == "encoder")
    ledger = Ledger(job.root)
    made = {key: Made(key, error="no text", trace="here")}
    failed = _fail_without_inputs(plan, list(plan.trials), made, ledger, heard)
    assert failed == {trial.key: "no text" for trial in plan.trials}
    assert heard.trials == [(trial.key, "no text") for trial in plan.trials]
    assert ledger.failure(plan.trials[0].key) == {"message": "no text", "trace": "here"}


def test_the_watch_tells_the_ends_of_trials_apart(plan, job, heard) -> None:
    watch = _Watch(plan, heard, job)
    one, other = (trial.key for trial in plan.trials)
    watch.on_trial_complete(1, [], TuneTrial(one, result={"error": ""}))
    watch.on_trial_complete(1, [], TuneTrial(other, result={"error": "no pairs"}))
    watch.on_trial_error(1, [], TuneTrial(one, error=TransientError("busy")))
    watch.on_trial_error(1, [], TuneTrial(other, error=RuntimeError("killed\nat work")))
    assert heard.trials == [
        (one, None),
        (other, "no pairs"),
        (one, "busy (tried once)"),
        (other, "its worker was lost once (killed)"),
    ]
    assert set(watch.failed) == {one, other}
    assert Ledger(job.root).failure(one)["message"] == "busy (tried once)"


@pytest.mark.slow
def test_a_grid_runs_what_is_missing_and_nothing_twice(plan, job, heard) -> None:
    ended = run_grid(plan, job, heard)
    assert (ended.done, ended.cached, ended.failed) == (2, 0, {})
    assert sorted(heard.trials) == sorted((trial.key, None) for trial in plan.trials)
    assert pending_trials(plan, Ledger(job.root)) == []
