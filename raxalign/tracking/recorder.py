"""One driver's part in bringing a grid: the run that drivers sign on at, a run for each cell, and
below it a run for each of its trials.

Trials write curves to a spool in the storage; the ledger holds their results. The driver copies
both to MLflow while a grid runs. What it could not copy (a server that is down) `sync` copies
later.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from raxalign.analysis.cells import Cell, cells
from raxalign.errors import DamagedArtifact
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.plan.values.comparisons import Compared, comparisons
from raxalign.plan.values.results import rows
from raxalign.tracking import drivers, runs
from raxalign.tracking.batch_writes import Copies
from raxalign.tracking.client import Target, connect, find_experiment, is_of_store
from raxalign.tracking.locks import Turns
from raxalign.tracking.page import Page
from raxalign.tracking.registry import KIND, PARENT, Change, Entry, Known, Registry
from raxalign.tracking.run_writer import Ended, Filling


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
    """Brings a plan's trials to MLflow. Every call may raise what the client raises, and may be
    repeated.

    Each call takes its turn among the drivers of the store, so that what it reads is still so when
    it writes. `left` is the number of trials that `close` still has to copy (None before it
    counted them).
    """

    def __init__(self, plan: Plan, target: Target) -> None:
        self._plan, self._target = plan, target
        self._ledger = target.storage.ledger
        self._client = connect(target.uri)
        self._turns = Turns(target.uri, target.storage)
        experiment = find_experiment(self._client, target.uri, plan.name)
        self._page = Page(self._client, experiment)
        self._runs = Registry(self._client, experiment, self._turns)
        self._driver = drivers.this_driver(target.storage)
        self._known = Known(self._runs, self._driver)
        self._copies = Copies(self._client, self._runs, self._turns, self._known.forget)
        self._filling = Filling(
            plan, target.storage, self._runs, self._known.find, self._known.make
        )
        self._parent: Entry | None = None
        self._mine: dict[str, Trial] = {}
        self.left: int | None = None

    @property
    def copied(self) -> int:
        """How many changes of runs the store has accepted: it grows while there is progress."""
        return self._runs.saved

    def open(self) -> None:
        """Sign on at the run of the grid and mark it as running, keep the grid and the plan with
        it, and end the runs that a dead driver left running.
        """
        with self._turns.take():
            parent = self._sign_on()
            self._page.show(self._plan, {})
        self._client.log_text(parent.id, self._target.grid_text, "grid.yaml")
        self._client.log_text(parent.id, self._plan.to_json(), "plan.json")

    def beat(self) -> None:
        """Give a sign of life, and copy the curves of the trials that run."""
        with self._turns.take():
            self._sign_on()
            for trial in self._mine.values():
                entry = self._known.find(runs.trial_key(trial))
                if entry:
                    self._filling.bring_curves(trial, entry)

    def keep(self, folder: Path) -> None:
        """Put a report's files with the run of the grid."""
        with self._turns.take():
            wanted = runs.grid_run(self._plan)
            parent = self._runs.find(wanted.key)
            if parent is None:
                parent = self._runs.save(self._runs.make(wanted, {}), Change(status="FINISHED"))
        self._client.log_artifacts(parent.id, str(folder), "report")

    def describe(self, answer: str) -> None:
        """Describe the experiment by the answer of its results and by links."""
        parent = self._runs.find(runs.grid_run(self._plan).key)
        self._page.describe(answer, parent.id if parent else None)

    def take(self, events: Sequence[Event]) -> None:
        """Bring trials that began or ended, all in one turn. One that did both is written once."""
        last = {event.trial.key: event for event in events}
        begun = [event.trial.key for event in events if not event.ended]
        there = {
            key
            for event in last.values()
            if event.ended
            for key in event.trial.evaluations.values()
            if self._ledger.has(key)
        }
        with self._turns.take():
            assert self._parent is not None
            self._parent = self._known.look(self._parent)
            wanted = [
                (runs.trial_key(event.trial), partial(self._write, event, there, begun.count(key)))
                for key, event in last.items()
            ]
            known = {key: entry for key, _ in wanted if (entry := self._known.find(key))}
            self._copies.all(wanted, known)
        for key, event in last.items():
            if event.ended:
                self._mine.pop(key, None)
                self._known.drop(runs.trial_key(event.trial))
            else:
                self._mine[key] = event.trial

    def close(self) -> int:
        """Bring the rest and the cells, sign off, and end the run of the grid where no other driver
        lives; returns how many trials have results. Where an error of this side is in the way,
        nothing is left running.
        """
        try:
            return self._close()
        except Exception as error:
            if not is_of_store(error):
                self.abandon()
            raise

    def _close(self) -> int:
        found = cells(rows(self._plan, self._ledger), self._plan.pivot, self._plan.measured)
        compared = self._compared(found)
        with self._turns.take():
            self._sign_on()
            known = self._runs.all()
            self._known.take(known, alone=self._known.complete)
            brought, failed = self._catch_up(known)
            cell_keys = [runs.cell_key(cell) for cell in found]
            there = {key: entry for key in cell_keys if (entry := self._known.find(key))}
            copies = [partial(self._filling.bring_cell, cell, compared) for cell in found]
            self._copies.all(list(zip(cell_keys, copies, strict=True)), there)
            self._page.show(
                self._plan, dict.fromkeys(name for cell in found for name in cell.values)
            )
            self._sign_off("FAILED" if failed else "FINISHED")
        return brought

    def abandon(self) -> None:
        """End what this process has running, since it ends."""
        with self._turns.take():
            for trial in self._mine.values():
                entry = self._runs.find(runs.trial_key(trial))
                if entry and entry.status == "RUNNING":
                    self._runs.save(entry, Change(status="KILLED"))
            if self._parent is not None:
                self._sign_off("KILLED")

    def _sign_on(self) -> Entry:
        """Sign at the run of the grid, then mark it as running; where no other driver lives, what
        runs was left by a dead one and is ended.
        """
        wanted, signs = runs.grid_run(self._plan), self._known.signs
        parent = self._runs.find(wanted.key)
        self._known.check(parent)
        parent = parent or self._runs.make(wanted, signs)
        parent = self._runs.save(parent, Change(tags=signs, without=self._driver.dead(parent.tags)))
        others = self._driver.living(parent.tags)
        if not others and not self._known.complete:
            everything = self._runs.all()
            if self._parent is None:
                self._end_running(everything)
            self._known.take(everything, alone=True)
        self._parent = self._runs.save(parent, Change(status="RUNNING"))
        return self._parent

    def _sign_off(self, status: str) -> None:
        """Delete this driver's sign; where no other living driver has one, end what still runs and
        the run of the grid itself.
        """
        assert self._parent is not None
        self._runs.save(self._parent, Change(without=[self._driver.tag]))
        known = self._runs.all()
        parent = known[runs.grid_run(self._plan).key]
        self._fold(known, parent)
        if not self._driver.living(parent.tags):
            self._end_running(known)
            dead = [self._driver.tag, *self._driver.dead(parent.tags)]
            self._runs.save(parent, Change(without=dead, status=status))
        self._parent = None

    def _fold(self, known: Mapping[str, Entry], parent: Entry) -> None:
        """Put each trial below the run of its cell, which may have been made twice, and what
        belongs to none below that of the grid.
        """
        ids = {entry.id for entry in known.values()}
        cell_of = {
            runs.trial_key(t): runs.cell_key(t) for t in self._plan.trials if runs.has_cell(t)
        }
        for key, entry in known.items():
            if entry.tags[KIND] != "trial":
                continue
            cell = known.get(cell_of.get(key, ""))
            now = entry.tags.get(PARENT)
            above = cell.id if cell else now if now in ids else parent.id
            if above != now:
                self._runs.save(entry, Change(tags={PARENT: str(above)}))

    def _end_running(self, known: Mapping[str, Entry]) -> None:
        for entry in known.values():
            if entry.status == "RUNNING" and entry.tags[KIND] != "grid":
                self._runs.save(entry, Change(status="KILLED"))

    def _write(self, event: Event, there: set[str], attempts: int, entry: Entry | None) -> None:
        """Write what became of a trial."""
        assert self._parent is not None
        trial = event.trial
        if not event.ended:
            self._filling.begin(trial, entry, self._parent, attempts)
            return
        keys = there.intersection(trial.evaluations.values())
        ended = Ended(trial, keys, event.error, event.pruned, attempts)
        self._filling.bring(ended, entry, self._parent)

    def _catch_up(self, known: Mapping[str, Entry]) -> tuple[int, int]:
        """Bring what the ledger has and the runs lack; returns how many trials have results, and
        how many have failed.
        """
        assert self._parent is not None
        parent, there, brought, failed = self._parent, self._ledger.keys(), 0, 0
        failures = self._ledger.failures(trial.key for trial in self._plan.trials)
        shared = bool(self._driver.living(parent.tags))
        behind: list[Ended] = []
        for trial in self._plan.trials:
            keys = set(trial.evaluations.values())
            failure = None if there.issuperset(keys) else failures.get(trial.key)
            brought, failed = brought + bool(there & keys), failed + bool(failure)
            entry = known.get(runs.trial_key(trial))
            if failure or (there & keys and not self._filling.is_whole(entry, keys)):
                message = failure["message"] if failure else None
                behind.append(Ended(trial, there & keys, message, shared=shared))
        self.left = len(behind)
        wanted = [
            (runs.trial_key(ended.trial), partial(self._catch, ended, parent)) for ended in behind
        ]
        for count in self._copies.run(wanted, known):
            self.left -= count
        return brought, failed

    def _catch(self, ended: Ended, parent: Entry, entry: Entry | None) -> None:
        self._filling.bring(ended, entry, parent)
        self._known.drop(runs.trial_key(ended.trial))

    def _compared(self, found: Sequence[Cell]) -> Sequence[Compared]:
        """Test the cells; returns nothing where predictions are damaged, which a warning names:
        means are copied all the same.
        """
        try:
            return comparisons(found, self._plan, self._ledger)
        except DamagedArtifact as error:
            warnings.warn(str(error), stacklevel=2)
            return []
