"""What the storage has of a plan: which stages are stored, which were not kept, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign.store.artifacts import ArtifactStore
from raxalign.store.tombstones import Tombstones

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan


@dataclass(frozen=True)
class Sizes:
    """Keys of the stages of a plan that are `stored` and `dropped`, and the `bytes` of both."""

    stored: frozenset[str]
    dropped: frozenset[str]
    bytes: Mapping[str, int]


def not_kept(plan: Plan, root: str) -> set[str]:
    """Return the stages of a plan whose weights were made and not kept."""
    dropped = {key for _, key in Tombstones(root).keys() if key in plan.stages}  # noqa: SIM118
    if dropped:
        dropped -= {key for _, key in ArtifactStore(root).keys()}  # noqa: SIM118
    return dropped


def measured_sizes(plan: Plan, root: str) -> Sizes:
    """Read the sizes from the manifests, and of stages that were not kept from their records."""
    store, tombstones = ArtifactStore(root), Tombstones(root)
    stored = [(kind, key) for kind, key in store.keys() if key in plan.stages]  # noqa: SIM118
    sizes = {key: store.size(kind, key) for kind, key in stored}
    dropped = set()
    for kind, key in tombstones.keys():  # noqa: SIM118 a method, not a mapping
        if key in plan.stages and key not in sizes and (entry := tombstones.of(kind, key)):
            dropped.add(key)
            sizes[key] = entry.size
    return Sizes(frozenset(key for _, key in stored), frozenset(dropped), sizes)
