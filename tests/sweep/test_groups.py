"""The training of a trial by a group of workers: its losses, and what it leaves to one worker."""

from dataclasses import replace

import pytest
from ray.exceptions import ActorUnavailableError
from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError
from ray.train.v2.api.exceptions import WorkerGroupError

from raxalign.errors import DataError, RaxalignError
from raxalign.stages import Workshop
from raxalign.sweep import work
from raxalign.sweep.job import Inbox
from raxalign.sweep.work import Losses, _Loss, _loss, _run_group, _run_groups, _run_inline


class Groups:
    """Ends groups of workers as a list has it, and counts how often rooms were cleared."""

    def __init__(self, job, key, ends):
        self.key, self.ends = key, ends
        self.cleared = 0

    def clear(self, job, key):
        assert key == self.key
        self.cleared += 1

    def fit(self, job, key, number):
        loss, kept = self.ends[number]
        if kept is not None:
            known = isinstance(kept, RaxalignError)
            job.keep_failure(job.run_of(key), str(kept), "", bug=not known)
        return loss


LOST = "its group of workers was lost"
DIED = _Loss("The actor died", died=True, trace="")
FAILED = _Loss("RuntimeError: odd", died=False, trace="")
OVERTAKEN = _loss(WorkerGroupError("failed", {0: RuntimeError("LeaseLost: another has it")}))


@pytest.mark.parametrize(
    ("ends", "message", "count"),
    [
        ([(None, None)], None, 1),
        ([(DIED, None), (None, None)], None, 2),
        ([(FAILED, ValueError("odd"))], "odd", 1),
        ([(OVERTAKEN, None)] * 3 + [(None, None)], None, 4),
        ([(DIED, ValueError("odd")), (None, None)], None, 2),
        ([(DIED, DataError("de.txt", "is empty"))], "de.txt: is empty", 1),
        ([(DIED, None)] * 2, f"{LOST} 2 times without progress in between (The actor died)", 2),
    ],
)
def test_a_group_that_is_lost_is_followed_by_another_and_one_that_fails_is_not(
    plan, job, monkeypatch, ends, message, count
):
    key, job = plan.trials[0].key, replace(job, max_failures=1)
    told = Groups(job, key, ends)
    monkeypatch.setattr(Workshop, "is_trained", lambda *given: False)
    monkeypatch.setattr(work, "_fit_group", told.fit)
    monkeypatch.setattr(work, "_clear_room", told.clear)
    assert _run_groups(job, key) == message
    assert told.cleared == count
    kept = job.storage.ledger.failure(job.run_of(key))
    assert (kept and kept["message"]) == message
    lines = Inbox(job.scratch).lines()
    assert len(lines) == count - 1
    for about, line, printed in lines:
        assert (about, printed) == (key, False)
        assert line.startswith(f"{LOST} (")


def test_the_dead_worker_of_a_group_is_its_cause_and_not_those_it_left():
    dead = ActorUnavailableError("The actor died", None)
    check = WorkerHealthCheckFailedError("A worker health check failed", failure=dead)
    left = RuntimeError("PeerLost: another worker of this training run is gone")
    found = _loss(WorkerGroupError("both", {0: left, 1: check}))
    assert (found.died, found.cause) == (True, str(dead).strip())
    alone = _loss(WorkerGroupError("one", {0: left}))
    assert (alone.died, alone.cause) == (False, str(left))


def test_a_trial_that_was_given_up_is_not_run_once_more(plan, job, monkeypatch):
    key = plan.trials[0].key
    monkeypatch.setattr(work, "attempt", None)
    monkeypatch.setattr(work, "_run_groups", None)
    config = {"trial": key, Losses.GIVEN_UP: "lost 3 times"}
    for answer in (_run_inline(config, job, lambda holder: 0.0), _run_group(config, job)):
        assert {**answer, "done": True} == {"trial": key, "error": "lost 3 times", "done": True}
    assert job.storage.ledger.failure(job.run_of(key))["message"] == "lost 3 times"
