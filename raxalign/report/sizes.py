"""What the storage has of a plan: which stages are stored, which were not kept, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign.store.storage import Storage
from raxalign.store.tombstones import Tombstone

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan


@dataclass(frozen=True)
class Sizes:
    """Keys of the stages of a plan that are `stored` and `dropped`, and the `bytes` of both."""

    stored: frozenset[str]
    dropped: frozenset[str]
    bytes: Mapping[str, int]


def not_kept(plan: Plan, storage: Storage) -> set[str]:
    """Return the stages of a plan whose weights were made and not kept."""
    dropped = {key for _, key in storage.tombstones.keys() if key in plan.stages}  # noqa: SIM118
    if dropped:
        dropped -= {key for _, key in storage.artifacts.keys()}  # noqa: SIM118
    return dropped


def measured_sizes(
    plan: Plan, storage: Storage, stored: AbstractSet[str], records: Mapping[str, Tombstone]
) -> Sizes:
    """Read the sizes from the manifests, and of stages that were not kept from their records.

    Args:
        plan: The plan.
        storage: The storage.
        stored: The stages and evaluations of the plan that the storage has.
        records: What is left of the stages that were not kept, by key.
    """
    stages = [(stage.kind, key) for key, stage in plan.stages.items() if key in stored]
    artifacts = [(kind, key) for kind, key in stages if kind != "evaluation"]
    manifests = storage.artifacts.manifests(artifacts)
    dropped = {
        key: entry.size
        for key, entry in records.items()
        if key in plan.stages and key not in stored
    }
    sizes = {key: manifest.size for key, manifest in manifests.items()} | dropped
    return Sizes(frozenset(manifests), frozenset(dropped), sizes)
