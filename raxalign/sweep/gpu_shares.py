"""The share of a graphics card that each worker gets where the grid leaves it to the cluster
(`run.gpus_per_worker: auto`): none without cards, a whole one where a trial is large, and a
fraction where several trials have room on one.
"""

from __future__ import annotations

import math
from dataclasses import replace

from raxalign.plan.plan import Plan
from raxalign.stages import FITTED, GPU_BYTES
from raxalign.store.storage import Storage
from raxalign.sweep.events import Hear, Said
from raxalign.sweep.job import Job, read_plan
from raxalign.sweep.machines import smallest_card
from raxalign.sweep.room import Nodes, wait_for_named

MOST = 8
"""Workers that share a card at most: more of them would only wait for one another."""
PER_PARAMETER = 24
"""Bytes of a training per parameter of its encoder, before anything was measured: weights,
gradients and two moments (16), a frozen copy (4), and copies in bfloat16 (4).
"""
PER_HELD_PARAMETER = 3
"""The same where the encoder is held in bfloat16 (`run.base_precision`): weights (2), those that
adapters are merged into (4 in their place), and adapters with gradients and two moments (16 each).
"""
BESIDES = 3 * 2**30
"""Bytes besides: what a batch leaves for the backward pass, and what CUDA itself holds."""
_HEADROOM, _CONTEXT = 1.25, 2**30  # on what was measured, which other data may exceed
_USABLE = 0.95  # of the memory of a card
_STEP = 10_000  # Ray counts in ten-thousandths of a card


def settle(job: Job, nodes: Nodes, hear: Hear) -> tuple[Job, Nodes]:
    """Return the job with the share of a card that each worker gets, and the nodes by then. Where
    its plan is not known yet, as that of a search, each worker gets a card of its own. Named
    machines are waited for, since one of them may have a card.
    """
    if not job.auto_gpus:
        return job, nodes
    nodes = wait_for_named(replace(job, gpus=1.0), nodes, hear, training=False)
    job = replace(job, auto_gpus=False)
    if not any(node.get("GPU") for node in (*nodes.alive, *nodes.later)):
        return replace(job, gpus=0.0), nodes
    wanted = wanted_bytes(read_plan(job.plan), job.storage) if job.plan else None
    share = 1.0 if job.workers > 1 else share_of_a_card(wanted, smallest_card())
    held = "a card" if share == 1.0 else f"1/{round(1 / share)} of a card"
    hear(Said(f"each worker gets {held} (run.gpus_per_worker: auto)"))
    return replace(job, gpus=share), nodes


def share_of_a_card(wanted: float | None, card: int) -> float:
    """Return the share of a card with `card` bytes for workers that want `wanted` bytes each. It is
    a whole one where either is not known (None, 0), and where one worker fills it.

    >>> share_of_a_card(8e9, 80_000_000_000), share_of_a_card(30e9, 80_000_000_000)
    (0.125, 0.5)
    >>> share_of_a_card(8e9, 0), share_of_a_card(None, 80_000_000_000), share_of_a_card(9e10, 8)
    (1.0, 1.0, 1.0)
    """
    if not wanted or not card:
        return 1.0
    count = max(1, min(MOST, int(_USABLE * card / wanted)))
    return math.floor(_STEP / count) / _STEP  # rounded up, the last worker would not fit


def wanted_bytes(plan: Plan, storage: Storage) -> float | None:
    """Return the memory of a card that the largest training of a plan takes: by what trainings of
    the same method or task took in this storage, else by its encoder's parameters. None where
    neither is known for one of them.
    """
    fitted = [stage for stage in plan.stages.values() if stage.kind in FITTED and not stage.inline]
    manifests = storage.artifacts.manifests([(stage.kind, stage.key) for stage in fitted])
    measured: dict[tuple[str, str], float] = {}
    for stage in fitted:
        name, manifest = (stage.kind, stage.maker), manifests.get(stage.key)
        took = manifest.notes.get(GPU_BYTES) if manifest is not None else None
        if isinstance(took, int):
            measured[name] = max(measured.get(name, 0.0), took * _HEADROOM + _CONTEXT)
    estimated = _estimated(plan)
    names = {(stage.kind, stage.maker) for stage in fitted}
    found = [measured.get(name, estimated) for name in names] or [estimated]
    known = [size for size in found if size is not None]
    return max(known) if len(known) == len(found) else None


def _estimated(plan: Plan) -> float | None:
    """Return what training the largest encoder of a plan takes by its parameters; None where
    the size of one is not known. One that is trained from scratch is not held in bfloat16
    meanwhile.
    """
    sizes = []
    held = any(stage.base_precision == "bf16" for stage in plan.stages.values())
    for stage in plan.stages.values():
        if stage.kind == "encoder":
            revision = stage.digests.get("encoder")
            footprint = stage.plugin().footprint(
                lambda name, revision=revision: revision if name.startswith("hub:") else None
            )
            if footprint is None:
                return None
            narrow = held and stage.inline
            each = PER_HELD_PARAMETER if narrow else PER_PARAMETER
            sizes.append(footprint.parameters * each)
    return max(sizes) + BESIDES if sizes else None
