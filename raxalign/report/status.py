"""How far a grid is, from the ledger alone: works while it runs, after a crash, and without Ray."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from raxalign.plan.load import Opened, reopened
from raxalign.plan.names import trial_name
from raxalign.plan.plan import Plan
from raxalign.plan.study_record import read_record
from raxalign.printing import counted
from raxalign.report.studies import status_lines
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage

_EVERY = 2.0  # seconds between two looks
_LISTED = 20  # trials of a grid whose state lists each one; `results --keys` lists any number


@dataclass(frozen=True)
class Status:
    """Counts of trials and evaluations, and the failures: (trial in words, message); `partly`
    counts trials with some of their results, `idle` those beside `trials` that have nothing to run;
    `dropped` counts stages whose weights were made and not kept.
    """

    trials: int
    done: int
    partly: int
    failed: tuple[tuple[str, str], ...]
    evaluations: int
    evaluations_done: int
    idle: int = 0
    dropped: int = 0

    @property
    def missing(self) -> int:
        """Trials that have neither all results nor a failure."""
        return self.trials - self.done - len(self.failed)

    def text(self, name: str) -> str:
        """Return the state of a grid in a line, and a line per failed trial."""
        begun = f" ({self.partly} begun)" if self.partly else ""
        idle = f"; {self.idle} more have nothing to run" if self.idle else ""
        lines = [
            f"{name}: {self.done} of {counted(self.trials, 'trial')} done, {len(self.failed)}"
            f" failed, {self.missing} to run{begun}; {self.evaluations_done} of"
            f" {counted(self.evaluations, 'evaluation')}{idle}"
        ]
        if self.dropped:
            lines.append(
                f"the weights of {counted(self.dropped, 'stage')} were not kept (run.keep); what"
                " needs them makes them again"
            )
        return "\n".join([*lines, *(f"failed: {trial}: {told}" for trial, told in self.failed)])


def status(plan: Plan, ledger: Ledger) -> Status:
    """Read the ledger."""
    there, storage = ledger.keys(), Storage(ledger.root)
    wanted = {key for trial in plan.trials for key in trial.evaluations.values()}
    asked = [trial for trial in plan.trials if trial.evaluations]
    left = [trial for trial in asked if not there.issuperset(trial.evaluations.values())]
    failures = ledger.failures([trial.key for trial in left]) if left else {}
    failed = []
    for trial in left:
        if failure := failures.get(trial.key):
            numbers = (f"{n}" for n in (trial.sentences, trial.seed) if n is not None)
            words = " ".join([trial.method, "+".join(trial.languages), *numbers])
            failed.append((f"{words} ({trial.key[:12]})", str(failure["message"])))
    dropped = {key for _, key in storage.tombstones.keys() if key in plan.stages}  # noqa: SIM118
    if dropped:
        dropped -= {key for _, key in storage.artifacts.keys()}  # noqa: SIM118
    partly = sum(not there.isdisjoint(trial.evaluations.values()) for trial in left)
    trials = (len(asked), len(asked) - len(left), partly, tuple(failed))
    idle = len(plan.trials) - len(asked)
    return Status(*trials, len(wanted), len(wanted & there), idle, len(dropped))


def trial_lines(plan: Plan, ledger: Ledger) -> list[str]:
    """Return one line per trial: the beginning of its key, how many of its evaluations are done,
    and its name.
    """
    there = ledger.keys()
    return [
        f"{trial.key[:12]}  {sum(key in there for key in trial.evaluations.values())} of"
        f" {counted(len(trial.evaluations), 'evaluation')}  {trial_name(trial, plan)}"
        + (f" {trial.sentences:,} pairs" if trial.sentences is not None else "")
        for trial in plan.trials
    ]


def state(opened: Opened) -> tuple[str, Status]:
    """Return the state of a grid in words, with its searches, and in numbers."""
    found = status(opened.plan, opened.storage.ledger)
    lines = [found.text(opened.plan.name), *status_lines(opened.plan, opened.storage)]
    if len(opened.plan.trials) <= _LISTED:
        lines += trial_lines(opened.plan, opened.storage.ledger)
    return "\n".join(lines), found


def watched(opened: Opened) -> Iterator[str]:
    """Yield the state of a grid every `_EVERY` seconds, until all is done."""
    while True:
        text, found = state(opened)
        yield text
        studies = opened.plan.studies
        if not found.missing and all(read_record(opened.storage, s).finished for s in studies):
            return
        time.sleep(_EVERY)
        opened = reopened(opened) if studies else opened
