"""What a grid takes on disk, by kind of stage, estimated before anything is made.

Sizes come from the manifests of what was made in the storage, and else from the number of an
encoder's parameters and the number of sentences. The ledger, with predictions, is not counted.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from raxalign.config.run import Keep
from raxalign.plan.estimates.cost import volume
from raxalign.plan.estimates.forecast import DATA, Work
from raxalign.plan.values.retention import below, run_cell, weights_of

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage

_FLOAT = 4  # bytes: encoders are loaded and saved in float32
_COPIES = 3  # a checkpoint holds the weights and two moments of each
_PER_SENTENCE = {  # bytes per sentence pair (text: per sentence), seen on sentences of 12 words
    "bitext": 140,
    "pairs": 190,
    "text": 85,
    "seen": 25,
    "pieces": 480,
}


@dataclass(frozen=True)
class Disk:
    """Bytes of a grid's artifacts.

    Attributes:
        kinds: Kind of stage -> bytes of all its stages, none of them dropped.
        after: Value of `run.keep` -> bytes when the grid is done.
        peak: Value of `run.keep` -> most bytes while it runs, with checkpoints.
        unknown: Kind of stage -> how many of its stages have a size that is not known.
        measured: How many sizes come from what was made.
    """

    kinds: Mapping[str, int]
    after: Mapping[str, int]
    peak: Mapping[str, int]
    unknown: Mapping[str, int]
    measured: int

    def told(self, keep: Keep) -> str:
        """Return the line of `plan`."""
        kinds = ", ".join(
            f"{kind} {volume(size)}"
            for kind, size in sorted(self.kinds.items(), key=lambda entry: -entry[1])
            if size
        )
        policies = "; ".join(
            f"run.keep: {name} {volume(self.after[name])} (peak {volume(self.peak[name])})"
            for name in sorted(self.after, key=lambda name: name != keep)
        )
        rest = ", ".join(f"{count} {kind}" for kind, count in self.unknown.items())
        unknown = f"; not known yet: {rest}" if rest else ""
        return f"disk, about: {policies}; all of it: {kinds or 'nothing'}{unknown}"


def estimate_disk(plan: Plan, measured: Mapping[str, int], at_once: int | None = None) -> Disk:
    """Estimate the bytes of a plan's artifacts.

    Args:
        plan: The plan.
        measured: Key -> bytes of what was made, also of what was dropped since.
        at_once: How many trials run at once (None: one).
    """
    weights = weights_of(plan)
    sizes = _Sizes(plan, measured, weights)
    kinds, unknown, known = Counter[str](), Counter[str](), dict[str, int]()
    for key, stage in plan.stages.items():
        if not stage.inline and stage.kind != "evaluation":
            size = sizes.of(key)
            unknown[stage.kind] += size is None
            kinds[stage.kind] += size or 0
            known[key] = size or 0
    after, peak = _policies(plan, known, weights, at_once or 1)
    return Disk(dict(kinds), after, peak, dict(+unknown), len(measured.keys() & known.keys()))


def _policies(
    plan: Plan, sizes: Mapping[str, int], weights: AbstractSet[str], at_once: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Return for each value of `run.keep` the bytes at the end and the most bytes."""

    def size(keys: AbstractSet[str]) -> int:
        return sum(sizes[key] for key in keys)

    behind, users = below(plan, weights), Counter[str]()
    cells: dict[str, frozenset[str]] = {}
    own: list[frozenset[str]] = []
    for trial in plan.trials:
        used = frozenset().union(*(behind[key] for key in trial.evaluations.values()))
        cells.setdefault(run_cell(trial), used)
        own.append(used)
        users.update(used)
    shared = {key for key, count in users.items() if count > 1}
    kept: dict[str, AbstractSet[str]] = {
        "all": weights,
        "best": frozenset[str]().union(*cells.values()),
        "none": frozenset(),
    }
    running = at_once * max((size(used - shared) for used in own), default=0)
    training = (
        min(at_once, len(weights)) * _COPIES * max(map(sizes.__getitem__, weights), default=0)
    )
    total = sum(sizes.values())
    after = {name: total - size(weights - kept[name]) for name in get_args(Keep)}
    peak = {
        name: min(total, left + size(shared - kept[name]) + running) + training
        for name, left in after.items()
    }
    return after, peak


@dataclass
class _Sizes:
    """The sizes of stages: measured, or as others like them, or by what they hold."""

    plan: Plan
    measured: Mapping[str, int]
    weights: AbstractSet[str]

    def __post_init__(self) -> None:
        self._work = Work(self.plan)
        self._like: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for key in self.measured.keys() & self.plan.stages.keys():
            stage = self.plan.stages[key]
            units = self._units(stage)
            if units and math.isfinite(units):
                self._like[self._group(stage)].append(self.measured[key] / units)

    def of(self, key: str) -> int | None:
        """Return the bytes of a stage; None where they are not known."""
        stage, units = self.plan.stages[key], self._units(self.plan.stages[key])
        if key in self.measured:
            return self.measured[key]
        if not math.isfinite(units):
            return None
        seen = self._like.get(self._group(stage))
        if seen and units:
            return round(units * math.fsum(seen) / len(seen))
        if stage.kind in DATA:
            return round(units * _PER_SENTENCE[stage.kind]) or None
        found = self._work.footprint(stage)
        if found is None or stage.kind != "aligned" or key in self.weights:
            return None if found is None else found.parameters * _FLOAT
        languages: Any = stage.params["languages"]
        return (len(languages) + 1) * found.width * (found.width + 1) * _FLOAT

    def _units(self, stage: Stage) -> float:
        """What the size of a stage grows with: sentences for data, 1 for the rest."""
        return self._work.kept(stage.key) if stage.kind in DATA else 1.0

    def _group(self, stage: Stage) -> tuple[str, ...]:
        """What stages have in common that are about as large, per unit."""
        if stage.kind in DATA:
            return (stage.kind, str(stage.params.get("part")))
        start = self._work.start(stage)
        return (stage.kind, stage.maker, stage.options, start.key if start else "")
