"""Questions to the machines of a cluster: whether they see the driver's storage, and whether a
process of theirs lives that holds a lock.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raxalign.errors import StorageError
from raxalign.store.files import split_place
from raxalign.store.lease import EXPIRY, Holder
from raxalign.sweep.job import Job, sees

LIMIT = 120.0  # seconds within which a machine must have started a worker and answered
GONE = 60.0
"""Seconds of silence, three signs of life, after which a holder counts as dead that its host does
not know: it is in another container with the same name, or the host was started anew.
"""
_SOON = 30.0  # seconds for an answer of who waits for a lock


def ask(remote: Any, nodes: Iterable[str], *given: object, seconds: float = LIMIT) -> Any:
    """Call a remote function on each of these nodes. Return the answers by node, an error of Ray
    where there is one; who has not answered in time is left out.
    """
    calls = {
        remote.options(
            num_cpus=0,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote(*given): node
        for node in nodes
    }
    done, _ = ray.wait(list(calls), num_returns=len(calls), timeout=seconds) if calls else ([], [])
    return {calls[call]: _answer(call) for call in done}


def _answer(call: Any) -> Any:
    try:
        return ray.get(call)
    except ray.exceptions.RayError as error:
        return error


def patience(holder: Holder) -> float:
    """Return the seconds of silence after which a holder of a lock counts as dead: 0 where its own
    machine reports that it is, or Ray that its machine has left the cluster. Where only the network
    was cut it may still work; it then finds at its next sign of life that it has lost the lock.
    """
    if not ray.is_initialized():
        return EXPIRY
    nodes = [node for node in ray.nodes() if node["NodeManagerHostname"] == holder.host]
    living = [node["NodeID"] for node in nodes if node["Alive"]]
    answers = list(ask(_lives, living, holder, seconds=_SOON).values())
    unknown = len(answers) < len(living) or any(isinstance(a, Exception) for a in answers)
    if unknown or True in answers or not nodes:
        return EXPIRY
    return 0.0 if False in answers or len(living) < len(nodes) else GONE


@ray.remote  # type: ignore[untyped-decorator,unused-ignore]
def _lives(holder: Holder) -> bool | None:
    """Return what this machine knows of a process."""
    return holder.lives()


def signed(job: Job) -> Job:
    """Return the job with its sign, a file with a random name in the scratch folder, which every
    machine of the cluster sees. Raises `StorageError` where one does not.
    """
    job = replace(job, sign=f"{job.scratch}/shared-{secrets.token_hex(8)}")
    storage, name = split_place(job.sign)
    storage.write(name, b"raxalign")
    check_shared(job)
    return job


def check_shared(job: Job) -> None:
    """Have every living machine read the sign of a grid and leave one of its own. Raises
    `StorageError`, which names the machines that do not see it, or whose sign is not seen here.
    """
    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    answers = ask(_look, nodes, job.sign)
    found = {node: _fault(answers, job, node) for node in nodes}
    living = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    faults = []
    for node, text in found.items():
        if text is not None and node in living:
            name, address = (nodes[node][f"NodeManager{what}"] for what in ("Hostname", "Address"))
            faults.append(f"{name} ({address}) {text}" if name != address else f"{name} {text}")
    if faults:
        raise StorageError(
            f"{job.storage}: not every machine of the cluster has this storage:"
            f" {'; '.join(sorted(faults))}. Mount one shared file system at that path on all of"
            " them, or give an object store (--storage s3://...)"
        )


def _fault(answers: Mapping[str, Any], job: Job, node: str) -> str | None:
    """Return what is wrong with the answer of a machine; None for a good one."""
    if node not in answers:
        return f"gave no answer in {LIMIT:.0f} s"
    problem = answers[node]
    if isinstance(problem, Exception):
        return f"could not run the check ({str(problem).strip().splitlines()[-1][:200]})"
    if problem is None and not sees(f"{job.sign}.{node}"):
        return "writes to another place of that name"
    return str(problem) if problem else None


@ray.remote  # type: ignore[untyped-decorator,unused-ignore]
def _look(sign: str) -> str | None:
    """Look for the sign and leave another one; returns what is wrong."""
    if not sees(sign):
        return "does not see what the driver wrote there"
    storage, name = split_place(f"{sign}.{ray.get_runtime_context().get_node_id()}")
    try:
        storage.write(name, b"raxalign")
    except StorageError as error:
        return f"cannot write there ({error})"
    return None
