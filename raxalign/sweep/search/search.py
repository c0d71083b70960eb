"""Running the searches of a grid: suggestions in, results in the ledger and in MLflow out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from raxalign.errors import StorageError
from raxalign.plan.load import Opened, reopened
from raxalign.plan.study import Study
from raxalign.plan.tried import read_record, saved_words
from raxalign.printing import to_stderr
from raxalign.store.alive import beating
from raxalign.sweep.collecting import Collector
from raxalign.sweep.events import all_of
from raxalign.sweep.job import Job
from raxalign.sweep.progress import Progress
from raxalign.sweep.search.journal import Journal
from raxalign.sweep.search.owner import BEAT, Owner
from raxalign.sweep.search.source import SearchSource
from raxalign.sweep.tracker import Tracker
from raxalign.sweep.tuner import run_sweep
from raxalign.tracking.client import Target


@dataclass(frozen=True)
class SearchSummary:
    """How the searches of a grid ended: the grid with everything that they suggested, the number of
    trials that were run, the failures (trial key -> message), and messages for the user.
    """

    opened: Opened
    ran: int
    failed: dict[str, str]
    messages: list[str]


def search(opened: Opened, studies: Sequence[Study], job: Job, target: Target) -> SearchSummary:
    """Run studies until their budgets are spent, then confirm their best points with fresh seeds.

    Args:
        opened: The grid.
        studies: Those of its studies that are run.
        job: What workers need to know; its plan is replaced.
        target: The tracking store.
    """
    source = SearchSource(
        opened,
        Journal.open(opened.storage, job.storage.local),
        Owner(opened.storage),
        studies,
        _deadline(opened),
        job.at_once,
    )
    progress, tracker = Progress(opened.storage.ledger), Tracker(opened.plan, target)
    try:
        with _living(source.owner):
            ended = run_sweep(
                source,
                replace(job, plan=""),
                all_of(progress.hear, tracker.hear, Collector(opened.storage).hear),
                name=opened.plan.name,
                address=opened.run.address,
            )
    except BaseException:
        progress.stop()
        tracker.abandon()
        raise
    message = tracker.close()
    opened = reopened(source.opened)
    for study in studies if ended.pruned else ():
        if saved := saved_words(read_record(opened.storage, study)):
            to_stderr(f"search {study.about}: {saved}")
    return SearchSummary(opened, ended.done, ended.failed, [message] if message else [])


def _deadline(opened: Opened) -> float | None:
    settings = opened.grid.search
    seconds = settings.timeout_seconds if settings is not None else None
    return None if seconds is None else time.monotonic() + seconds


@contextmanager
def _living(owner: Owner) -> Iterator[None]:
    """Give signs of life meanwhile."""
    owner.beat()
    try:
        with beating(owner.beat, every=BEAT, name="raxalign-search"):
            yield
    finally:
        with suppress(StorageError):  # others see that the process has ended
            owner.leave()
