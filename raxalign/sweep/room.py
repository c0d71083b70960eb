"""The nodes of a cluster, also those that may come, and what they have room for: which jobs fit
beside those that run, and what no node can ever give.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray

from raxalign.errors import ResourceError
from raxalign.sweep.events import Hear, Said
from raxalign.sweep.job import Job
from raxalign.sweep.order import Holds

DRIVER = "trial_driver"
"""A resource of its own: drivers of training trials must never take what their workers wait for."""
BOOTSTRAP = Path("~/ray_bootstrap_config.yaml")
"""On the head of a cluster that `ray up` made: which nodes it may start. It is JSON."""
JOINING, _LOOK = 600.0, 2.0  # seconds in which machines join that are there, and between two looks

Node = Mapping[str, float]
"""The resources of one node by their names."""


@dataclass(frozen=True)
class Room:
    """The nodes of a cluster at one moment, those included that it may still start."""

    job: Job
    nodes: Sequence[Node]

    def fits(self, needs: Holds, held: Mapping[Holds, int]) -> bool:
        """Check whether a job fits beside those that run. One fits always where nothing runs: it
        waits for nodes that are lost or not there yet. `held` counts those by what they hold.
        """
        if not any(held.values()):
            return True
        asked = self.job.workers if needs is Holds.GROUP else 1
        return self.free(needs, held) >= asked

    def free(self, needs: Holds, held: Mapping[Holds, int]) -> int:
        """Count the workers for which there is room beside the jobs that run."""
        whole = held.get(Holds.WORKER, 0) + self.job.workers * held.get(Holds.GROUP, 0)
        cores = sum(slots(node, {"CPU": float(self.job.threads)}) for node in self.nodes)
        cores -= whole + held.get(Holds.CPUS, 0)
        if needs is Holds.CPUS:
            return cores
        return min(cores, sum(slots(node, demand(self.job)) for node in self.nodes) - whole)


@dataclass(frozen=True)
class Nodes:
    """What a cluster has. It `may_grow` by nodes of which nothing is known: Ray does not report
    whether an autoscaler runs, and what it may start.
    """

    alive: tuple[Node, ...]
    most: tuple[Node, ...] = ()  # besides the head, when it is as large as it may grow, if known
    may_grow: bool = False

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
        """Return the nodes to count on. Of a cluster that may grow a quarter more is requested than
        it has, since jobs that wait make an autoscaler start nodes. Groups of workers are not:
        without an autoscaler one would wait until it is given up.
        """
        if not self.may_grow or job.workers > 1:
            return (*self.alive, *self.later)
        there = sum(slots(node, demand(job)) for node in self.alive)
        return (*self.alive, *(demand(job) for _ in range(max(there // 4, 1))))

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
    config = _bootstrap() if address else {}
    most = [
        kind["resources"]
        for name, kind in config.get("available_node_types", {}).items()
        if name != config.get("head_node_type")
        for _ in range(min(kind.get("max_workers", 0), config.get("max_workers", 0)))
    ]
    return Nodes(_alive(), tuple(most), may_grow=bool(address) and not config)


def _alive() -> tuple[Node, ...]:
    return tuple(node["Resources"] for node in ray.nodes() if node["Alive"])


def _bootstrap() -> dict[str, Any]:
    """Return what `ray up` left on the head; empty where this is not such a head."""
    with suppress(OSError, ValueError):
        return dict(json.loads(BOOTSTRAP.expanduser().read_text(encoding="utf-8")))
    return {}


def wait_for_named(job: Job, nodes: Nodes, hear: Hear, *, training: bool) -> Nodes:
    """Wait until a trial fits, or all machines have joined that the cluster file of `ray up` names:
    its command ends before Ray runs on the workers. Returns the nodes that are there then.
    """
    provider = _bootstrap().get("provider", {})
    named = 1 + len(provider.get("worker_ips", ())) if provider.get("type") == "local" else 0
    end, told = time.monotonic() + JOINING, False
    while len(nodes.alive) < named and time.monotonic() < end:
        with suppress(ResourceError):
            check_fits(job, (*nodes.alive, *nodes.later), training=training)
            break
        if not told:
            there = f"the cluster file names {named} machines, and {len(nodes.alive)} joined so far"
            hear(Said(f"{there}: waiting for the others"))
        told = True
        time.sleep(_LOOK)
        nodes = nodes.now()
    return nodes


def with_gpus(job: Job, nodes: Nodes, hear: Hear) -> tuple[Job, Nodes]:
    """Return the job with a card for each worker where a node has one, if the grid does not say how
    many; and the nodes by then. Named machines are waited for, since one of them may have a card.
    """
    if job.gpus is not None:
        return job, nodes
    nodes = wait_for_named(replace(job, gpus=1.0), nodes, hear, training=False)
    if not any(node.get("GPU") for node in (*nodes.alive, *nodes.later)):
        return replace(job, gpus=0.0), nodes
    hear(Said("each worker gets a card of its own (run.gpus_per_worker: 0.5 lets two share one)"))
    return replace(job, gpus=1.0), nodes


def refuse_impossible(job: Job, nodes: Nodes, hear: Hear, *, training: bool) -> str | None:
    """Raise `ResourceError` with the name of the resource where the cluster can never give what a
    trial asks for. Where nodes may come of which nothing is known, the message is printed and
    returned instead, and the request waits for them.
    """
    try:
        check_fits(job, (*nodes.alive, *nodes.later), training=training)
    except ResourceError as error:
        if training:
            check_driver(nodes.alive)
        if not nodes.may_grow:
            raise
        hear(Said(f"{error}. Waiting for nodes that the cluster may start"))
        return str(error)
    return None


def demand(job: Job) -> dict[str, float]:
    """Return what one worker holds."""
    return {"CPU": float(job.threads), **({"GPU": job.gpus} if job.gpus else {})}


def slots(node: Node, wanted: Mapping[str, float]) -> int:
    """Count the workers that a node has room for."""
    return min(int(node.get(resource, 0.0) / amount + 1e-6) for resource, amount in wanted.items())


def check_fits(job: Job, nodes: Sequence[Node], *, training: bool) -> None:
    """Refuse what no node can ever give, naming the resource; a group must fit the cluster."""
    wanted = demand(job)
    for resource, amount in wanted.items():
        most = max((node.get(resource, 0.0) for node in nodes), default=0.0)
        if amount > most:
            gpus = "lower run.gpus_per_worker, or join a cluster that has them with --address"
            remedy = "lower run.threads" if resource == "CPU" else gpus
            raise ResourceError(
                f"a worker asks for {amount:g} {resource}, and no node has more than {most:g}:"
                f" {remedy}"
            )
    each, total = describe(wanted), sum(slots(node, wanted) for node in nodes)
    if not total:
        raise ResourceError(f"a worker asks for {each}, and no node has both")
    if training and job.workers > total:
        raise ResourceError(
            f"a trial asks for {job.workers} workers with {each} each, and the cluster has room for"
            f" {total}: lower run.workers (--workers)"
        )
    if training:
        check_driver(nodes)


def check_driver(nodes: Sequence[Node]) -> None:
    """Refuse trials with several workers where no node has the resource of their drivers."""
    if not any(node.get(DRIVER) for node in nodes):
        raise ResourceError(
            f"no node has the resource {DRIVER!r}, which the drivers of trials with several workers"
            f" sit on: start the head with --resources='{{\"{DRIVER}\": 1000}}' (cluster.yaml does)"
        )


def describe(wanted: Mapping[str, float]) -> str:
    """Describe resources in words: `2 CPU and 1 GPU`."""
    return " and ".join(f"{amount:g} {resource}" for resource, amount in wanted.items())
