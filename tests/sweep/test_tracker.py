"""The driver's logger: a store that is down, slow or busy stops nothing, and is called what it
is.
"""

import threading

import pytest

from raxalign.store.storage import Storage
from raxalign.sweep import tracker
from raxalign.sweep.events import Began, JobEnded
from raxalign.sweep.tracker import Tracker
from raxalign.tracking.client import Target

TARGET = Target("sqlite:////x/mlflow.db", Storage("/x"), "")


class Store:
    """A recorder that keeps what it is asked for; requests wait while `gate` is closed, and fail
    while `down`.
    """

    left: int | None = None

    def __init__(self):
        self.asked: list[str] = []
        self.gate, self.down = threading.Event(), False
        self.turns = threading.Semaphore(0)
        self.gate.set()

    def __call__(self, plan, target):
        return self

    def _ask(self, what):
        self.asked.append(what)
        self.turns.release()
        self.gate.wait()
        if self.down:
            raise ConnectionError("nobody is there")

    def open(self):
        self._ask("open")

    def take(self, ended):
        self._ask(" ".join(course.pruned or "finish" for course in ended))

    def close(self):
        self._ask("close")
        return 0

    def abandon(self):
        self._ask("abandon")

    def release(self):
        """Nothing is held."""


@pytest.fixture
def store(monkeypatch):
    made = Store()
    monkeypatch.setattr(tracker, "Recorder", made)
    return made


def test_trials_that_end_while_the_store_is_busy_are_written_in_one_turn(store, plan):
    store.gate.clear()
    logger = Tracker(plan, TARGET)
    for trial in plan.trials:
        logger.hear(Began(trial))
        logger.hear(JobEnded(trial))
    store.gate.set()
    assert logger.close() is None
    assert store.asked == ["open", "finish finish", "close"]


def test_one_turn_takes_no_more_trials_than_others_can_wait_for(store, plan, monkeypatch):
    monkeypatch.setattr(tracker, "MOST", 1)
    store.gate.clear()
    logger = Tracker(plan, TARGET)
    for trial in plan.trials:
        logger.hear(JobEnded(trial))
    store.gate.set()
    assert all(store.turns.acquire(timeout=60) for _ in range(3))
    assert store.asked[1:3] == ["finish", "finish"]
    assert logger.close() is None


def test_a_store_that_is_down_to_the_end_is_named_with_its_error(store, plan):
    store.down = True
    logger = Tracker(plan, TARGET)
    logger.hear(JobEnded(plan.trials[0]))
    message = logger.close()
    assert "does not answer (ConnectionError: nobody is there)" in message


def test_what_was_missed_is_made_up_at_the_end_and_pruned_trials_are_brought_again(store, plan):
    store.down = True
    logger = Tracker(plan, TARGET)
    logger.hear(JobEnded(plan.trials[0], pruned="pruned at step 5 of 15"))
    logger.hear(JobEnded(plan.trials[1]))
    store.down = False
    assert logger.close() is None
    assert store.asked[-2:] == ["pruned at step 5 of 15 finish", "close"]


def test_an_interruption_ends_the_thread(store, plan):
    logger = Tracker(plan, TARGET)
    logger.abandon()
    assert not logger._thread.is_alive()
    assert store.asked == ["open", "abandon"]


def test_it_waits_while_the_store_answers_and_says_what_is_left(store, plan, monkeypatch):
    told = []
    logger = Tracker(plan, TARGET, told.append)
    logger.hear(Began(plan.trials[0]))
    store.gate.clear()
    lefts = iter((40, 39, 38, 0))

    def slow(timeout):
        """In each wait the store accepts something, and in the fourth the rest."""
        store.left = next(lefts)
        if not store.left:
            store.gate.set()
            join(5)

    join = logger._thread.join
    logger._recorder = store
    monkeypatch.setattr(logger._thread, "join", slow)
    assert logger.close() is None
    assert told == [
        f"{left} trials are still to be copied to {TARGET.uri}" for left in (40, 39, 38)
    ]
