"""How far a grid is, from the ledger alone: works while it runs, after a crash, and without Ray."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from raxalign.grid.load import Opened
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.printing import counted
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage

_EVERY = 2.0  # seconds between two looks
_LISTED = 20  # trials of a grid, or of one failure, that are listed; `results --keys` lists all


@dataclass(frozen=True)
class Status:
    """Counts of trials and evaluations, and the failures: trial key -> message; `partly`
    counts trials with some of their results, `idle` those beside `trials` that have nothing to run;
    `dropped` counts stages whose weights were made and not kept.
    """

    trials: int
    done: int
    partly: int
    failed: Mapping[str, str]
    evaluations: int
    evaluations_done: int
    idle: int = 0
    dropped: int = 0

    @property
    def missing(self) -> int:
        """Trials that have neither all results nor a failure."""
        return self.trials - self.done - len(self.failed)

    def text(self, plan: Plan) -> str:
        """Return the state of a grid in a line, and the failed trials by their causes."""
        begun = f" ({self.partly} begun)" if self.partly else ""
        idle = f"; {self.idle} more have nothing to run" if self.idle else ""
        lines = [
            f"{plan.name}: {self.done} of {counted(self.trials, 'trial')} done, {len(self.failed)}"
            f" failed, {self.missing} to run{begun}; {self.evaluations_done} of"
            f" {counted(self.evaluations, 'evaluation')}{idle}"
        ]
        if self.dropped:
            lines.append(
                f"the weights of {counted(self.dropped, 'stage')} were not kept (run.keep); what"
                " needs them makes them again"
            )
        return "\n".join([*lines, *self.failure_lines(plan, self.failed)])

    @classmethod
    def of(cls, plan: Plan, ledger: Ledger) -> Status:
        """Read the ledger."""
        there, storage = ledger.keys(), Storage(ledger.root)
        wanted = {key for trial in plan.trials for key in trial.evaluations.values()}
        asked = [trial for trial in plan.trials if trial.evaluations]
        left = [trial for trial in asked if not there.issuperset(trial.evaluations.values())]
        failures = ledger.failures([trial.run for trial in left]) if left else {}
        failed = {trial.key: failures.get(trial.run) for trial in left}
        told = {key: str(failure["message"]) for key, failure in failed.items() if failure}
        dropped = {key for _, key in storage.tombstones.keys() if key in plan.stages}  # noqa: SIM118
        if dropped:
            dropped -= {key for _, key in storage.artifacts.keys()}  # noqa: SIM118
        partly = sum(not there.isdisjoint(trial.evaluations.values()) for trial in left)
        trials = (len(asked), len(asked) - len(left), partly, told)
        idle = len(plan.trials) - len(asked)
        return cls(*trials, len(wanted), len(wanted & there), idle, len(dropped))

    @staticmethod
    def failure_lines(plan: Plan, failed: Mapping[str, str]) -> Iterator[str]:
        """Yield the failures of trials (key -> message) by their causes, with the first trials."""
        causes: dict[str, list[str]] = {}
        for key, message in failed.items():
            trial = f"{named(plan.by_key[key], plan)} ({key[:12]})"
            causes.setdefault(message, []).append(trial)
        for message, trials in causes.items():
            if len(trials) == 1:
                yield f"failed: {trials[0]}: {message}"
                continue
            yield f"failed: {len(trials)} trials, for one reason: {message}"
            yield from (f"  {trial}" for trial in trials[:_LISTED])
            if len(trials) > _LISTED:
                yield f"  and {len(trials) - _LISTED:,} more"

    @classmethod
    def told(cls, opened: Opened) -> tuple[str, Status]:
        """Return the state of a grid in words, with its searches, and in numbers."""
        found = cls.of(opened.plan, opened.storage.ledger)
        lines = [found.text(opened.plan)]
        if opened.plan.studies:
            from raxalign.search.words import SearchReport

            lines += SearchReport(opened.plan, opened.storage).status_lines()
        lines += filter(None, [opened.looks()[0]])
        if len(opened.plan.trials) <= _LISTED:
            lines += cls.trial_lines(opened.plan, opened.storage.ledger)
        return "\n".join(lines), found

    @classmethod
    def watched(cls, opened: Opened) -> Iterator[str]:
        """Yield the state of a grid every `_EVERY` seconds, until all is done."""
        while True:
            text, found = cls.told(opened)
            yield text
            studies, looked = opened.plan.studies, opened.looks()[1] or bool(found.failed)
            finished = all(s.record(opened.storage).finished for s in studies)
            if not found.missing and finished and looked:
                return
            time.sleep(_EVERY)
            opened = opened.again() if studies or opened.grid.stop is not None else opened

    @staticmethod
    def trial_lines(plan: Plan, ledger: Ledger) -> list[str]:
        """Return one line per trial: the beginning of its key, how many of its evaluations are
        done, and its name.
        """
        there = ledger.keys()
        return [
            f"{trial.key[:12]}  {sum(key in there for key in trial.evaluations.values())} of"
            f" {counted(len(trial.evaluations), 'evaluation')}  {named(trial, plan)}"
            for trial in plan.trials
        ]


def named(trial: Trial, plan: Plan) -> str:
    """Return a trial's name with the size of its training text."""
    size = "" if trial.sentences is None else f" {trial.sentences:,} pairs"
    return f"{plan.trial_name(trial)}{size}"
