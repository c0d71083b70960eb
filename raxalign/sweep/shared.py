"""Whether all machines of a cluster see the same storage. Where each has a folder of that name for
itself, trials fail with files that are missing.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raxalign.errors import StorageError
from raxalign.store.files import split_place
from raxalign.store.storage import Storage
from raxalign.sweep.job import Job, sees

LIMIT = 120.0  # seconds within which a machine must have started a worker and answered


def signed(job: Job) -> Job:
    """Return the job with its sign in the storage, which every machine of the cluster sees. Raises
    `StorageError` where one does not.
    """
    job = replace(job, sign=leave_sign(job))
    check_shared(job)
    return job


def leave_sign(job: Job) -> str:
    """Write a file with a random name into the scratch folder of a grid; returns its place."""
    place = f"{job.scratch}/shared-{secrets.token_hex(8)}"
    storage, name = split_place(place)
    storage.write(name, b"raxalign")
    return place


def check_shared(job: Job) -> None:
    """Have every living machine read the sign of a grid and leave one of its own. Raises
    `StorageError`, which names the machines that do not see it, or whose sign is not seen here.
    """
    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    calls = {
        _answer.options(  # type: ignore[attr-defined,unused-ignore]
            num_cpus=0,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote(job.sign, node): node
        for node in nodes
    }
    done, late = ray.wait(list(calls), num_returns=len(calls), timeout=LIMIT)
    faults = {}
    for call in (*done, *late):
        node = calls[call]
        fault = _fault(call, job, node) if call in done else f"gave no answer in {LIMIT:.0f} s"
        if fault is not None:
            faults[node] = fault
    living = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    if faults.keys() & living:
        raise StorageError(
            describe_faults(
                job.storage, {n: _host(nodes[n]) for n in faults if n in living}, faults
            )
        )


def describe_faults(storage: Storage, hosts: Mapping[str, str], faults: Mapping[str, str]) -> str:
    """Return the message for machines (id -> name) that do not share the storage."""
    said = "; ".join(
        f"{host} {faults[node]}" for node, host in sorted(hosts.items(), key=itemgetter(1))
    )
    return (
        f"{storage}: not every machine of the cluster has this storage: {said}. Mount one shared"
        " file system at that path on all of them, or give an object store (--storage s3://...)"
    )


def _host(node: Mapping[str, Any]) -> str:
    name, address = node["NodeManagerHostname"], node["NodeManagerAddress"]
    return f"{name} ({address})" if name != address else address


def _fault(call: Any, job: Job, node: str) -> str | None:
    """Return what is wrong with the answer of a machine; None for a good one."""
    try:
        problem: str | None = ray.get(call)
    except ray.exceptions.RayError as error:
        return f"could not run the check ({str(error).strip().splitlines()[-1][:200]})"
    if problem is None and not sees(f"{job.sign}.{node}"):
        return "writes to another place of that name"
    return problem


@ray.remote  # type: ignore[untyped-decorator,unused-ignore]
def _answer(sign: str, node: str) -> str | None:
    """Look for the sign and leave another one; returns what is wrong."""
    if not sees(sign):
        return "does not see what the driver wrote there"
    storage, name = split_place(f"{sign}.{node}")
    try:
        storage.write(name, b"raxalign")
    except StorageError as error:
        return f"cannot write there ({error})"
    return None
