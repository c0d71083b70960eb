"""Running the searches of a grid: suggestions in, results in the ledger out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from raxalign.errors import StorageError
from raxalign.plan.load import Opened, reopened
from raxalign.plan.study import Study
from raxalign.plan.tried import read_record, saved_words
from raxalign.printing import to_stderr
from raxalign.store.alive import beating
from raxalign.sweep.events import Hear
from raxalign.sweep.job import Job
from raxalign.sweep.running import Summary
from raxalign.sweep.search.journal import Journal
from raxalign.sweep.search.run import BEAT, Owner
from raxalign.sweep.search.source import SearchSource
from raxalign.sweep.tuner import run_sweep


def search(
    opened: Opened, studies: Sequence[Study], job: Job, hear: Hear
) -> tuple[Opened, Summary]:
    """Run studies until their budgets are spent, then confirm their best points with fresh seeds.

    Args:
        opened: The grid.
        studies: Those of its studies that are run.
        job: What workers need to know; its plan is replaced.
        hear: Receives what happens.

    Returns:
        The grid with everything that the studies suggested, and how its trials ended.
    """
    seconds = opened.grid.search.timeout_seconds if opened.grid.search is not None else None
    source = SearchSource(
        opened,
        Journal.open(opened.storage, job.storage.local),
        Owner(opened.storage),
        studies,
        None if seconds is None else time.monotonic() + seconds,
        job.at_once,
    )
    source.owner.beat()
    try:
        with beating(source.owner.beat, every=BEAT, name="raxalign-search"):
            name, address = opened.plan.name, opened.run.address
            ended = run_sweep(source, replace(job, plan=""), hear, name=name, address=address)
    finally:
        with suppress(StorageError):  # others see that the process has ended
            source.owner.leave()
    for study in studies if ended.pruned else ():
        if saved := saved_words(read_record(opened.storage, study)):
            to_stderr(f"search {study.about}: {saved}")
    return reopened(source.opened), ended
