"""Which trained weights of a grid stay in the storage once its evaluations are done (`run.keep`).

Weights are the trainings of tasks, and the aligned encoders of methods that change weights. Data,
encoders that a grid starts from, and transforms without weights always stay.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache

from raxalign.catalog import catalog
from raxalign.grid.estimates import duration
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.store.storage import Tombstone

_Score = tuple[float, int]


def weights_of(plan: Plan) -> frozenset[str]:
    """Return the keys of the stages of a plan that hold trained weights."""

    @cache
    def changes(catalogue: str | None, maker: str, options: str) -> bool:
        if catalogue is None:  # no plug-in makes it: it comes from outside
            return False
        kind = catalog(catalogue)[maker]
        return bool(kind(kind.Params.stored(options)).effect().weights)

    return frozenset(
        key
        for key, stage in plan.stages.items()
        if stage.kind == "tuned"
        or (stage.kind == "aligned" and changes(stage.catalogue, stage.maker, stage.options))
    )


def below(plan: Plan, chosen: AbstractSet[str]) -> dict[str, frozenset[str]]:
    """Return for each stage those of the chosen ones that it depends on, itself included."""
    found: dict[str, frozenset[str]] = {}
    for key, stage in plan.stages.items():
        parts = [found[entry] for entry in stage.inputs.values()]
        own = frozenset({key}) if key in chosen else frozenset()
        found[key] = own.union(*parts)
    return found


class Keeping:
    """Decides which weights of a plan may go, as its evaluations are done one by one: those that no
    evaluation needs any more, and no trial that runs may read.
    """

    def __init__(self, plan: Plan, done: AbstractSet[str]) -> None:
        self.weights = weights_of(plan)
        behind = below(plan, self.weights)
        self._of = {
            evaluation: behind[evaluation]
            for trial in plan.trials
            for evaluation in trial.evaluations.values()
        }
        self._pending = set(self._of) - done
        self._waiting = Counter(key for entry in self._pending for key in self._of[entry])
        self._running: set[str] = set()
        self._users: dict[str, set[str]] = defaultdict(set)
        for trial in plan.trials:
            for key in self._weights(trial):
                self._users[key].add(trial.key)

    def start(self, trial: Trial) -> None:
        """Note that a trial runs: it may read any of its weights."""
        self._running.add(trial.key)

    def finish(self, trial: Trial, done: AbstractSet[str]) -> Iterator[str]:
        """Note that a trial ended; yield the weights that may go now. `done` are those of its
        evaluations that are in the ledger.
        """
        self._running.discard(trial.key)
        for entry in self._pending & done & self._of.keys():
            self._pending.discard(entry)
            self._waiting.subtract(self._of[entry])
        yield from self.free(self._weights(trial))

    def free(self, among: AbstractSet[str] | None = None) -> Iterator[str]:
        """Yield the weights (`among` some) that may go now."""
        for key in sorted(self.weights if among is None else among):
            users = self._users[key]
            if users and not self._waiting[key] and users.isdisjoint(self._running):
                yield key

    def _weights(self, trial: Trial) -> frozenset[str]:
        return frozenset().union(*(self._of.get(e, ()) for e in trial.evaluations.values()))


def made_again(
    plan: Plan, done: AbstractSet[str], stored: AbstractSet[str], records: Mapping[str, Tombstone]
) -> str | None:
    """Return a sentence on the weights that pending evaluations need and that were not kept; None
    where there are none. `records` is what is left of those that were not kept, by key; see
    `to_make` for the others.
    """
    return again([records[key] for key in plan.to_make(done, stored) if key in records])


def again(found: Sequence[Tombstone]) -> str | None:
    """Return a sentence on weights that were not kept and have to be made again, with the time
    that they took; None where there are none.
    """
    if not found:
        return None
    seconds = math.fsum(entry.manifest.seconds for entry in found)
    policies = sorted({entry.why.removeprefix("run.keep: ").partition(":")[0] for entry in found})
    what = "the weights of this trial" if len(found) == 1 else f"the weights of {len(found)} stages"
    return (
        f"{what} were not kept (run.keep: {', '.join(policies)}); they are made again, about"
        f" {duration(seconds)}"
    )
