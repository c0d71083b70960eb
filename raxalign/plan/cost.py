"""What a plan may cost, estimated from the timings of what was already run in the same storage."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan

_Maker = tuple[str, str]


def stored_keys(plan: Plan, root: str) -> set[str]:
    """Return the keys of a plan's stages and evaluations that a storage has; on an object store by
    two listings.
    """
    stages = [(stage.kind, key) for key, stage in plan.stages.items()]
    artifacts = [(kind, key) for kind, key in stages if kind != "evaluation"]
    evaluations = {key for kind, key in stages if kind == "evaluation"}
    return ArtifactStore(root).present(artifacts) | (evaluations & Ledger(root).keys())


def estimate(plan: Plan, root: str, stored: AbstractSet[str] | None = None) -> str:
    """Estimate in one line the worker time that is left, by the mean time of each kind of stage in
    this storage. It reports how much has no timing yet.

    Args:
        plan: The plan.
        root: The storage root.
        stored: What `stored_keys` returns, where it is known.
    """
    stages = [(key, stage) for key, stage in plan.stages.items() if not stage.inline]
    stored = stored_keys(plan, root) if stored is None else stored
    if all(key in stored for key, _ in stages):
        return "nothing is left to run"
    took, left = _timings(plan, seconds_by_key(plan, root, stored))
    known = {name: count for name, count in left.items() if name in took}
    unknown = sum(left.values()) - sum(known.values())
    if not known:
        return (
            f"{unknown} stages and evaluations to run; none of their kind has run in this storage"
            " yet, so their time is unknown"
        )
    seconds = math.fsum(
        count * math.fsum(took[name]) / len(took[name]) for name, count in known.items()
    )
    rest = f", and {unknown} of kinds that have not run here yet" if unknown else ""
    return (
        f"about {duration(seconds)} of worker time left for {sum(known.values())} stages and"
        f" evaluations{rest}"
    )


def seconds_by_key(
    plan: Plan, root: str, stored: AbstractSet[str] | None = None
) -> dict[str, float]:
    """Return the seconds that making each stored stage and evaluation of a plan took, by key.
    Stages that are made within others have none of their own.

    Args:
        plan: The plan.
        root: The storage root.
        stored: What `stored_keys` returns, where it is known.
    """
    stored = stored_keys(plan, root) if stored is None else stored
    there = [stage for key, stage in plan.stages.items() if key in stored and not stage.inline]
    evaluations = sorted(stage.key for stage in there if stage.kind == "evaluation")
    artifacts = [(stage.kind, stage.key) for stage in there if stage.kind != "evaluation"]
    records = Ledger(root).read_many(evaluations)
    manifests = ArtifactStore(root).manifests(artifacts)
    took = {key: float(record["seconds"]) for key, record in records.items()}
    return took | {key: manifest.seconds for key, manifest in manifests.items()}


def _timings(
    plan: Plan, seconds: Mapping[str, float]
) -> tuple[dict[_Maker, list[float]], dict[_Maker, int]]:
    """Return by stage kind and maker: the seconds of what is done, and the number of what is
    left.
    """
    took: dict[_Maker, list[float]] = defaultdict(list)
    left: dict[_Maker, int] = defaultdict(int)
    for key, stage in plan.stages.items():
        name = (stage.kind, stage.maker)
        if key in seconds:
            took[name].append(seconds[key])
        elif not stage.inline:
            left[name] += 1
    return took, left


def duration(seconds: float) -> str:
    """Return a time in words: `40 s`, `12 min` or `1.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
