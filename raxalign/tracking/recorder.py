"""The runs of one grid in MLflow: that of the grid, with its files, one for each cell, and below it
one for each of its trials; and one for each configuration in each language, which compares.

The ledger holds what trials result in, and a spool in the storage their curves. The run of a trial
is written from these alone, whole and once: when the trial has ended, else when the grid ends or
by `sync`. What a run already has is read from the run itself, so writing it twice changes nothing.
Runs of trials that are running, with the first points of their curves, are apart (`follow`): what
is lost of them is written with the rest.
"""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from raxalign.analysis.cells import Cell
from raxalign.errors import DamagedArtifact
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.printing import masked
from raxalign.store.key import digest
from raxalign.store.lease import Held
from raxalign.store.spool import Spool
from raxalign.tracking.client import NOTES, Target, noted
from raxalign.tracking.runs import Change, PlanRuns, Run, experiment_tags
from raxalign.values.comparisons import Compared, comparisons
from raxalign.values.results import csv_parts, rows, with_added
from raxalign.values.scoreboard import Scoreboard

BATCH = 900  # MLflow takes at most 1,000 entries in one request
KEY, _KIND, PARENT = "raxalign.key", "raxalign.kind", "mlflow.parentRunId"
_STORAGE, _MADE, _FILE = "raxalign.storage", "raxalign.made_of", "raxalign.file."
_MOST_PARTS = 400  # of 18 characters each; MLflow takes 8,000


@dataclass
class RunState:
    """A run as it was last read or written; `begun` is in milliseconds, `made` as `Run` has it
    (empty: an older version has made the run).
    """

    key: str
    id: str
    status: str
    begun: int
    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    data: bool = False  # whether MLflow knows its data

    @classmethod
    def of(cls, run: Any) -> RunState:
        """Return the state of a run of MLflow."""
        info, data = run.info, run.data
        return cls(
            data.tags[KEY],
            info.run_id,
            info.status,
            info.start_time,
            dict(data.tags),
            dict(data.params),
            dict(data.metrics),
            made=dict(part.split(":") for part in data.tags.get(_MADE, "").split()),
            data=bool(run.inputs and run.inputs.dataset_inputs),
        )

    def fits(self, made: Mapping[str, str]) -> bool:
        """Return whether its values are computed from the same: what both name is equal."""
        both = self.made.keys() & made.keys()
        return not (self.made and made) or (
            bool(both) and all(self.made[part] == made[part] for part in both)
        )


