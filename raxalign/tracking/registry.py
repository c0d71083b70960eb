"""The runs of one experiment: one for each key, found by its tag.

Where `Turns.alone` holds, nobody else writes meanwhile, and a run that was not found can be made.
Elsewhere two drivers may make one key's run at once. Each therefore searches again after it made
one: the earliest run is kept, the others are deleted by any driver that sees them, and a driver
that holds a deleted run's id finds the kept run when it next writes.

What a driver knows of the runs of its grid, so that it need not search for each.

While a driver is the only one, the runs are those that it has read or made. `look` finds out
whether that still holds: who signs on leaves its mark on the run of the grid.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raxalign.tracking.data import Dataset
from raxalign.tracking.drivers import Driver
from raxalign.tracking.locks import Turns
from raxalign.tracking.runs import Run

BATCH = 900  # MLflow takes at most 1,000 entries in one request
KEY, KIND, PARENT = "raxalign.key", "raxalign.kind", "mlflow.parentRunId"


@dataclass
class Entry:
    """A run as it was last read or written; `begun` is in milliseconds."""

    key: str
    id: str
    status: str
    begun: int
    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Any) -> Entry:
        """Make the entry of a run of MLflow."""
        info, data = run.info, run.data
        kept = (dict(data.tags), dict(data.params), dict(data.metrics))
        return cls(data.tags[KEY], info.run_id, info.status, info.start_time, *kept)


@dataclass(frozen=True)
class Change:
    """What a run is to have; what it has already is not written again.

    `points` are those of curves: (name, value, step, milliseconds). `tags` are written last, so
    that they can mark what is there. `without` names a tag to delete. `datasets` are those that a
    run does not have yet.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    points: Sequence[tuple[str, float, int, int]] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    without: Sequence[str] = ()
    status: str | None = None
    datasets: Sequence[Dataset] = ()


class Registry:
    """The runs of one experiment by their keys."""

    def __init__(self, client: Any, experiment: str, turns: Turns) -> None:
        self._client, self._experiment, self._turns = client, experiment, turns
        self.saved = 0  # changes that the store has accepted

    def find(self, key: str) -> Entry | None:
        """Read the run of a key."""
        return self._merged(self._search(f"tags.`{KEY}` = '{key}'")).get(key)

    def all(self) -> dict[str, Entry]:
        """Read the runs of all keys."""
        return self._merged(self._search(f"tags.`{KEY}` LIKE '%'"))

    def again(self, entry: Entry) -> Entry:
        """Read a run once more, or the one that was kept in its place."""
        found = self._client.get_run(entry.id)
        if found.info.lifecycle_stage == "deleted":
            return self.find(entry.key) or Entry.of(found)
        return Entry.of(found)

    def make(self, wanted: Run, tags: Mapping[str, str], *, alone: bool = False) -> Entry:
        """Make the run of a key that was not found during this turn; `alone` means that no other
        driver writes to the experiment.
        """
        user = os.environ.get("USER", "unknown")
        own = {KEY: wanted.key, KIND: wanted.kind, "mlflow.user": user, **wanted.tags}
        made = self._client.create_run(self._experiment, run_name=wanted.name, tags={**own, **tags})
        if alone or self._turns.alone:
            return Entry.of(made)
        return self.find(wanted.key) or Entry.of(made)

    def save(self, entry: Entry, change: Change) -> Entry:
        """Write a change; returns the entry that has it, which is another one where the run was
        deleted in favour of an earlier one.
        """
        from mlflow.exceptions import MlflowException

        try:
            self._write(entry, change)
        except MlflowException:
            if self._client.get_run(entry.id).info.lifecycle_stage != "deleted":
                raise
            kept = self.find(entry.key)
            if kept is None:
                raise
            self._write(kept, change)
            entry = kept
        self.saved += 1
        return entry

    def _write(self, entry: Entry, change: Change) -> None:
        from mlflow.entities import Metric, Param, RunTag

        now = int(time.time() * 1000)
        metrics = {n: v for n, v in change.metrics.items() if entry.metrics.get(n) != v}
        params = {n: v for n, v in change.params.items() if n not in entry.params}
        tags = {n: v for n, v in change.tags.items() if entry.tags.get(n) != v}
        values = [Metric(name, value, now, 0) for name, value in metrics.items()]
        values += [Metric(name, value, moment, step) for name, value, step, moment in change.points]
        if change.datasets:
            self._client.log_inputs(entry.id, [data.entity() for data in change.datasets])
        while len(values) > BATCH:
            self._client.log_batch(entry.id, metrics=values[:BATCH])
            values = values[BATCH:]
        if values or params or tags:
            self._client.log_batch(
                entry.id,
                metrics=values,
                params=[Param(*pair) for pair in params.items()],
                tags=[RunTag(*pair) for pair in tags.items()],
            )
        entry.metrics |= metrics
        entry.params |= params
        entry.tags |= tags
        for name in change.without:
            self._delete_tag(entry, name)
        if change.status not in (None, entry.status):
            self._set_status(entry, str(change.status))

    def _set_status(self, entry: Entry, status: str) -> None:
        if status == "RUNNING":
            self._client.update_run(entry.id, status=status)
        else:
            self._client.set_terminated(entry.id, status)
        entry.status = status

    def _delete_tag(self, entry: Entry, name: str) -> None:
        from mlflow.exceptions import MlflowException

        if entry.tags.pop(name, None) is None:
            return
        try:
            self._client.delete_tag(entry.id, name)
        except MlflowException:
            if name in self._client.get_run(entry.id).data.tags:  # else another driver did it
                raise

    def _merged(self, found: Iterator[Entry]) -> dict[str, Entry]:
        """Keep the earliest run of each key, and delete the others."""
        kept: dict[str, Entry] = {}
        for entry in sorted(found, key=lambda entry: (entry.begun, entry.id)):
            if kept.setdefault(entry.key, entry) is not entry:
                self._delete(entry)
        return kept

    def _delete(self, entry: Entry) -> None:
        from mlflow.exceptions import MlflowException

        try:
            if entry.status == "RUNNING":
                self._client.set_terminated(entry.id, "KILLED")
            self._client.delete_run(entry.id)
        except MlflowException:
            # another driver may have deleted it meanwhile
            if self._client.get_run(entry.id).info.lifecycle_stage != "deleted":
                raise

    def _search(self, condition: str) -> Iterator[Entry]:
        yield from map(Entry.of, search(self._client, self._experiment, condition))


