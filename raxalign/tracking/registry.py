"""The runs of one experiment: one for each key and for what its values are computed from, found by
tags. Who writes them is the only one (`only_writer`) of its storage. Runs of a grid of the same
name with other data, or of another storage, are others, and stay as they are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raxalign.store.storage import Storage
from raxalign.tracking.client import connect, database_of, default_uri, former_place, reported
from raxalign.tracking.runs import Run

BATCH = 900  # MLflow takes at most 1,000 entries in one request
KEY, KIND, PARENT = "raxalign.key", "raxalign.kind", "mlflow.parentRunId"
STORAGE, _MADE = "raxalign.storage", "raxalign.made_of"
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

    @classmethod
    def of(cls, run: Any) -> RunState:
        """Return the state of a run of MLflow."""
        info, data = run.info, run.data
        kept = [dict(data.tags), dict(data.params), dict(data.metrics)]
        kept.append(dict(part.split(":") for part in data.tags.get(_MADE, "").split()))
        return cls(data.tags[KEY], info.run_id, info.status, info.start_time, *kept)

    def fits(self, made: Mapping[str, str]) -> bool:
        """Return whether its values are computed from the same: what both name is equal."""
        both = self.made.keys() & made.keys()
        return not (self.made and made) or (
            bool(both) and all(self.made[part] == made[part] for part in both)
        )


@dataclass(frozen=True)
class Change:
    """What a run is to have; what it has already is not written again.

    `points` are those of curves: (name, value, step, milliseconds). `tags` are written last, so
    that they can mark what is there. `without` names tags to delete.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    points: Sequence[tuple[str, float, int, int]] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    without: Sequence[str] = ()
    status: str | None = None


class Registry:
    """The runs of one experiment by their keys, as the drivers of a `storage` (its identity) see
    them. Where drivers of two storages have made the same run twice, one with values counts, and
    the earlier one.
    """

    def __init__(self, client: Any, experiment: str, storage: str = "") -> None:
        self._client, self._experiment, self._storage = client, experiment, storage
        self._known: dict[str, list[RunState] | None] | None = None  # None: read where needed
        self.saved = 0  # changes that the store has accepted

    def load(self) -> dict[str, list[RunState]]:
        """Read all runs, and delete those that were made twice and have no values: the answer to
        the first request was lost. From now on no other driver of the storage makes any.
        """
        found = {
            key: list(self._without_twins(every))
            for key, every in self._search(f"tags.`{KEY}` LIKE '%'").items()
        }
        self._known = {k: s if s[0].tags[KIND] == "cell" else None for k, s in found.items()}
        return found

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
        known = [] if self._known is None else self._known.get(key, [])
        return known or self._search(f"tags.`{KEY}` = '{key}'").get(key, [])

    def find(self, wanted: Run) -> RunState | None:
        """Return a run; None where there is none."""
        if self._known is not None and wanted.key not in self._known:
            return None
        return fitting(self.of(wanted.key), wanted)

    def make(self, wanted: Run, tags: Mapping[str, str] | None = None) -> RunState:
        """Make a run that was not found. Where no answer comes, the store may have it all the same,
        and is asked before another one is made.
        """
        user = os.environ.get("USER", "unknown")
        own = {KEY: wanted.key, KIND: wanted.kind, "mlflow.user": user, **wanted.tags}
        own |= {STORAGE: self._storage, **(tags or {})}
        own |= {_MADE: _spelled(wanted.made)} if wanted.made else {}
        before = [] if self._known is None else self._known.get(wanted.key, [])
        if self._known is not None:
            self._known[wanted.key] = None
        try:
            run = self._client.create_run(self._experiment, run_name=wanted.name, tags=own)
        except Exception:
            if (found := self.find(wanted)) is None:
                raise
            return found
        made = RunState.of(run)
        if self._known is not None and before is not None:
            self._known[made.key] = [*before, made]
        return made

    def is_own(self, run: RunState) -> bool:
        """Return whether a driver of this storage has begun or ended a run last."""
        return run.tags.get(STORAGE, self._storage) == self._storage

    def drop(self, key: str) -> None:
        """Forget what is in a run: it is read again where it is needed."""
        if self._known is not None and key in self._known:
            self._known[key] = None

    def save(self, run: RunState, change: Change) -> None:
        """Write a change."""
        from mlflow.entities import Metric, Param, RunTag

        now = int(time.time() * 1000)
        metrics = {n: v for n, v in change.metrics.items() if run.metrics.get(n) != v}
        params = {n: v for n, v in change.params.items() if n not in run.params}
        own = {STORAGE: self._storage} if change.status else {}
        wanted = {**change.tags, _MADE: _spelled(run.made), **own}
        tags = {n: v for n, v in wanted.items() if run.tags.get(n, "") != v}
        values = [Metric(name, value, now, 0) for name, value in metrics.items()]
        values += [Metric(name, value, moment, step) for name, value, step, moment in change.points]
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
        runs = map(RunState.of, search(self._client, self._experiment, condition))
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


def search(client: Any, experiment: str, condition: str) -> Iterator[Any]:
    """Yield all runs of an experiment for which a condition holds, page by page."""
    token = None
    while True:
        page = client.search_runs([experiment], condition, max_results=1000, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def run_of(storage: Storage, experiment: str, wanted: Run) -> Mapping[str, str] | None:
    """Look up id, status and place of a run in an experiment of a name; None: no run."""
    uri = os.environ.get("MLFLOW_TRACKING_URI") or default_uri(storage)
    database = database_of(uri)
    if database is not None and (not database.exists() or former_place(database)):
        return None
    with reported(uri):
        client = connect(uri)
        found = client.get_experiment_by_name(experiment)
        run = Registry(client, found.experiment_id).find(wanted) if found is not None else None
    if found is None or run is None:
        return None
    return {
        "run_id": run.id,
        "status": run.status,
        "experiment_id": found.experiment_id,
        "uri": uri,
    }
