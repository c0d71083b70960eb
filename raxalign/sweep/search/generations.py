"""A source run in generations: some trials, then the question for more."""

from __future__ import annotations

import time
from dataclasses import replace

from raxalign.plan.trial import Trial
from raxalign.sweep.job import Job, write_plan
from raxalign.sweep.observer import Observer, Several
from raxalign.sweep.source import Source
from raxalign.sweep.tuner import run_grid

PAUSE = 1.0  # seconds between two questions while other drivers run what is left


class _Ends(Observer):
    """Collects the trials that ended."""

    def __init__(self) -> None:
        self.ended: dict[str, str | None] = {}

    def trial_finished(self, trial: Trial, error: str | None) -> None:
        """Keep how a trial ended."""
        self.ended[trial.key] = error


def run_source(
    source: Source, job: Job, observer: Observer, *, at_once: int, address: str | None = None
) -> dict[str, str]:
    """Run all trials of a source, `at_once` at a time; returns the failures, by trial key."""
    ended: dict[str, str | None] = {}
    failed: dict[str, str] = {}
    while True:
        plan = source.more(ended, at_once)
        ended = {}
        if plan is None:
            if source.exhausted:
                return failed
            time.sleep(PAUSE)
            continue
        ends = _Ends()
        part = replace(job, plan=write_plan(plan, job.root))
        summary = run_grid(plan, part, Several([observer, ends]), address=address)
        failed |= summary.failed
        ended = {trial.key: ends.ended.get(trial.key) for trial in plan.trials}
