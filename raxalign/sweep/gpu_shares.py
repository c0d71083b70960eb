"""The share of a graphics card that each worker gets where the grid leaves it to the cluster
(`run.gpus_per_worker: auto`): none without cards, a whole one where a trial is large, and a
fraction where several trials have room on one.
"""

from __future__ import annotations

import math
from dataclasses import replace

from raxalign.encoders.models.folder import Footprint
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
    parts = job.workers if job.shard_weights else 1
    wanted = wanted_bytes(read_plan(job.plan), job.storage, parts) if job.plan else None
    share = 1.0 if job.workers > 1 else share_of_a_card(wanted, smallest_card())
    held = "a card" if share == 1.0 else f"1/{round(1 / share)} of a card"
    if job.shard_weights and wanted is not None:
        held += f", of which its part of a training takes about {wanted / 2**30:.2g} GiB"
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


def wanted_bytes(plan: Plan, storage: Storage, parts: int = 1) -> float | None:
    """Return the memory of a card that the largest training of a plan takes: by what trainings of
    the same method or task took in this storage, else by its encoder's parameters. None where
    neither is known for one of them. Where workers divide the weights into several `parts`, the
    parameters alone count.
    """
    if parts > 1:
        return _estimated(plan, parts)
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


def sharded_bytes(size: Footprint, parts: int, *, held: bool) -> float:
    """Return what one of several workers takes that divide the weights of a training among them
    (`run.shard_weights`), in bfloat16 where they are `held` so.

    A part of all that a training has of each parameter, and whole what lies outside the blocks,
    which a micro-batch has with its gradients. At least it takes whole weights beside its part of
    them and of the moments: as such they are read before and after, and where selections score
    them.
    """
    each, whole, own = (PER_HELD_PARAMETER, 2, 2) if held else (PER_PARAMETER, 4, 12)
    outside = size.parameters - size.blocks
    step = size.parameters * each / parts + outside * (2 if held else 8)
    return max(step, size.parameters * (whole + own / parts))


def _estimated(plan: Plan, parts: int = 1) -> float | None:
    """Return what training the largest encoder of a plan takes by its parameters, on each of the
    workers that have one of the `parts` of its weights; None where the size of one is not known.
    One that is trained from scratch is not held in bfloat16 meanwhile.
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
            sizes.append(
                footprint.parameters * each
                if parts == 1
                else sharded_bytes(footprint, parts, held=narrow)
            )
    return max(sizes) + BESIDES if sizes else None
