"""One driver's part in bringing a grid: a parent run, a run for each trial, and runs of cells.

Trials write curves to a spool in the storage; the ledger holds their results. The driver copies
both to MLflow while a grid runs. What it could not copy (a server that is down) `sync` copies
later. What a run already has is read from the run itself, so copying twice changes nothing.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from raxalign.analysis.cells import Cell, cells
from raxalign.errors import DamagedArtifact
from raxalign.plan.comparisons import Compared, comparisons
from raxalign.plan.plan import Plan
from raxalign.plan.results import rows, with_added
from raxalign.plan.trial import Trial
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool
from raxalign.tracking import drivers, runs
from raxalign.tracking.client import Target, connect, find_experiment
from raxalign.tracking.registry import KIND, PARENT, Change, Entry, Registry
from raxalign.tracking.together import Copies
from raxalign.tracking.turns import Turns

_ATTEMPT, _ERROR, _PRUNED = "raxalign.attempt", "raxalign.error", "raxalign.pruned"
_RESULTS, _CURVES = "raxalign.results", "raxalign.curves"
_LONGEST_ERROR = 5000  # characters; MLflow takes 8,000


class Recorder:
    """Brings a plan's trials to MLflow. Every call may raise what the client raises, and may be
    repeated.

    Each call takes its turn among the drivers of the store, so that what it reads is still so when
    it writes. `left` is the number of trials that `close` still has to copy (None before it
    counted them).
    """

    def __init__(self, plan: Plan, target: Target) -> None:
        self._plan, self._target = plan, target
        self._ledger = Ledger(target.root)
        self._client = connect(target.uri)
        self._turns = Turns(target.uri, target.root)
        experiment = find_experiment(self._client, target.uri, plan.name)
        self._runs = Registry(self._client, experiment, self._turns)
        self._copies = Copies(self._client, self._runs, self._turns)
        self._driver = drivers.this_driver()
        self._parent: Entry | None = None
        self._mine: dict[str, Trial] = {}
        self.left: int | None = None

    @property
    def copied(self) -> int:
        """How many changes of runs the store has accepted: it grows while there is progress."""
        return self._runs.saved

    def open(self) -> None:
        """Sign on at the parent run and mark it as running, keep the grid and the plan with it, and
        end the runs that a dead driver left running.
        """
        with self._turns.take():
            parent = self._sign_on()
        self._client.log_text(parent.id, self._target.grid_text, "grid.yaml")
        self._client.log_text(parent.id, self._plan.to_json(), "plan.json")

    def beat(self) -> None:
        """Give a sign of life, and copy the curves of the trials that run."""
        with self._turns.take():
            self._sign_on()
            for trial in self._mine.values():
                entry = self._runs.find(runs.trial_key(trial))
                if entry:
                    points, marks = self._curves(trial, entry)
                    self._runs.save(entry, Change(points=points, tags=marks))

    def keep(self, folder: Path) -> None:
        """Put a report's files with the parent run."""
        with self._turns.take():
            wanted = runs.grid_run(self._plan)
            parent = self._runs.find(wanted.key)
            if parent is None:
                parent = self._runs.save(self._runs.make(wanted, {}), Change(status="FINISHED"))
        self._client.log_artifacts(parent.id, str(folder), "report")

    def start(self, trial: Trial) -> None:
        """Bring a trial that begins, again where its worker was lost."""
        wanted = runs.trial_run(self._plan, trial)

        def begin(entry: Entry | None) -> None:
            entry = entry or self._make(wanted)
            attempt = str(int(entry.tags.get(_ATTEMPT, 0)) + 1)
            self._runs.save(
                entry, Change(params=wanted.params, tags={_ATTEMPT: attempt}, status="RUNNING")
            )

        with self._turns.take():
            self._copies.one(wanted.key, begin)
        self._mine[trial.key] = trial

    def finish(self, trial: Trial, error: str | None) -> None:
        """Bring the results and curves of a trial that ended."""
        there = {key for key in trial.evaluations.values() if self._ledger.has(key)}
        with self._turns.take():
            key = runs.trial_key(trial)
            self._copies.one(key, lambda entry: self._bring(trial, entry, there, error))
        self._mine.pop(trial.key, None)

    def prune(self, trial: Trial, where: str) -> None:
        """Bring the curves of a trial that a search ended early, and `where` it stands."""

        def end(entry: Entry | None) -> None:
            entry = entry or self._make(runs.trial_run(self._plan, trial))
            points, marks = self._curves(trial, entry)
            tags = {**marks, _PRUNED: where}
            self._runs.save(entry, Change(points=points, tags=tags, status="FINISHED"))

        with self._turns.take():
            self._copies.one(runs.trial_key(trial), end)
        self._mine.pop(trial.key, None)

    def close(self) -> int:
        """Bring the rest and the cells, sign off, and end the parent run where no other driver
        lives; returns how many trials have results.
        """
        found = cells(rows(self._plan, self._ledger), self._plan.pivot)
        compared = self._compared(found)
        with self._turns.take():
            self._sign_on()
            known = self._runs.all()
            brought, failed = self._catch_up(known)
            cell_keys = [runs.cell_run(self._plan, cell).key for cell in found]
            copies = [partial(self._bring_cell, cell, compared) for cell in found]
            self._copies.all(list(zip(cell_keys, copies, strict=True)), known)
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
        """Sign at the parent run, then mark it as running; where no other driver lives, what runs
        was left by a dead one and is ended.
        """
        wanted, sign = runs.grid_run(self._plan), {self._driver.tag: self._driver.sign()}
        parent = self._runs.find(wanted.key) or self._runs.make(wanted, sign)
        parent = self._runs.save(parent, Change(tags=sign, without=drivers.dead(parent.tags)))
        first = self._parent is None
        if first and not drivers.living(parent.tags, apart_from=self._driver):
            self._end_running(self._runs.all())
        self._parent = self._runs.save(parent, Change(status="RUNNING"))
        return self._parent

    def _sign_off(self, status: str) -> None:
        """Delete this driver's sign; where no other living driver has one, end what still runs and
        the parent run itself.
        """
        assert self._parent is not None
        self._runs.save(self._parent, Change(without=[self._driver.tag]))
        known = self._runs.all()
        parent = known[runs.grid_run(self._plan).key]
        for entry in known.values():
            if entry.tags.get(PARENT, parent.id) != parent.id:  # its parent was made twice
                self._runs.save(entry, Change(tags={PARENT: parent.id}))
        if not drivers.living(parent.tags, apart_from=self._driver):
            self._end_running(known)
            dead = [self._driver.tag, *drivers.dead(parent.tags)]
            self._runs.save(parent, Change(without=dead, status=status))
        self._parent = None

    def _end_running(self, known: Mapping[str, Entry]) -> None:
        for entry in known.values():
            if entry.status == "RUNNING" and entry.tags[KIND] != "grid":
                self._runs.save(entry, Change(status="KILLED"))

    def _catch_up(self, known: Mapping[str, Entry]) -> tuple[int, int]:
        """Bring what the ledger has and the runs lack; returns how many trials have results, and
        how many have failed.
        """
        there, brought, failed = self._ledger.keys(), 0, 0
        parent = runs.grid_run(self._plan).key
        failures = self._ledger.failures(trial.key for trial in self._plan.trials)
        behind: list[tuple[Trial, str | None]] = []
        for trial in self._plan.trials:
            keys = set(trial.evaluations.values())
            failure = None if there.issuperset(keys) else failures.get(trial.key)
            brought, failed = brought + bool(there & keys), failed + bool(failure)
            entry = known.get(runs.trial_key(trial))
            if failure or (there & keys and not self._is_whole(entry, keys)):
                behind.append((trial, failure["message"] if failure else None))
        self.left = len(behind)
        shared = bool(drivers.living(known[parent].tags, apart_from=self._driver))

        def bring(of: tuple[Trial, str | None], entry: Entry | None) -> None:
            trial, error = of
            keys = there.intersection(trial.evaluations.values())
            self._bring(trial, entry, keys, error, shared=shared)

        wanted = [(runs.trial_key(of[0]), partial(bring, of)) for of in behind]
        for count in self._copies.run(wanted, known):
            self.left -= count
        return brought, failed

    def _bring(
        self,
        trial: Trial,
        entry: Entry | None,
        there: set[str],
        error: str | None,
        *,
        shared: bool = False,
    ) -> None:
        """Bring results, curves and the end of a trial. One that lacks results was killed, unless
        it is `shared` with another driver, which may still run it.
        """
        wanted = runs.trial_run(self._plan, trial)
        entry = entry or self._make(wanted)
        records = with_added(self._plan, self._ledger, self._ledger.read_many(sorted(there)))
        metrics, tags = self._results(trial, entry, records)
        points, marks = self._curves(trial, entry)
        if error:
            tags[_ERROR] = error[:_LONGEST_ERROR]
        complete = len(records) == len(set(trial.evaluations.values()))
        ended = "FINISHED" if complete else None if shared else "KILLED"
        change = Change(
            metrics=metrics,
            points=points,
            params=wanted.params,
            tags={**tags, **marks},
            without=() if error else (_ERROR, _PRUNED) if complete else (_ERROR,),
            status="FAILED" if error else ended,
        )
        self._runs.save(entry, change)

    def _bring_cell(self, cell: Cell, compared: Sequence[Compared], entry: Entry | None) -> None:
        wanted = runs.cell_run(self._plan, cell)
        entry = entry or self._make(wanted)
        metrics = runs.cell_metrics(cell, compared)
        self._runs.save(entry, Change(metrics=metrics, params=wanted.params, status="FINISHED"))

    def _make(self, wanted: runs.Run) -> Entry:
        """Make the run of a trial or a cell below the parent."""
        assert self._parent is not None
        return self._runs.make(wanted, {PARENT: self._parent.id})

    def _compared(self, found: Sequence[Cell]) -> Sequence[Compared]:
        """Test the cells; returns nothing where predictions are damaged, which a warning names:
        means are copied all the same.
        """
        try:
            return comparisons(found, self._plan, self._ledger)
        except DamagedArtifact as error:
            warnings.warn(str(error), stacklevel=2)
            return []

    def _results(
        self, trial: Trial, entry: Entry, records: Mapping[str, Mapping[str, Any]]
    ) -> tuple[Mapping[str, float], dict[str, str]]:
        """Return the metrics of a trial that its run does not have, and the tags that mark them."""
        mark = runs.results_mark(self._plan, records)
        if not records or entry.tags.get(_RESULTS) == mark:
            return {}, {}
        tags = {_RESULTS: mark, **runs.provenance_tags(records.values())}
        return runs.trial_metrics(trial, records), tags

    def _is_whole(self, entry: Entry | None, keys: set[str]) -> bool:
        """Return whether a run has all results of its trial."""
        if entry is None or entry.status != "FINISHED":
            return False
        return entry.tags.get(_RESULTS) == runs.results_mark(self._plan, keys)

    def _curves(
        self, trial: Trial, entry: Entry
    ) -> tuple[list[tuple[str, float, int, int]], dict[str, str]]:
        """Return the points beyond the last step that was copied of each curve, and the tag that
        marks them: a stretch that a resumed training repeats is copied once.
        """
        brought: dict[str, int] = json.loads(entry.tags.get(_CURVES, "{}"))
        points = [
            point
            for point in Spool(self._target.root, trial.key).read()
            if point[2] > brought.get(point[0], -1)
        ]
        last = brought | {name: step for name, _, step, _ in points}
        shown = [(f"train/{name}", value, step, moment) for name, value, step, moment in points]
        return shown, {_CURVES: json.dumps(last)} if points else {}
