"""Collecting the manifests and results of a grid on an object store, as its trials end."""

from __future__ import annotations

from contextlib import suppress

from raxalign.errors import StorageError
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.store.storage import Storage
from raxalign.sweep.events import Event, JobEnded, Planned

_EVERY = 500  # trials


def collect_plan(plan: Plan, storage: Storage) -> None:
    """Collect what a storage has of a plan. A storage that refuses stops nothing: commands on
    another machine then read more objects.
    """
    there = [stage for stage in plan.stages.values() if not stage.inline]
    artifacts = ((stage.kind, stage.key) for stage in there if stage.kind != "evaluation")
    evaluations = (stage.key for stage in there if stage.kind == "evaluation")
    with suppress(StorageError):
        storage.collect(artifacts, evaluations)


class Collector:
    """Collects what a sweep has made, each time that some hundred trials have ended."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self._ended = storage, 0
        self._plan: Plan | None = None

    def hear(self, event: Event) -> None:
        """Note the plan, and collect now and then."""
        if isinstance(event, Planned):
            self._plan = event.plan
        if isinstance(event, JobEnded) and isinstance(event.what, Trial) and not event.pruned:
            self._ended += 1
            if self._plan is not None and self._ended % _EVERY == 0:
                collect_plan(self._plan, self._storage)
