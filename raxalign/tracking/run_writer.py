"""Writing the runs of trials and cells: results from the ledger, curves from the spool.

What a run already has is read from the run itself, so writing it twice changes nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

from raxalign.analysis.cells import Cell
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.plan.values.comparisons import Compared
from raxalign.plan.values.results import with_added
from raxalign.store.key import digest
from raxalign.store.spool import GPU_HOURS, SYSTEM, Spool
from raxalign.store.storage import Storage
from raxalign.tracking import runs
from raxalign.tracking.data import datasets_of
from raxalign.tracking.registry import PARENT, Change, Registry, RunState

_ATTEMPT, _ERROR, _PRUNED = "raxalign.attempt", "raxalign.error", "raxalign.pruned"
_RESULTS, _CURVES, _DATA = "raxalign.results", "raxalign.curves", "raxalign.datasets"
_LONGEST_ERROR = 5000  # characters; MLflow takes 8,000


@dataclass(frozen=True)
class EndedTrial:
    """What is known of a trial that ended.

    Attributes:
        trial: The trial.
        there: The keys of its evaluations that the ledger has.
        error: Why it failed.
        pruned: Where a search ended it early.
        attempts: How many times it was begun since its run was last written.
    """

    trial: Trial
    there: Set[str]
    error: str | None = None
    pruned: str = ""
    attempts: int = 0


class RunWriter:
    """Writes the runs of one grid.

    Args:
        plan: The plan of the grid.
        storage: The storage, which has its ledger and its curves.
        registry: The runs.
        grid: Returns the run of the grid.
    """

    def __init__(
        self, plan: Plan, storage: Storage, registry: Registry, grid: Callable[[], RunState]
    ) -> None:
        self._plan, self._storage, self._ledger = plan, storage, storage.ledger
        self._runs, self._grid = registry, grid

    def begin(self, trial: Trial, attempts: int) -> None:
        """Mark a trial as running, which was begun so many times."""
        wanted, run = runs.trial_run(self._plan, trial), self._run(trial)
        tags = {_ATTEMPT: str(attempts + int(run.tags.get(_ATTEMPT, 0)))}
        self._runs.save(run, Change(params=wanted.params, tags=tags, status="RUNNING"))

    def end(self, ended: EndedTrial, run: RunState | None = None) -> None:
        """Write results, curves and the end of a trial. Its `run` is looked up where it is not
        given. One that lacks results without an error was killed.
        """
        trial, error = ended.trial, ended.error
        run = run or self._run(trial)
        records = with_added(self._plan, self._ledger, self._ledger.read_many(sorted(ended.there)))
        metrics, tags = self._results(trial, run, records)
        points, marks = self._curves(trial, run)
        if error:
            tags[_ERROR] = error[:_LONGEST_ERROR]
        if ended.attempts:
            tags[_ATTEMPT] = str(ended.attempts + int(run.tags.get(_ATTEMPT, 0)))
        if ended.pruned:
            tags[_PRUNED] = ended.pruned
        complete = len(records) == len(set(trial.evaluations.values()))
        change = Change(
            metrics=metrics,
            points=points,
            params=runs.trial_run(self._plan, trial).params,
            tags={**tags, PARENT: self._above(trial), **marks},
            without=() if error else (_ERROR, _PRUNED) if complete else (_ERROR,),
            status="FAILED" if error else "FINISHED" if complete or ended.pruned else "KILLED",
        )
        self._runs.save(run, change)

    def write_cell(self, cell: Cell, compared: Sequence[Compared]) -> None:
        """Write the means of a cell, and name the data of its trials."""
        wanted = runs.cell_run(self._plan, cell)
        run = self._runs.find(wanted.key) or self._runs.make(wanted)
        data = datasets_of(self._plan, cell)
        mark = digest([asdict(dataset) for dataset in data])
        change = Change(
            metrics=runs.cell_metrics(self._plan, cell, compared),
            params=wanted.params,
            tags={_DATA: mark},
            status="FINISHED",
            datasets=data if run.tags.get(_DATA) != mark else (),
        )
        self._runs.save(run, change)

    def write_curves(self, trial: Trial) -> None:
        """Write the curves of a trial that runs."""
        run = self._run(trial)
        points, marks = self._curves(trial, run)
        self._runs.save(run, Change(points=points, tags=marks))

    def is_whole(self, run: RunState | None, keys: set[str]) -> bool:
        """Return whether a run has all results of its trial."""
        if run is None or run.status != "FINISHED":
            return False
        return run.tags.get(_RESULTS) == runs.results_mark(self._plan, keys)

    def _run(self, trial: Trial) -> RunState:
        """Return the run of a trial, which is made where there is none."""
        wanted = runs.trial_run(self._plan, trial)
        found = self._runs.find(wanted.key)
        return found or self._runs.make(wanted, {PARENT: self._above(trial)})

    def _above(self, trial: Trial) -> str:
        """Return the id of the run that a trial's is folded below: that of its cell, which is made
        where there is none, or that of the grid.
        """
        if not runs.has_cell(trial):
            return self._grid().id
        wanted = runs.cell_run(self._plan, trial)
        cell = self._runs.find(wanted.key)
        if cell is None:
            cell = self._runs.make(wanted)
            self._runs.save(cell, Change(params=wanted.params))
        return cell.id

    def _results(
        self, trial: Trial, run: RunState, records: Mapping[str, Mapping[str, Any]]
    ) -> tuple[Mapping[str, float], dict[str, str]]:
        """Return the metrics of a trial that its run does not have, and the tags that mark them."""
        mark = runs.results_mark(self._plan, records)
        if not records or run.tags.get(_RESULTS) == mark:
            return {}, {}
        tags = {_RESULTS: mark, **runs.provenance_tags(records.values())}
        return runs.trial_metrics(trial, records), tags

    def _curves(
        self, trial: Trial, run: RunState
    ) -> tuple[list[tuple[str, float, int, int]], dict[str, str]]:
        """Return the points beyond the last step that was copied of each curve, and the tag that
        marks them: a stretch that a resumed training repeats is copied once. The hours of cards are
        one point, the sum over all attempts and workers.
        """
        brought: dict[str, int] = json.loads(run.tags.get(_CURVES, "{}"))
        found = Spool(self._storage, trial.key).read()
        points = [point for point in found if point[2] > brought.get(point[0], -1)]
        last = brought | {name: step for name, _, step, _ in points}
        shown = [
            (_shown(name), value, step, moment)
            for name, value, step, moment in points
            if not name.startswith(GPU_HOURS)
        ]
        if len(shown) < len(points):
            hours = [point for point in found if point[0].startswith(GPU_HOURS)]
            total, latest = math.fsum(value for _, value, *_ in hours), max(h[3] for h in hours)
            shown.append((GPU_HOURS, total, 0, latest))
        return shown, {_CURVES: json.dumps(last)} if points else {}


def _shown(name: str) -> str:
    """Return the name of a curve in MLflow, which lists samples of the machine on a page of their
    own.
    """
    return name if name.startswith(SYSTEM) else f"train/{name}"
