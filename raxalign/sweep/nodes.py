"""The nodes of a cluster: those that are alive, and those that its autoscaler may still start."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from ray._private.state import state
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.autoscaler.sdk import request_resources
from ray.core.generated.autoscaler_pb2 import GetClusterStatusReply

from raxalign.errors import ResourceError
from raxalign.sweep.job import Job
from raxalign.sweep.observer import Observer
from raxalign.sweep.room import Node, check_driver, check_fits, demand, describe, slots

BOOTSTRAP = Path(
    "~/ray_bootstrap_config.yaml"
    # on the head of a cluster that `ray up` made: which nodes it may start (JSON in spite of its
    # name)
)
_ANSWER = 30.0  # seconds in which an autoscaler answers whether it can start a node
_UNLIMITED = 1000  # nodes, where a group of nodes has no limit
JOINING, _LOOK = 600.0, 2.0  # seconds in which machines join that are there, and between two looks


@dataclass(frozen=True)
class Nodes:
    """What a cluster has.

    Attributes:
        alive: What each node has that is alive.
        most: What each node besides the head has when the cluster is as large as it may grow;
            empty where that is not known.
        grows: Whether an autoscaler runs that does not publish what it may start.
    """

    alive: tuple[Node, ...]
    most: tuple[Node, ...] = ()
    grows: bool = False

    @property
    def later(self) -> tuple[Node, ...]:
        """What each node has that may still be started."""
        left = list(self.most)
        for node in self.alive:
            same = [kind for kind in left if all(node.get(name) == kind[name] for name in kind)]
            if same:
                left.remove(same[0])
        heads = sum("node:__internal_head__" in node for node in self.alive)
        return tuple(left[: max(0, heads + len(self.most) - len(self.alive))])

    def all(self, job: Job) -> tuple[Node, ...]:
        """Return the nodes to count on. Where an autoscaler does not publish what it may start, its
        cluster is taken to double: steps that wait make it start nodes.
        """
        if not self.grows:
            return (*self.alive, *self.later)
        there = sum(slots(node, demand(job)) for node in self.alive)
        return (*self.alive, *(demand(job) for _ in range(max(there, job.workers, 4))))

    def now(self) -> Nodes:
        """Return the same cluster with the nodes that are alive now. Where Ray does not answer, it
        is the one that was known; Ray itself ends a driver that has lost its cluster.
        """
        with suppress(ray.exceptions.RayError, TimeoutError, ConnectionError):
            return replace(self, alive=_alive())
        return self


def find_nodes(address: str | None) -> Nodes:
    """Return the nodes of the cluster that this process has joined (at an address), or of the Ray
    that it started on this machine (None).
    """
    if not address:
        return Nodes(_alive())
    most = _of_bootstrap() or _of_autoscaler()
    if most:
        return Nodes(_alive(), tuple(most))
    return Nodes(_alive(), grows=_status().autoscaling_state.autoscaler_state_version > 0)


def _alive() -> tuple[Node, ...]:
    return tuple(node["Resources"] for node in ray.nodes() if node["Alive"])


def refuse_impossible(job: Job, nodes: Nodes, *, training: bool) -> None:
    """Raise `ResourceError` with the name of the resource where the cluster can never give what a
    trial asks for. An autoscaler that does not publish what it may start is asked.
    """
    try:
        check_fits(job, (*nodes.alive, *nodes.later), training=training)
    except ResourceError:
        if not nodes.grows:
            raise
        if training:
            check_driver(nodes.alive)
        count = job.workers if training else 1
        if not _can_start(demand(job), count):
            raise ResourceError(
                f"{'a group of ' if count > 1 else ''}{count} worker{'s' if count > 1 else ''} with"
                f" {describe(demand(job))} each was requested, and the autoscaler of the cluster"
                " reports that it cannot start nodes for that: lower run.threads,"
                " run.gpus_per_worker or run.workers, or join another cluster with --address"
            ) from None


def wait_for_named(job: Job, nodes: Nodes, observer: Observer, *, training: bool) -> Nodes:
    """Wait until a trial fits, or all machines have joined that the cluster file of `ray up` names:
    its command ends before Ray runs on the workers. Returns the nodes that are there then.
    """
    named, end, told = _named(), time.monotonic() + JOINING, False
    while len(nodes.alive) < named and time.monotonic() < end:
        with suppress(ResourceError):
            check_fits(job, (*nodes.alive, *nodes.later), training=training)
            break
        if not told:
            observer.noticed(
                f"the cluster file names {named} machines, and {len(nodes.alive)} joined so far:"
                " waiting for the others"
            )
        told = True
        time.sleep(_LOOK)
        nodes = nodes.now()
    return nodes


def _bootstrap() -> dict[str, Any]:
    """Return what `ray up` left on the head; empty where this is not such a head."""
    try:
        found: dict[str, Any] = json.loads(BOOTSTRAP.expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _named() -> int:
    """Return how many machines the cluster file names; 0 where Ray starts them itself."""
    provider = _bootstrap().get("provider", {})
    return 1 + len(provider.get("worker_ips", ())) if provider.get("type") == "local" else 0


def _of_bootstrap() -> list[Node]:
    """Return what each node has that Ray's bootstrap file lets the cluster start."""
    config = _bootstrap()
    return [
        kind["resources"]
        for name, kind in config.get("available_node_types", {}).items()
        if name != config.get("head_node_type")
        for _ in range(min(kind.get("max_workers", 0), config.get("max_workers", 0)))
    ]


def _of_autoscaler() -> list[Node]:
    """Return what each node has that the autoscaler says it may start."""
    config = state.get_cluster_config()
    return [
        {name: float(amount) for name, amount in kind.resources.items()}
        for kind in (config.node_group_configs if config else ())
        for _ in range(kind.max_count if kind.max_count >= 0 else _UNLIMITED)
    ]


def _status() -> Any:
    """Return what Ray and its autoscaler know of the cluster (a `GetClusterStatusReply`)."""
    reply = GetClusterStatusReply()
    client = GcsClient(address=ray.get_runtime_context().gcs_address)
    reply.ParseFromString(client.get_cluster_status(timeout_s=10))
    return reply


def _can_start(wanted: Mapping[str, float], count: int) -> bool:
    """Ask the autoscaler for workers, and return whether it can start nodes for them. The request
    is withdrawn: trials make their own.
    """
    request_resources(bundles=[dict(wanted)] * count)
    try:
        asked = _status().cluster_resource_state.cluster_resource_state_version
        end = time.monotonic() + _ANSWER
        while time.monotonic() < end:
            answer = _status().autoscaling_state
            if answer.last_seen_cluster_resource_state_version >= asked:
                return not answer.infeasible_cluster_resource_constraints
            time.sleep(0.5)
        return True  # slow, but not refused
    finally:
        request_resources(bundles=[])
