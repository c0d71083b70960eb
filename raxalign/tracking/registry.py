"""The runs of one experiment: one for each key, found by its tag. Who writes them is the only one
(`only_writer`), so that runs which it has read or made are all that there are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raxalign.store.storage import Storage
from raxalign.tracking.client import SQLITE, connect, default_uri
from raxalign.tracking.runs import Run

BATCH = 900  # MLflow takes at most 1,000 entries in one request
KEY, KIND, PARENT = "raxalign.key", "raxalign.kind", "mlflow.parentRunId"


@dataclass
class RunState:
    """A run as it was last read or written; `begun` is in milliseconds."""

    key: str
    id: str
    status: str
    begun: int
    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Any) -> RunState:
        """Return the state of a run of MLflow."""
        info, data = run.info, run.data
        kept = (dict(data.tags), dict(data.params), dict(data.metrics))
        return cls(data.tags[KEY], info.run_id, info.status, info.start_time, *kept)


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
    """The runs of one experiment by their keys. Where drivers of two storages have made a key's run
    twice, the earlier one counts.
    """

    def __init__(self, client: Any, experiment: str) -> None:
        self._client, self._experiment = client, experiment
        self._known: dict[str, RunState | None] | None = None  # None: it is read where needed
        self.saved = 0  # changes that the store has accepted

    def load(self) -> dict[str, RunState]:
        """Read all runs. From now on nobody else makes any."""
        found = self._search(f"tags.`{KEY}` LIKE '%'")
        self._known = {k: run if run.tags[KIND] == "cell" else None for k, run in found.items()}
        return found

    def find(self, key: str) -> RunState | None:
        """Return the run of a key; None where there is none."""
        if self._known is not None and key not in self._known:
            return None
        known = (self._known or {}).get(key)
        return known or self._search(f"tags.`{KEY}` = '{key}'").get(key)

    def make(self, wanted: Run, tags: Mapping[str, str] | None = None) -> RunState:
        """Make the run of a key that was not found."""
        user = os.environ.get("USER", "unknown")
        own = {KEY: wanted.key, KIND: wanted.kind, "mlflow.user": user, **wanted.tags}
        own |= tags or {}
        run = self._client.create_run(self._experiment, run_name=wanted.name, tags=own)
        made = RunState.of(run)
        if self._known is not None:
            self._known[made.key] = made
        return made

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
        tags = {n: v for n, v in change.tags.items() if run.tags.get(n) != v}
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
        self.saved += 1

    def _set_status(self, run: RunState, status: str) -> None:
        if status == run.status:
            return
        if status == "RUNNING":
            self._client.update_run(run.id, status=status)
        else:
            self._client.set_terminated(run.id, status)
        run.status = status

    def _search(self, condition: str) -> dict[str, RunState]:
        found: dict[str, RunState] = {}
        runs = map(RunState.of, search(self._client, self._experiment, condition))
        for run in sorted(runs, key=lambda run: (run.begun, run.id)):
            found.setdefault(run.key, run)
        return found


def search(client: Any, experiment: str, condition: str) -> Iterator[Any]:
    """Yield all runs of an experiment for which a condition holds, page by page."""
    token = None
    while True:
        page = client.search_runs([experiment], condition, max_results=1000, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def run_of(storage: Storage, experiment: str, key: str) -> Mapping[str, str] | None:
    """Look up id, status and place of a run by its key and its experiment's name; None: no run."""
    uri = os.environ.get("MLFLOW_TRACKING_URI") or default_uri(storage)
    database = uri.removeprefix(SQLITE)
    if database != uri and not Path(database).exists():
        return None
    client = connect(uri)
    found = client.get_experiment_by_name(experiment)
    run = Registry(client, found.experiment_id).find(key) if found is not None else None
    if found is None or run is None:
        return None
    return {
        "run_id": run.id,
        "status": run.status,
        "experiment_id": found.experiment_id,
        "uri": uri,
    }
