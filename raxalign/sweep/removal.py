"""Removing trained weights that a grid does not keep (`run.keep`), as its trials end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache

from raxalign.config.run import Keep
from raxalign.errors import StorageError
from raxalign.plan.estimates.cost import volume
from raxalign.plan.plan import Plan
from raxalign.plan.stored import plan_at
from raxalign.plan.trial import Trial
from raxalign.plan.values.retention import Keeping, below, made_again
from raxalign.printing import counted, to_stderr
from raxalign.stages.workshop import TRAINED
from raxalign.store.drivers import signs
from raxalign.store.storage import Storage
from raxalign.sweep.events import Began, Event, JobEnded, Over, Planned


class Keeper:
    """Removes the weights of a grid that no evaluation needs any more, this grid's or that of
    another living driver. A storage that refuses stops nothing: the weights stay.
    """

    def __init__(self, plan: Plan, storage: Storage, keep: Keep) -> None:
        self._plan, self._storage, self._keep = plan, storage, keep
        self._store, self._ledger = storage.artifacts, storage.ledger
        self.dropped = self.freed = 0
        self._error: StorageError | None = None
        self._keeping: Keeping | None = None

    def hear(self, event: Event) -> None:
        """Report at the start the weights that an evaluation needs and that were not kept. Hold on
        to those that a trial may read; remove those that it was the last to need.
        """
        match event:
            case Planned(first=True):
                stored = {key for _, key in self._store.keys()}  # noqa: SIM118
                gone = self._storage.tombstones.all()
                if message := made_again(event.plan, self._ledger.keys(), stored, gone):
                    to_stderr(f"note: {message}")
            case Began(what=Trial() as trial) if self._keep != "all":
                with suppress(StorageError):  # a trial that ends tells as much
                    self._known().start(trial)
            case JobEnded(what=Trial() as trial, pruned="") if self._keep != "all":
                try:
                    done = {key for key in trial.evaluations.values() if self._ledger.has(key)}
                    for key in self._known().finish(trial, done):
                        self._drop(key)
                except StorageError as error:
                    self._error = error
            case Over():
                if message := self.finish():
                    to_stderr(f"note: {message}")

    def finish(self) -> str | None:
        """Remove what may go in the end, by all results of the ledger; return a line on what was
        removed and what could not be removed, None where there is nothing to report.
        """
        if self._keep == "all":
            return None
        self._keeping = None
        try:
            stored = {key for _, key in self._store.keys()}  # noqa: SIM118
            for key in self._known().free():
                if key in stored:
                    self._drop(key)
        except StorageError as error:
            self._error = error
        if self._error is not None:
            return f"run.keep: {self._keep}: some weights could not be removed: {self._error}"
        if not self.dropped:
            return None
        return (
            f"run.keep: {self._keep}: the weights of {counted(self.dropped, 'stage')} were not kept"
            f" ({volume(self.freed)})"
        )

    def _known(self) -> Keeping:
        """The state of the plan, read from the ledger at the first use."""
        if self._keeping is None:
            self._keeping = Keeping(self._plan, self._ledger.keys())
        return self._keeping

    def _drop(self, key: str) -> None:
        """Remove weights, unless an evaluation that is not done needs them in the plan of another
        living driver. A plan that cannot be read is taken to need them.
        """
        kind = self._plan.stages[key].kind
        try:
            if not self._store.has(kind, key):
                return
            others = [sign.plan for sign in signs(self._storage) if sign.lives and not sign.own]
            for needs in map(_needs, others):
                if needs is None or not all(map(self._ledger.has, needs.get(key, ()))):
                    return
            self.freed += self._storage.drop(kind, key, f"run.keep: {self._keep}")
            self.dropped += 1
        except StorageError as error:
            self._error = error


@cache
def _needs(place: str) -> Mapping[str, list[str]] | None:
    """The evaluations that need each training of a plan; None where it cannot be read."""
    found: dict[str, list[str]] = {}
    with suppress(FileNotFoundError, StorageError):
        plan = plan_at(place)
        trained = {key for key, stage in plan.stages.items() if stage.kind in TRAINED}
        behind = below(plan, trained)
        for trial in plan.trials:
            for entry in trial.evaluations.values():
                for key in behind[entry]:
                    found.setdefault(key, []).append(entry)
        return found
    return None
