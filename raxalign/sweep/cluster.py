"""The cluster: starting or joining it, what fits on it, and how many trials run at once."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

import ray

from raxalign.errors import ResourceError
from raxalign.sweep.job import Job

DRIVER = "trial_driver"  # a resource of its own: drivers of training trials must never take what their workers wait for


def connect(address: str | None, *, dashboard: bool) -> None:
    """Join the cluster at an address, or start one on this machine (with room for trial drivers)."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # with verbose=0 the older output prints nothing
    if address:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        return
    ray.init(
        address="local",
        resources={DRIVER: 1000},
        include_dashboard=dashboard,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )


def node_resources() -> list[Mapping[str, float]]:
    """What each node that is alive has."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def check_fits(job: Job, nodes: list[Mapping[str, float]], *, training: bool) -> None:
    """Refuse what no node can ever give, naming the resource; a group of workers must fit on the cluster as a whole."""
    wanted = {"CPU": float(job.threads), **({"GPU": job.gpus} if job.gpus else {})}
    for resource, amount in wanted.items():
        most = max((node.get(resource, 0.0) for node in nodes), default=0.0)
        if amount > most:
            raise ResourceError(
                f"a worker asks for {amount:g} {resource}, and no node has more than {most:g}: "
                + ("lower run.threads" if resource == "CPU" else "lower run.gpus_per_worker (or --workers), or join a cluster with --address")
            )
        total = sum(node.get(resource, 0.0) // amount for node in nodes)
        if training and job.workers > total:
            raise ResourceError(
                f"a trial asks for {job.workers} workers with {amount:g} {resource} each, and the cluster has room for {total:g}: lower run.workers"
            )
    if training and not any(node.get(DRIVER) for node in nodes):
        raise ResourceError(
            f"no node has the resource {DRIVER!r}, which the drivers of trials with several workers sit on: start the head with "
            f"--resources='{{\"{DRIVER}\": 1000}}' (cluster.yaml does)"
        )


def concurrency(job: Job, nodes: list[Mapping[str, float]], *, training: bool) -> int:
    """How many trials can hold all their workers at once: computed, so that no two wait for each other for ever."""
    workers = job.workers if training else 1
    wanted = {"CPU": float(job.threads), **({"GPU": job.gpus} if job.gpus else {})}
    slots = min(sum(int(node.get(resource, 0.0) // amount) for node in nodes) for resource, amount in wanted.items())
    return max(1, slots // workers)
