"""A trial on a worker: its results, and which errors are kept and which are raised."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from ray.exceptions import ActorUnavailableError
from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError
from ray.train.v2.api.exceptions import WorkerGroupError

from raxalign.errors import DataError, PeerLost, RaxalignError, TransientError
from raxalign.store.ledger import Ledger
from raxalign.sweep import notices, trial
from raxalign.sweep.job import Job
from raxalign.sweep.losses import GIVEN_UP
from raxalign.sweep.notices import Notices
from raxalign.sweep.trial import (
    _Loss,
    _loss,
    _run_groups,
    attempt,
    keep_failure,
    run_group,
    run_inline,
)


@pytest.fixture
def failing(monkeypatch):
    """Let what runs or trains a trial raise an error."""

    def fail(error: Exception) -> None:
        def run_trial(workshop: object, key: str) -> None:
            raise error

        monkeypatch.setattr(trial, "run_trial", run_trial)
        monkeypatch.setattr(trial, "train_trial", run_trial)

    return fail


def test_a_wrong_input_is_kept_with_its_message_and_not_raised(plan, job, failing) -> None:
    key = plan.trials[0].key
    failing(DataError("de.txt", "is empty"))
    message = attempt(job, key)
    assert message is not None
    assert "de.txt" in message
    found = Ledger(job.root).failure(key)
    assert found["message"] == message
    assert "DataError" in found["trace"]


def test_a_bug_is_kept_with_its_type(plan, job, failing) -> None:
    failing(ValueError("odd"))
    assert attempt(job, plan.trials[0].key) == "ValueError: odd"


def test_what_a_retry_may_mend_is_raised_and_not_kept(plan, job, failing) -> None:
    key = plan.trials[0].key
    failing(TransientError("again"))
    with pytest.raises(TransientError):
        attempt(job, key)
    assert Ledger(job.root).failure(key) is None


def test_a_worker_of_a_group_raises_since_the_others_wait_for_it(plan, job, failing) -> None:
    key = plan.trials[0].key
    failing(ValueError("odd"))
    with pytest.raises(ValueError, match="odd"):
        attempt(job, key, world_size=2)
    assert Ledger(job.root).failure(key)["message"] == "ValueError: odd"


def test_losing_a_peer_is_never_kept_whatever_the_code_made_of_it(plan, job, failing) -> None:
    key = plan.trials[0].key
    failing(PeerLost("rank 1 is gone"))
    with pytest.raises(PeerLost):
        attempt(job, key, world_size=2)
    bug = TypeError("NoneType")
    bug.__context__ = PeerLost("rank 1 is gone")
    failing(bug)
    with pytest.raises(PeerLost, match="rank 1 is gone"):
        attempt(job, key, world_size=2)
    assert Ledger(job.root).failure(key) is None


def test_of_a_group_the_first_worker_to_fail_says_why(plan, job, failing) -> None:
    key = plan.trials[0].key
    for error in (ValueError("first"), TypeError("second")):
        failing(error)
        with pytest.raises(type(error)):
            attempt(job, key, world_size=2)
    assert Ledger(job.root).failure(key)["message"] == "ValueError: first"


class Groups:
    """Ends groups of workers as a list has it, and counts how often rooms were cleared."""

    def __init__(self, job: Job, key: str, ends: list[tuple[object, Exception | None]]) -> None:
        self.ledger, self.key, self.ends = Ledger(job.root), key, ends
        self.cleared = 0

    def clear(self, key: str) -> None:
        assert key == self.key
        self.cleared += 1

    def fit(self, job: Job, key: str, number: int) -> object:
        loss, kept = self.ends[number]
        if kept is not None:
            known = isinstance(kept, RaxalignError)
            keep_failure(self.ledger, key, str(kept), "", bug=not known)
        return loss


DIED = _Loss("The actor died", died=True, trace="")
FAILED = _Loss("RuntimeError: odd", died=False, trace="")


@pytest.mark.parametrize(
    ("ends", "message", "groups"),
    [
        ([(None, None)], None, 1),
        ([(DIED, None), (None, None)], None, 2),
        ([(FAILED, ValueError("odd"))], "odd", 1),
        ([(DIED, ValueError("odd")), (None, None)], None, 2),
        ([(DIED, DataError("de.txt", "is empty"))], "de.txt: is empty", 1),
        (
            [(DIED, None)] * 2,
            "its group of workers was lost 2 times without progress in between (The actor died)",
            2,
        ),
    ],
)
def test_a_group_that_is_lost_is_followed_by_another_and_one_that_fails_is_not(
    plan, job, monkeypatch, ends, message, groups
) -> None:
    key, job = plan.trials[0].key, replace(job, max_failures=1)
    told = Groups(job, key, ends)
    monkeypatch.setattr(trial, "is_trained", lambda *given: False)
    monkeypatch.setattr(trial, "_fit_group", told.fit)
    monkeypatch.setattr(trial, "remove_groups_of", told.clear)
    assert _run_groups(job, key) == message
    assert told.cleared == groups
    kept = Ledger(job.root).failure(key)
    assert (kept and kept["message"]) == message


def test_a_group_that_is_followed_by_another_is_reported(plan, job, monkeypatch) -> None:
    key, job = plan.trials[0].key, replace(job, max_failures=1)
    told = Groups(job, key, [(DIED, None), (None, None)])
    monkeypatch.setattr(trial, "is_trained", lambda *given: False)
    monkeypatch.setattr(trial, "_fit_group", told.fit)
    monkeypatch.setattr(trial, "remove_groups_of", told.clear)
    monkeypatch.setattr(notices, "EVERY", 0.0)
    assert _run_groups(job, key) is None
    [(step, line)] = Notices(job.scratch).new()
    assert step == key
    assert line.startswith("its group of workers was lost (The actor died); it is tried again")


def test_a_group_trains_and_leaves_the_evaluation_to_one_worker(plan, job, monkeypatch) -> None:
    key, reported, ran = plan.trials[0].key, [], []
    monkeypatch.setattr(trial, "run_trial", lambda workshop, key: ran.append("evaluated"))
    monkeypatch.setattr(trial, "train_trial", lambda workshop, key: ran.append("trained"))
    monkeypatch.setattr(trial.tune, "report", reported.append)
    monkeypatch.setattr(trial, "remove_groups_of", lambda key: 0)
    monkeypatch.setattr(
        trial, "_fit_group", lambda job, key, number: attempt(job, key, world_size=2)
    )
    run_group({"trial": key}, job)
    run_inline({"trial": key}, job)
    assert ran == ["trained", "evaluated"]
    assert [answer.get(trial.TRAINED_ONLY, False) for answer in reported] == [True, False]


def test_what_is_trained_already_starts_no_group(plan, job, monkeypatch) -> None:
    key, reported = plan.trials[0].key, []
    monkeypatch.setattr(trial.tune, "report", reported.append)
    monkeypatch.setattr(trial, "remove_groups_of", lambda key: 0)
    monkeypatch.setattr(trial, "is_trained", lambda *given: True)
    run_group({"trial": key}, job)
    assert reported == [{"trial": key, "error": "", trial.TRAINED_ONLY: True}]


def test_the_dead_worker_of_a_group_is_its_cause_and_not_those_it_left() -> None:
    dead = ActorUnavailableError("The actor died", None)
    check = WorkerHealthCheckFailedError("A worker health check failed", failure=dead)
    left = RuntimeError("PeerLost: another worker of this training is gone")
    found = _loss(WorkerGroupError("both", {0: left, 1: check}))
    assert (found.died, found.cause) == (True, str(dead).strip())
    alone = _loss(WorkerGroupError("one", {0: left}))
    assert (alone.died, alone.cause) == (False, str(left))


def test_a_trial_that_was_given_up_is_not_run_once_more(plan, job, failing, monkeypatch) -> None:
    key, reported = plan.trials[0].key, []
    failing(AssertionError("it was run"))
    monkeypatch.setattr(trial.tune, "report", reported.append)
    for function in (run_inline, run_group):
        function({"trial": key, GIVEN_UP: "lost 3 times"}, job)
    assert [{**answer, "done": True} for answer in reported] == [
        {"trial": key, "error": "lost 3 times", "done": True}
    ] * 2
    assert Ledger(job.root).failure(key)["message"] == "lost 3 times"


def test_scores_go_to_tune_from_time_to_time_with_the_latest_of_each(monkeypatch) -> None:
    reported, clock = [], iter([0.0, 1.0, 2.0, 2.5, 3.0])
    monkeypatch.setattr(trial.tune, "report", reported.append)
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    scores = trial.TuneScores()
    scores.take({"xnli/selection": 0.4}, 5)
    scores.take({"xnli/dev_de_accuracy": 0.3}, 5)
    scores.take({"xnli/selection": 0.5}, 10)
    assert reported == [{"xnli/selection": 0.4, "xnli/dev_de_accuracy": 0.3, "step": 5}]


def test_a_storage_that_takes_nothing_hides_no_failure(plan, job) -> None:
    keep_failure(Ledger("/dev/null/storage"), plan.trials[0].key, "odd", "")


@pytest.mark.slow
def test_a_trial_leaves_its_results_in_the_ledger(plan, job) -> None:
    found = plan.trials[0]
    assert attempt(job, found.key) is None
    assert all(Ledger(job.root).has(key) for key in found.evaluations.values())
