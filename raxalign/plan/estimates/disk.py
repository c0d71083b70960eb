"""What a grid takes on disk, by kind of stage, estimated before anything is made.

Sizes come from the manifests of what was made in the storage, and else from the number of an
encoder's parameters and the number of sentences. The ledger, with predictions, is not counted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from raxalign.config.run import Keep
from raxalign.plan.estimates.cost import volume
from raxalign.plan.estimates.work import sentences_of
from raxalign.plan.expansion.prepared import row_count
from raxalign.plan.values.retention import below, weights_of
from raxalign.store.key import digest

if TYPE_CHECKING:
    from raxalign.encoders.models.folder import Footprint
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
    sizes = _Sizes(plan, measured)
    kinds: dict[str, int] = defaultdict(int)
    unknown: dict[str, int] = defaultdict(int)
    known: dict[str, int] = {}
    for key, stage in plan.stages.items():
        if stage.inline or stage.kind == "evaluation":
            continue
        size = sizes.of(key)
        unknown[stage.kind] += size is None
        kinds[stage.kind] += size or 0
        known[key] = size or 0
    after, peak = _policies(plan, known, at_once or 1)
    left = {kind: count for kind, count in unknown.items() if count}
    return Disk(dict(kinds), after, peak, left, len(measured.keys() & known.keys()))


def _policies(
    plan: Plan, sizes: Mapping[str, int], at_once: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Return for each value of `run.keep` the bytes at the end and the most bytes."""
    weights = weights_of(plan)
    behind = below(plan, weights)
    cells: dict[str, frozenset[str]] = {}
    users: dict[str, int] = defaultdict(int)
    own: list[frozenset[str]] = []
    for trial in plan.trials:
        used = frozenset().union(*(behind[key] for key in trial.evaluations.values()))
        point = trial.point
        cell = digest([point.method, point.params, point.encoder, point.languages, point.sentences])
        cells.setdefault(cell, used)
        own.append(used)
        for key in used:
            users[key] += 1
    shared = {key for key, count in users.items() if count > 1}
    best = frozenset[str]().union(*cells.values())
    running = at_once * max((_sum(sizes, used - shared) for used in own), default=0)
    training = (
        min(at_once, len(weights)) * _COPIES * max((sizes[key] for key in weights), default=0)
    )
    total = sum(sizes.values())
    kept: dict[str, AbstractSet[str]] = {"all": weights, "best": best, "none": frozenset()}
    after = {name: total - _sum(sizes, weights - kept[name]) for name in get_args(Keep)}
    peak = {
        name: min(total, after[name] + _sum(sizes, shared - kept[name]) + running) + training
        for name in after
    }
    return after, peak


def _sum(sizes: Mapping[str, int], keys: AbstractSet[str]) -> int:
    return sum(sizes[key] for key in keys)


@dataclass
class _Sizes:
    """The sizes of stages: measured, or as others like them, or by what they hold."""

    plan: Plan
    measured: Mapping[str, int]
    _known: dict[str, int | None] = field(default_factory=dict)
    _like: dict[tuple[str, ...], list[float]] = field(default_factory=dict)
    _weights: AbstractSet[str] = frozenset()

    def __post_init__(self) -> None:
        self._like, self._weights = defaultdict(list), weights_of(self.plan)
        for key in self.measured.keys() & self.plan.stages.keys():
            stage = self.plan.stages[key]
            per = self._units(stage)
            if per and math.isfinite(per):
                self._like[self._group(stage)].append(self.measured[key] / per)

    def of(self, key: str) -> int | None:
        """Return the bytes of a stage; None where they are not known."""
        if key not in self._known:
            stage, size = self.plan.stages[key], self.measured.get(key)
            self._known[key] = self._estimate(stage) if size is None else size
        return self._known[key]

    def _estimate(self, stage: Stage) -> int | None:
        units = self._units(stage)
        if not math.isfinite(units):
            return None
        seen = self._like.get(self._group(stage))
        if seen and units:
            return round(units * math.fsum(seen) / len(seen))
        if stage.kind in _PER_SENTENCE:
            return round(units * _PER_SENTENCE[stage.kind]) if units else None
        parameters = self._parameters(stage)
        return None if parameters is None else parameters * _FLOAT

    def _units(self, stage: Stage) -> float:
        """What the size of a stage grows with: sentences for data, 1 for the rest."""
        if stage.kind not in _PER_SENTENCE:
            return 1.0
        if stage.kind == "bitext":
            return sentences_of(stage)
        if stage.kind == "pieces" and "data" not in stage.inputs:
            return row_count(stage)
        cut = stage.params.get("sentences")  # of the pairs that are cut out of a larger run
        if isinstance(cut, int):
            return float(cut)
        read = [
            self._units(self.plan.stages[key])
            for key in stage.inputs.values()
            if self.plan.stages[key].kind in _PER_SENTENCE
        ]
        return math.fsum(read) if stage.kind == "text" else max(read, default=0.0)

    def _group(self, stage: Stage) -> tuple[str, ...]:
        """What stages have in common that are about as large, per unit."""
        if stage.kind in _PER_SENTENCE:
            return (stage.kind, str(stage.params.get("part")))
        return (stage.kind, stage.maker, stage.options, self._start(stage))

    def _start(self, stage: Stage) -> str:
        """The key of the encoder that a stage starts from."""
        while stage.kind != "encoder":
            before = stage.inputs.get("encoder") or stage.inputs.get("aligned")
            if before is None:
                return ""
            stage = self.plan.stages[before]
        return stage.key

    def _parameters(self, stage: Stage) -> int | None:
        """The number of parameters that a stage of models holds, as far as that is known."""
        start = self._start(stage)
        if not start:
            return None
        encoder = self.plan.stages[start]
        found: Footprint | None = encoder.plugin().footprint(_revisions(encoder))
        if stage.kind != "aligned" or stage.key in self._weights or found is None:
            return None if found is None else found.parameters
        languages: Any = stage.params["languages"]
        return (len(languages) + 1) * found.width * (found.width + 1)


def _revisions(encoder: Stage) -> Any:
    """What is known of a hub name: its revision, which the stage has as a digest."""
    return lambda name: encoder.digests.get("encoder") if name.startswith("hub:") else None
