"""What the nodes of a cluster have room for: which steps fit beside those that run, and what no
node can ever give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raxalign.errors import ResourceError
from raxalign.sweep.job import Job
from raxalign.sweep.order import Needs

DRIVER = "trial_driver"
"""A resource of its own: drivers of training trials must never take what their workers wait for."""

Node = Mapping[str, float]
"""The resources of one node by their names."""


@dataclass(frozen=True)
class Room:
    """The nodes of a cluster at one moment, those included that it may still start."""

    job: Job
    nodes: Sequence[Node]

    def fits(self, needs: Needs, held: Mapping[Needs, int]) -> bool:
        """Check whether a step fits beside those that run. One fits always where nothing runs: it
        waits for nodes that are lost or not there yet.

        Args:
            needs: What the step holds.
            held: The number of steps that run, by what they hold.
        """
        if not any(held.values()):
            return True
        asked = self.job.workers if needs is Needs.GROUP else 1
        return self.free(needs, held) >= asked

    def free(self, needs: Needs, held: Mapping[Needs, int]) -> int:
        """Count the workers for which there is room beside the steps that run."""
        grouped = self.job.workers * held.get(Needs.GROUP, 0)
        whole = held.get(Needs.WORKER, 0) + grouped
        taken = whole + held.get(Needs.CPUS, 0)
        cores = sum(slots(node, {"CPU": float(self.job.threads)}) for node in self.nodes) - taken
        if needs is Needs.CPUS:
            return cores
        return min(cores, sum(slots(node, demand(self.job)) for node in self.nodes) - whole)


def demand(job: Job) -> dict[str, float]:
    """Return what one worker holds."""
    return {"CPU": float(job.threads), **({"GPU": job.gpus} if job.gpus else {})}


def slots(node: Node, wanted: Mapping[str, float]) -> int:
    """Count the workers that a node has room for."""
    return min(int(node.get(resource, 0.0) / amount + 1e-6) for resource, amount in wanted.items())


def check_fits(job: Job, nodes: Sequence[Node], *, training: bool) -> None:
    """Refuse what no node can ever give, naming the resource; a group of workers must fit on the
    cluster as a whole.
    """
    wanted = demand(job)
    for resource, amount in wanted.items():
        most = max((node.get(resource, 0.0) for node in nodes), default=0.0)
        if amount > most:
            raise ResourceError(
                f"a worker asks for {amount:g} {resource}, and no node has more than {most:g}: "
                + (
                    "lower run.threads"
                    if resource == "CPU"
                    else "lower run.gpus_per_worker, or join a cluster that has them with --address"
                )
            )
    each = describe(wanted)
    total = sum(slots(node, wanted) for node in nodes)
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