class Registry:
    """The runs of one experiment by their keys, as the drivers of a `storage` (its identity) see
    them. Where drivers of two storages have made the same run twice, one with values counts, and
    the earlier one.

    Once they are loaded they are known, since there is one writer. After a request that failed
    nothing is known: runs are looked up one by one.
    """

    def __init__(self, client: Any, experiment: str, storage: str = "") -> None:
        self._client, self._experiment, self._storage = client, experiment, storage
        self._known: dict[str, list[RunState]] | None = None

    def load(self) -> dict[str, list[RunState]]:
        """Read all runs, and delete those that were made twice and have no values: the answer to
        the first request was lost. From now on no other driver of the storage makes any.
        """
        self._known = {
            key: list(self._without_twins(every))
            for key, every in self._search(f"tags.`{KEY}` LIKE '%'").items()
        }
        return self._known

    def _without_twins(self, runs: Sequence[RunState]) -> Iterator[RunState]:
        for number, run in enumerate(runs):
            alike = (r for r in runs[:number] if bool(r.made) == bool(run.made))
            if run.metrics or not any(first.fits(run.made) for first in alike):
                yield run
            else:
                self._set_status(run, "KILLED" if run.status == "RUNNING" else run.status)
                self._client.delete_run(run.id)

    def of(self, key: str) -> list[RunState]:
        """Return all runs of a key, whatever their values are computed from."""
        known = self._search(f"tags.`{KEY}` = '{key}'") if self._known is None else self._known
        return known.get(key, [])

    def find(self, wanted: Run) -> RunState | None:
        """Return a run; None where there is none."""
        return fitting(self.of(wanted.key), wanted)

    def make(
        self, wanted: Run, tags: Mapping[str, str] | None = None, begun: int | None = None
    ) -> RunState:
        """Make a run that was not found; it has `begun` at that time (None: now). Where no answer
        comes, the store may have it all the same, and is asked before another one is made.
        """
        user = os.environ.get("USER", "unknown")
        own = {KEY: wanted.key, _KIND: wanted.kind, "mlflow.user": user, **wanted.tags}
        own |= {_STORAGE: self._storage, **(tags or {})}
        own |= {_MADE: _spelled(wanted.made)} if wanted.made else {}
        try:
            made = RunState.of(
                self._client.create_run(self._experiment, begun, own, run_name=wanted.name)
            )
        except Exception:
            found = fitting(
                self._search(f"tags.`{KEY}` = '{wanted.key}'").get(wanted.key, []), wanted
            )
            if found is None:
                raise
            made = found
        if self._known is not None:
            self._known.setdefault(wanted.key, []).append(made)
        return made

    def replace(self, run: RunState, wanted: Run) -> RunState:
        """Make a run anew, since MLflow would draw former values of a step beside later ones. What
        a person has written of it stays.
        """
        self._client.delete_run(run.id)
        if self._known is not None:
            self._known[run.key].remove(run)
        return self.make(wanted, {name: run.tags[name] for name in NOTES if name in run.tags})

    def tell_data(self, run: RunState, data: Mapping[str, str]) -> None:
        """Name the data that a run is of, where MLflow does not know them."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        if data and not run.data:
            given = DatasetInput(Dataset(**data), [InputTag("mlflow.data.context", "training")])
            self._client.log_inputs(run.id, [given])

    def is_own(self, run: RunState) -> bool:
        """Return whether a driver of this storage has begun or ended a run last."""
        return run.tags.get(_STORAGE, self._storage) == self._storage

    def save(self, run: RunState, change: Change) -> None:
        """Write a change."""
        from mlflow.entities import Metric, Param, RunTag

        now = int(time.time() * 1000)
        metrics = {n: v for n, v in change.metrics.items() if run.metrics.get(n) != v}
        params = {n: v for n, v in change.params.items() if n not in run.params}
        own = {_STORAGE: self._storage} if change.status else {}
        wanted = {**change.tags, **noted(run.tags, change.note), _MADE: _spelled(run.made), **own}
        tags = {n: v for n, v in wanted.items() if run.tags.get(n, "") != v}
        values = [Metric(name, value, now, 0) for name, value in metrics.items()]
        values += [Metric(name, value, moment, step) for name, value, step, moment in change.points]
        known, self._known = self._known, None  # what a request does that fails is not known
        while len(values) > BATCH:
            self._client.log_batch(run.id, metrics=values[:BATCH])
            values = values[BATCH:]
        if values or params or tags:
            self._client.log_batch(
                run.id,
                metrics=values,
                params=[Param(*pair) for pair in params.items()],
                tags=[RunTag(*pair) for pair in tags.items()],
            )
        run.metrics |= metrics
        run.params |= params
        run.tags |= tags
        for name in change.without:
            if run.tags.pop(name, None) is not None:
                self._client.delete_tag(run.id, name)
        self._set_status(run, change.status or run.status)
        self._known = known

    def _set_status(self, run: RunState, status: str) -> None:
        if status == run.status:
            return
        if status == "RUNNING":
            self._client.update_run(run.id, status=status)
        else:
            self._client.set_terminated(run.id, status)
        run.status = status

    def _search(self, condition: str) -> dict[str, list[RunState]]:
        found: dict[str, list[RunState]] = {}
        runs = map(RunState.of, self._client.every_run(self._experiment, condition))
        for run in sorted(runs, key=lambda run: (not run.made, not run.metrics, run.begun, run.id)):
            found.setdefault(run.key, []).append(run)
        return found


def fitting(runs: Sequence[RunState], wanted: Run) -> RunState | None:
    """Return the first run that is the wanted one; from its next change on it has the parts of it
    that it lacked.
    """
    found = next((run for run in runs if run.fits(wanted.made)), None)
    if found is not None:
        found.made = {**wanted.made, **found.made}
    return found


def _spelled(made: Mapping[str, str]) -> str:
    return " ".join(f"{part}:{value}" for part, value in list(made.items())[:_MOST_PARTS])


_ATTEMPT, _ERROR, _PRUNED = "raxalign.attempt", "raxalign.error", "raxalign.pruned"
_RESULTS, _CURVES = "raxalign.results", "raxalign.curves"
_LONGEST_ERROR = 5000  # characters; MLflow takes 8,000
MOST_POINTS = 20  # of a curve
_DENSE = 8  # the first points of a curve that grows, which are all shown
_SEVERAL = "Several grids of this name have their runs here."


@dataclass
class SeenTrial:
    """What a driver has seen of a trial, and the ledger does not hold: when it began
    (milliseconds), how often since its run was written, and where a search `pruned` it.
    """

    trial: Trial
    begun: int | None = None
    attempts: int = 0
    pruned: str = ""


class Recorder:
    """Writes a plan's trials to MLflow. Every call may raise what the client raises, and may be
    repeated. Between `open` and `close` or `abandon` it is the only writer of the grid's runs.

    `left` is the number of trials that `close` still has to copy (None before it counted them).
    """

    def __init__(self, plan: Plan, target: Target) -> None:
        self._plan, self._target, self._ledger = plan, target, target.storage.ledger
        target.set_moved_aside()
        self._client, storage = target.connect(), target.identity()
        self._page = target.page(self._client, plan.name)
        self._runs = Registry(self._client, self._page.experiment, storage)
        self._of = PlanRuns(plan)
        self._whole = self._of.grid(storage)
        self._files = dict[str, str]()  # tags of the grid's run: what of its files is there
        self._held = ExitStack()
        self._lease: Held | None = None
        self.left: int | None = None

    @classmethod
    def sync(cls, plan: Plan, target: Target, pruned: Sequence[SeenTrial] = ()) -> int:
        """Copy everything that the ledger has, and the ends of trials that a search `pruned`, of
        which the ledger has nothing; returns how many trials have results. Raises `TrackingError`
        where that failed.
        """
        with target.reported():
            recorder = cls(plan, target)
            recorder.open()
            try:
                if pruned:
                    recorder.take(pruned)
                return recorder.close()
            finally:
                recorder.release()

    @staticmethod
    def look_up(plan: Plan, target: Target, trial: Trial) -> Mapping[str, str] | None:
        """Return id, status and place of a trial's run; None where there is none."""
        if target.database and (not target.database.exists() or target.moved_from):
            return None
        with target.reported():
            client = target.connect()
            found = client.get_experiment_by_name(plan.name)
            runs = None if found is None else Registry(client, found.experiment_id)
            run = None if runs is None else runs.find(PlanRuns(plan).trial(trial))
        if run is None:
            return None
        place = {"experiment_id": found.experiment_id, "uri": target.uri}
        return {"run_id": run.id, "status": run.status, **place}

    @staticmethod
    def end_dead(target: Target) -> int:
        """End the runs of the storage's drivers that died, in all experiments of a tracking store;
        returns how many there were. Living drivers hold the locks of their grids in the storage.
        """
        client, ended, own = target.connect(), 0, target.identity()
        written = target.storage.locks.living("runs")
        for experiment in client.search_experiments():
            if target.writer_lock(experiment.name) in written:
                continue
            running = "attributes.status = 'RUNNING'"
            for run in client.every_run(experiment.experiment_id, running):
                if _KIND in run.data.tags and run.data.tags.get(_STORAGE, own) == own:
                    client.set_terminated(run.info.run_id, "KILLED")
                    ended += 1
        return ended

    def open(self) -> None:
        """Become the only writer, end the runs that a dead one left running, mark the run of the
        grid as running, and keep the grid and the plan with it. Raises `TrackingHeld` where another
        driver is the writer.
        """
        plan = self._plan
        values = {key for trial in plan.trials for key in trial.evaluations.values()}
        values |= {study.name for study in plan.studies}
        held = self._target.only_writer(plan.name, self._of.results_mark(values))
        self._lease = self._held.enter_context(held)
        try:
            known = self._runs.load()
            self._tell_others(known)
            self._end_running(known)
            self._runs.save(self._grid(), Change(status="RUNNING"))
            self._put({"grid.yaml": self._target.grid_text, "plan.json": self._plan.to_json()})
        except BaseException:
            self.release()
            raise

    def follow(self, running: Iterable[SeenTrial]) -> None:
        """Show trials that are running, with the first points of their curves."""
        self._check()
        for course in running:
            run = self._run(course)
            points, marks = self._curves(course.trial, run, whole=False)
            params = self._of.trial(course.trial).params
            tags = {**_attempts(course, run), **marks}
            self._runs.save(run, Change({}, points, params, tags, status="RUNNING"))
            course.attempts = 0

    def keep(self, folder: Path) -> None:
        """Put a report's files with the run of the grid."""
        self._client.log_artifacts(self._grid(status="FINISHED").id, str(folder), "report")

    def describe(self, answer: str, claims: Sequence[tuple[str, Sequence[str]]] = ()) -> None:
        """Describe the experiment by the answer and by links, and cells by verdicts on claims."""
        every = self._runs.of(self._whole.key)
        grid = fitting(every, self._whole) if len(every) == 1 else None
        self._page.describe(answer if len(every) < 2 else _SEVERAL, grid.id if grid else None)
        there = [(self._runs.find(wanted), change) for wanted, change in self._of.claimed(claims)]
        for run, change in [(grid, Change(note=answer)), *there]:
            if run is not None:
                self._runs.save(run, change)

    def take(self, ended: Sequence[SeenTrial]) -> None:
        """Write the runs of trials that have ended."""
        self._check()
        keys = {key for course in ended for key in course.trial.evaluations.values()}
        self._write_all(ended, {key for key in keys if self._ledger.has(key)})

    def close(self) -> int:
        """Write the rest and the cells, and end the run of the grid; returns how many trials have
        results. Where an error of this side is in the way, nothing is left running.
        """
        try:
            return self._close()
        except Exception as error:
            if not self._target.has_caused(error):
                self.abandon()
            raise

    def _close(self) -> int:
        there: set[str] | None = None
        while there != (now := set(self._ledger.keys())):  # another driver may add to it meanwhile
            there = now
            self._check()
            known = self._runs.load()
            brought, failed = self._write_all(map(SeenTrial, self._plan.trials), there)
            board = Scoreboard.of(rows(self._plan, self._ledger), self._plan)
            board = board.tested(self._compared([cell for cell in board.cells if cell.values]))
            self._write_cells(board)
        self._page.set(experiment_tags(board))
        self._end_running(known)
        ended = Change(tags=self._files, status="FAILED" if failed else "FINISHED")
        self._runs.save(self._grid(), ended)
        self.release()
        return brought

    def _put(self, texts: Mapping[str, str]) -> None:
        """Put texts with the run of the grid, those that have changed since it ended last."""
        run = self._grid()
        for name, text in texts.items():
            tag, shown = f"{_FILE}{name}", masked(text)
            self._files[tag] = digest(shown)
            if run.tags.get(tag) != self._files[tag]:
                self._runs.save(run, Change(without=[tag]))  # until the end it marks no file
                self._client.log_text(run.id, shown, name)

    def _write_cells(self, board: Scoreboard) -> None:
        """Write the runs of cells and comparisons, and all that is compared as a file."""
        for cell in (cell for cell in board.cells if cell.values):
            wanted = self._of.cell(cell)
            run = self._runs.find(wanted) or self._runs.make(wanted)
            self._runs.save(run, self._of.of_cell(cell, board))
            self._runs.tell_data(run, self._of.data())
        for wanted, change in self._of.comparisons(board):
            mark = digest([point[:3] for point in change.points])
            run = self._runs.find(wanted) or self._runs.make(wanted)
            new = run.tags.get(_RESULTS) != mark
            if new and run.metrics:
                run = self._runs.replace(run, wanted)
            points, tags = change.points if new else (), {**change.tags, _RESULTS: mark}
            self._runs.save(run, replace(change, points=points, params=wanted.params, tags=tags))
        found = csv_parts((entry.row(self._plan) for entry in board.compared), Compared.FIELDS)
        self._put({"comparisons.csv": "".join(found)})

    def abandon(self) -> None:
        """End all that is running, since this process ends."""
        self._check()
        self._end_running(self._runs.load())
        self._runs.save(self._grid(), Change(status="KILLED"))
        self.release()

    def release(self) -> None:
        """Be the only writer no more."""
        self._held.close()

    def _check(self) -> None:
        """Raise `LeaseLost` where another driver has taken over the runs of the grid."""
        assert self._lease is not None
        self._lease.check()

    def _grid(self, status: str | None = None) -> RunState:
        """Return the run of the grid; one that is made has a status."""
        found = self._runs.find(self._whole)
        if found is None:
            found = self._runs.make(self._whole)
            self._runs.save(found, Change(status=status))
        return found

    def _run(self, course: SeenTrial) -> RunState:
        """Return the run of a trial, which is made where there is none."""
        wanted = self._of.trial(course.trial)
        found = self._runs.find(wanted)
        above = {} if found else {PARENT: self._above(course.trial)}
        return found or self._runs.make(wanted, above, course.begun)

    def _above(self, trial: Trial) -> str:
        """Return the id of the run that a trial's is folded below: that of its cell or the grid."""
        wanted = self._of.cell_of(trial)
        above = wanted and (self._runs.find(wanted) or self._runs.make(wanted))
        return (above or self._grid()).id

    def _tell_others(self, known: Mapping[str, Sequence[RunState]]) -> None:
        """Warn where the experiment has runs of other values under the names of this grid's."""
        if any(
            not run.fits(own.made)
            for own in (self._whole, *self._of.cells())
            for run in known.get(own.key, ())
        ):
            warnings.warn(
                f"the experiment {self._plan.name} in MLflow has runs of another grid of this name"
                " too (of other data, or from another storage). They stay, beside those of this"
                " grid: give this grid another `name:` to have it apart",
                stacklevel=2,
            )

    def _end_running(self, known: Mapping[str, Sequence[RunState]]) -> None:
        params = {cell.key: cell.params for cell in self._of.cells()}
        for run in (run for every in known.values() for run in every if self._runs.is_own(run)):
            if run.status == "RUNNING" and run.tags[_KIND] != "grid":
                self._runs.save(run, Change(params=params.get(run.key, {}), status="KILLED"))

    def _write_all(self, courses: Iterable[SeenTrial], there: Set[str]) -> tuple[int, int]:
        """Write the runs of trials that are not as the ledger, which has the keys `there`, holds
        them; return how many trials have results or failed.
        """
        brought = failed = 0
        every = list(courses)
        failures = self._ledger.failures(course.trial.run for course in every)
        behind: list[tuple[SeenTrial, Set[str], str]] = []
        for course in every:
            keys = set(course.trial.evaluations.values())
            failure = {} if there >= keys else failures.get(course.trial.run, {})
            error = str(failure.get("message", "")) if failure else ""
            brought, failed = brought + bool(there & keys), failed + bool(failure)
            if failure or course.pruned or (there & keys and not self._is_whole(course, keys)):
                behind.append((course, there & keys, error))
        self.left = len(behind)
        for course, done, error in behind:
            self._write(course, done, error)
            self.left -= 1
        return brought, failed

    def _is_whole(self, course: SeenTrial, keys: Set[str]) -> bool:
        """Return whether the run of a trial has the values of all its evaluations."""
        run = self._runs.find(self._of.trial(course.trial))
        return (
            run is not None
            and not course.attempts
            and run.status == "FINISHED"
            and run.tags.get(_RESULTS) == self._of.results_mark(keys)
            and _STORAGE in run.tags  # else an older version has made it
        )

    def _write(self, course: SeenTrial, there: Set[str], error: str) -> None:
        """Write the run of a trial: the values of those evaluations that are `there`, the curves,
        and how it ended. One that lacks results without an error was killed.
        """
        trial, run = course.trial, self._run(course)
        records = with_added(self._plan, self._ledger, self._ledger.read_many(sorted(there)))
        metrics, tags, mark = dict[str, float](), _attempts(course, run), ""
        if records and run.tags.get(_RESULTS) != (mark := self._of.results_mark(records)):
            metrics = self._of.trial_metrics(trial, records)
            tags |= {_RESULTS: mark, **self._of.provenance_tags(records.values())}
        complete = len(records) == len(set(trial.evaluations.values()))
        points, marks = self._curves(trial, run, whole=complete)
        if error:
            tags[_ERROR] = masked(error)[:_LONGEST_ERROR]
        if course.pruned:
            tags[_PRUNED] = course.pruned
        change = Change(
            metrics=metrics,
            points=points,
            params=self._of.trial(trial).params,
            tags={**tags, PARENT: self._above(trial), **marks},
            without=() if error else (_ERROR, _PRUNED) if complete else (_ERROR,),
            status="FAILED" if error else "FINISHED" if complete or course.pruned else "KILLED",
        )
        self._runs.save(run, change)
        course.attempts = 0

    def _curves(
        self, trial: Trial, run: RunState, *, whole: bool
    ) -> tuple[list[tuple[str, float, int, int]], dict[str, str]]:
        """Return points beyond the last step that was copied of each curve, at most 20 of all that
        a `whole` curve has, and the tag that marks them: a stretch that a resumed training repeats
        is copied once. The hours of GPUs are one point, the sum over all attempts and workers.
        MLflow lists samples of the machine on a page of their own, by their names.
        """
        last: dict[str, int] = json.loads(run.tags.get(_CURVES, "{}"))
        found = Spool(self._target.storage, trial.key, trial.parts).read(whole=whole)
        new = [point for point in found if point[2] > last.get(point[0], -1)]
        shown = list[tuple[str, float, int, int]]()
        for name in dict.fromkeys(point[0] for point in new):
            curve = [point for point in found if point[0] == name]
            first = sum(step <= last.get(name, -1) for _, _, step, _ in curve)
            numbers = _shown(first, len(curve), whole=whole)
            if name.startswith(Spool.GPU_HOURS):
                numbers = [len(curve) - 1]
            else:
                full = name if name.startswith(Spool.SYSTEM) else f"train/{name}"
                shown += [(full, *curve[number][1:]) for number in numbers]
            last |= {name: curve[numbers[-1]][2]} if numbers else {}
        if any(name.startswith(Spool.GPU_HOURS) for name, *_ in new):
            hours = [point for point in found if point[0].startswith(Spool.GPU_HOURS)]
            total, latest = math.fsum(value for _, value, *_ in hours), max(h[3] for h in hours)
            shown.append((Spool.GPU_HOURS, total, 0, latest))
        return shown, {_CURVES: json.dumps(last)} if shown else {}

    def _compared(self, found: Sequence[Cell]) -> Sequence[Compared]:
        """Test the cells; returns nothing where predictions are damaged, which a warning names:
        means are copied all the same.
        """
        try:
            return comparisons(found, self._plan, self._ledger)
        except DamagedArtifact as error:
            warnings.warn(str(error), stacklevel=2)
            return []


def _attempts(course: SeenTrial, run: RunState) -> dict[str, str]:
    """Return the tag that counts how often a trial has begun."""
    count = course.attempts + int(run.tags.get(_ATTEMPT, 0))
    return {_ATTEMPT: str(count)} if course.attempts else {}


def _shown(first: int, count: int, *, whole: bool) -> list[int]:
    """Return the numbers of the points of a curve that are copied once those before the `first` one
    have been: of a curve that grows, points that are ever further apart; of a `whole` one, points
    at even distances and the last one. Both make at most `MOST_POINTS`.
    """
    growing = [n for n in range(count) if n < _DENSE or (n & (n + 1)) == 0]
    if not whole:
        return [n for n in growing if n >= first]
    room = max(MOST_POINTS - sum(n < first for n in growing), 1)
    left = min(room, count - first)
    return [count - 1 - k * (count - first - 1) // max(left - 1, 1) for k in reversed(range(left))]
