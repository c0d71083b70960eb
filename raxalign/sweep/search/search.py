"""Running the searches of a grid: suggestions in, results in the ledger and in MLflow out."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from raxalign.plan.load import Opened, reopened
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.study import Study
from raxalign.plan.trial import Trial
from raxalign.store.ledger import Ledger
from raxalign.sweep.job import Job
from raxalign.sweep.observer import Observer, Several
from raxalign.sweep.progress import Progress
from raxalign.sweep.search.generations import run_source
from raxalign.sweep.search.journal import Journal
from raxalign.sweep.search.owner import BEAT, Owner
from raxalign.sweep.search.source import SearchSource
from raxalign.sweep.tracker import Tracker
from raxalign.tracking.client import Target

DRIVERS = "drivers"


@dataclass(frozen=True)
class Searched:
    """How the searches of a grid ended: the grid with everything that they suggested, the number of
    trials that were run, the failures (trial key -> message), and whether all studies are over.
    """

    opened: Opened
    ran: int
    failed: dict[str, str]
    messages: list[str]


class _Whole(Observer):
    """Passes on the generations as one grid that grows."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.ran = 0

    def grid_started(self, plan: Plan, pending: int, cached: int, stages: int) -> None:
        """Add a generation."""
        self._observer.grid_grew(plan, pending, cached, stages)

    def stage_finished(self, stage: Stage, seconds: float | None, error: str | None) -> None:
        """Pass it on."""
        self._observer.stage_finished(stage, seconds, error)

    def trial_started(self, trial: Trial) -> None:
        """Pass it on."""
        self._observer.trial_started(trial)

    def trial_finished(self, trial: Trial, error: str | None) -> None:
        """Count it and pass it on."""
        self.ran += 1
        self._observer.trial_finished(trial, error)

    def noticed(self, message: str) -> None:
        """Pass it on."""
        self._observer.noticed(message)


def search(opened: Opened, studies: Sequence[Study], job: Job, target: Target) -> Searched:
    """Run studies until their budgets are spent, then confirm their best points with fresh seeds.

    Args:
        opened: The grid.
        studies: Those of its studies that are run.
        job: What workers need to know; its plan is replaced.
        target: The tracking store.
    """
    source = SearchSource(
        opened, Journal.open(opened.root, job.local), _owner(job), studies, _deadline(opened)
    )
    progress, tracker = Progress(Ledger(opened.root)), Tracker(opened.plan, target)
    whole = _Whole(Several([progress, tracker]))
    progress.grid_started(opened.plan, 0, 0, 0)
    try:
        with _beating(source.owner):
            failed = run_source(
                source,
                job,
                whole,
                at_once=job.at_once or max(1, (os.cpu_count() or 1) // (job.threads * job.workers)),
                address=opened.run.address,
            )
    except BaseException:
        progress.stop()
        tracker.abandon()
        raise
    progress.grid_finished(len(failed))
    message = tracker.close()
    return Searched(reopened(source.opened), whole.ran, failed, [message] if message else [])


def _owner(job: Job) -> Owner:
    return Owner(job.local / "studies" / DRIVERS)


def _deadline(opened: Opened) -> float | None:
    settings = opened.grid.search
    seconds = settings.timeout_seconds if settings is not None else None
    return None if seconds is None else time.monotonic() + seconds


@contextmanager
def _beating(owner: Owner) -> Iterator[None]:
    """Give signs of life meanwhile, in a thread of its own."""
    ended = threading.Event()

    def work() -> None:
        while True:
            owner.beat()
            if ended.wait(BEAT):
                return

    owner.beat()
    thread = threading.Thread(target=work, name="raxalign-search", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        owner.leave()
