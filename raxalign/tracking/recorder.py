"""The runs of one grid in MLflow: that of the grid, with its files, one for each cell, and below it
one for each of its trials.

Trials write curves to a spool in the storage; the ledger holds their results. One driver copies
both to MLflow while a grid runs. What it could not copy (a server that is down), and what another
driver of the same grid has made, it copies at its end, or `sync` later.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from raxalign.analysis.cells import Cell, cells
from raxalign.errors import DamagedArtifact
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.plan.values.comparisons import Compared, comparisons
from raxalign.plan.values.results import rows
from raxalign.store.lease import Lease
from raxalign.tracking import runs
from raxalign.tracking.client import Target, connect, find_experiment, is_of_store, only_writer
from raxalign.tracking.page import Page
from raxalign.tracking.registry import KIND, Change, Registry, RunState
from raxalign.tracking.run_writer import EndedTrial, RunWriter


@dataclass(frozen=True)
class Event:
    """A trial that began, or `ended`: with results in the ledger, with an error, or early, where a
    search `pruned` it (then at what step).
    """

    trial: Trial
    ended: bool = False
    error: str | None = None
    pruned: str = ""


class Recorder:
    """Writes a plan's trials to MLflow. Every call may raise what the client raises, and may be
    repeated. Between `open` and `close` or `abandon` it is the only writer of the grid's runs.

    `left` is the number of trials that `close` still has to copy (None before it counted them).
    """

    def __init__(self, plan: Plan, target: Target) -> None:
        self._plan, self._target, self._ledger = plan, target, target.storage.ledger
        self._client = connect(target.uri)
        experiment = find_experiment(self._client, target.uri, plan.name)
        self._page = Page(self._client, experiment)
        self._runs = Registry(self._client, experiment)
        self._writer = RunWriter(plan, target.storage, self._runs, self._grid)
        self._held = ExitStack()
        self._lease: Lease | None = None
        self._mine: dict[str, Trial] = {}
        self.left: int | None = None

    @property
    def copied(self) -> int:
        """How many changes of runs the store has accepted: it grows while there is progress."""
        return self._runs.saved

    def open(self) -> None:
        """Become the only writer, end the runs that a dead one left running, mark the run of the
        grid as running, and keep the grid and the plan with it. Raises `TrackingHeld` where another
        driver is the writer.
        """
        self._lease = self._held.enter_context(only_writer(self._target, self._plan.name))
        try:
            self._end_running(self._runs.load())
            self._runs.save(self._grid(), Change(status="RUNNING"))
            self._page.show(self._plan, {})
            self._client.log_text(self._grid().id, self._target.grid_text, "grid.yaml")
            self._client.log_text(self._grid().id, self._plan.to_json(), "plan.json")
        except BaseException:
            self._held.close()
            raise

    def beat(self) -> None:
        """Copy the curves of the trials that run."""
        self._check()
        for trial in self._mine.values():
            self._writer.write_curves(trial)

    def keep(self, folder: Path) -> None:
        """Put a report's files with the run of the grid."""
        self._client.log_artifacts(self._grid(status="FINISHED").id, str(folder), "report")

    def describe(self, answer: str) -> None:
        """Describe the experiment by the answer of its results and by links."""
        grid = self._runs.find(runs.grid_run(self._plan).key)
        self._page.describe(answer, grid.id if grid else None)

    def take(self, events: Sequence[Event]) -> None:
        """Write trials that began or ended. One that did both is written once."""
        self._check()
        begun = Counter(event.trial.key for event in events if not event.ended)
        for key, event in {event.trial.key: event for event in events}.items():
            trial = event.trial
            if event.ended:
                there = {k for k in trial.evaluations.values() if self._ledger.has(k)}
                ended = EndedTrial(trial, there, event.error, event.pruned, begun[key])
                self._writer.end(ended)
                self._mine.pop(key, None)
                self._runs.drop(runs.trial_key(trial))
            else:
                self._writer.begin(trial, begun[key])
                self._mine[key] = trial

    def close(self) -> int:
        """Write the rest and the cells, and end the run of the grid; returns how many trials have
        results. Where an error of this side is in the way, nothing is left running.
        """
        try:
            return self._close()
        except Exception as error:
            if not is_of_store(error):
                self.abandon()
            raise

    def _close(self) -> int:
        there: set[str] | None = None
        while there != (now := set(self._ledger.keys())):  # another driver may add to it meanwhile
            there = now
            self._check()
            known = self._runs.load()
            brought, failed = self._catch_up(known, there)
            found = cells(rows(self._plan, self._ledger), self._plan.pivot, self._plan.measured)
            compared = self._compared(found)
            for cell in found:
                self._writer.write_cell(cell, compared)
        self._page.show(self._plan, dict.fromkeys(name for cell in found for name in cell.values))
        self._end_running(known)
        self._runs.save(self._grid(), Change(status="FAILED" if failed else "FINISHED"))
        self._held.close()
        return brought

    def abandon(self) -> None:
        """End all that is running, since this process ends."""
        self._check()
        self._end_running(self._runs.load())
        self._runs.save(self._grid(), Change(status="KILLED"))
        self._held.close()

    def release(self) -> None:
        """Be the only writer no more."""
        self._held.close()

    def _check(self) -> None:
        """Raise `LeaseLost` where another driver has taken over the runs of the grid."""
        assert self._lease is not None
        self._lease.check()

    def _grid(self, status: str | None = None) -> RunState:
        """Return the run of the grid; one that is made has a status."""
        wanted = runs.grid_run(self._plan)
        found = self._runs.find(wanted.key)
        if found is None:
            found = self._runs.make(wanted)
            self._runs.save(found, Change(status=status))
        return found

    def _end_running(self, known: Mapping[str, RunState]) -> None:
        for run in known.values():
            if run.status == "RUNNING" and run.tags[KIND] != "grid":
                self._runs.save(run, Change(status="KILLED"))

    def _catch_up(self, known: Mapping[str, RunState], there: set[str]) -> tuple[int, int]:
        """Write what the ledger has and the runs lack; returns how many trials have results, and
        how many have failed.
        """
        brought = failed = 0
        failures = self._ledger.failures(trial.key for trial in self._plan.trials)
        behind: list[EndedTrial] = []
        for trial in self._plan.trials:
            keys = set(trial.evaluations.values())
            failure = None if there.issuperset(keys) else failures.get(trial.key)
            brought, failed = brought + bool(there & keys), failed + bool(failure)
            whole = self._writer.is_whole(known.get(runs.trial_key(trial)), keys)
            if failure or (there & keys and not whole):
                message = failure["message"] if failure else None
                behind.append(EndedTrial(trial, there & keys, message))
        self.left = len(behind)
        for ended in behind:
            key = runs.trial_key(ended.trial)
            self._writer.end(ended, known.get(key))
            self._runs.drop(key)
            self.left -= 1
        return brought, failed

    def _compared(self, found: Sequence[Cell]) -> Sequence[Compared]:
        """Test the cells; returns nothing where predictions are damaged, which a warning names:
        means are copied all the same.
        """
        try:
            return comparisons(found, self._plan, self._ledger)
        except DamagedArtifact as error:
            warnings.warn(str(error), stacklevel=2)
            return []
