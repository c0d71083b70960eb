"""Whether the process that holds a lock on another machine of the cluster lives: a worker that was
lost leaves its lock behind, and its own machine, or Ray where that is gone, knows that it is dead.
"""

from __future__ import annotations

from collections.abc import Sequence

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raxalign.store.lease import EXPIRY, Holder

GONE = 60.0
"""Seconds of silence, three signs of life, after which a holder counts as dead that its host does
not know: it is in another container with the same name, or the host was started anew.
"""
_ANSWER = 30.0  # seconds within which a machine must have started a worker and answered


def patience(holder: Holder) -> float:
    """Return the seconds of silence after which a holder of a lock counts as dead: 0 where its own
    machine reports that it is, or Ray that its machine has left the cluster. Where only the network
    was cut it may still work; it then finds at its next sign of life that it has lost the lock.
    """
    if not ray.is_initialized():
        return EXPIRY
    nodes = [node for node in ray.nodes() if node["NodeManagerHostname"] == holder.host]
    living = [node["NodeID"] for node in nodes if node["Alive"]]
    try:
        answers = _ask(holder, living)
    except ray.exceptions.RayError:
        return EXPIRY
    if True in answers or not nodes:
        return EXPIRY
    return 0.0 if False in answers or len(living) < len(nodes) else GONE


def _ask(holder: Holder, nodes: Sequence[str]) -> list[bool | None]:
    """Return what each of these nodes knows of a process (see `Holder.lives`)."""
    calls = [
        _lives.options(  # type: ignore[attr-defined,unused-ignore]
            num_cpus=0,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote(holder)
        for node in nodes
    ]
    answers: list[bool | None] = ray.get(calls, timeout=_ANSWER)
    return answers


@ray.remote  # type: ignore[untyped-decorator,unused-ignore]
def _lives(holder: Holder) -> bool | None:
    """Return what this machine knows of a process."""
    return holder.lives()