def search(client: Any, experiment: str, condition: str) -> Iterator[Any]:
    """Yield all runs of an experiment for which a condition holds, page by page."""
    token = None
    while True:
        page = client.search_runs([experiment], condition, max_results=1000, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


LATEST = "raxalign.signed_on"  # tag of the run of a grid: who has signed on last


class Known:
    """The runs of one grid. Entries of runs that this driver has finished are dropped."""

    def __init__(self, registry: Registry, driver: Driver) -> None:
        self._runs, self._driver = registry, driver
        self._mark = driver.sign()
        self._entries: dict[str, Entry] = {}
        self._keys: set[str] | None = None  # of all runs; None where others may have made some
        self._alone = False

    @property
    def signs(self) -> dict[str, str]:
        """The tags with which this driver signs on."""
        return {self._driver.tag: self._driver.sign(), LATEST: self._mark}

    @property
    def complete(self) -> bool:
        """Whether all runs are known."""
        return self._keys is not None

    def take(self, found: Mapping[str, Entry], *, alone: bool) -> None:
        """Take these runs for all that there are, until `check` finds another driver; `alone` means
        that nobody else makes runs meanwhile.
        """
        self._keys, self._alone = set(found), alone
        self._entries = {key: entry for key, entry in found.items() if entry.tags[KIND] == "cell"}

    def look(self, parent: Entry) -> Entry:
        """Read the run of the grid again, and check it."""
        parent = self._runs.again(parent)
        self.check(parent)
        return parent

    def check(self, parent: Entry | None) -> None:
        """Search for each run from now on where the run of the grid shows another driver."""
        tags = parent.tags if parent else {}
        if tags.get(LATEST) != self._mark or self._driver.living(tags):
            self.forget()

    def forget(self) -> None:
        """Search for each run from now on."""
        self._keys, self._entries, self._alone = None, {}, False

    def find(self, key: str) -> Entry | None:
        """Return the run of a key; None where there is none."""
        if key in self._entries:
            return self._entries[key]
        if self._keys is not None and key not in self._keys:
            return None
        return self._runs.find(key)

    def make(self, wanted: Run, tags: Mapping[str, str]) -> Entry:
        """Make the run of a key that was not found."""
        entry = self._runs.make(wanted, tags, alone=self._alone)
        if self._keys is not None:
            self._keys.add(entry.key)
            self._entries[entry.key] = entry
        return entry

    def drop(self, key: str) -> None:
        """Forget what is in a run: it is read again where it is needed."""
        self._entries.pop(key, None)
