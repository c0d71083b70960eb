"""The cluster: starting or joining it, what fits on it, and how many trials run at once."""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
from ray._raylet import Config  # type: ignore[attr-defined]

from raxalign.errors import ResourceError
from raxalign.sweep.job import Job, thread_limits

# a resource of its own: drivers of training trials must never take what their workers wait for
DRIVER = "trial_driver"
BOOTSTRAP = Path(
    "~/ray_bootstrap_config.yaml"
    # on the head of a cluster that `ray up` made: which nodes it may start (JSON in spite of its
    # name)
)
_ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # with verbose=0 the older output prints nothing
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": (
        "1800"
    ),  # groups fit, so that one which waits only waits for a node to boot
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}


def connect(address: str | None, job: Job) -> None:
    """Join the cluster at an address, or start one on this machine (with room for trial drivers).
    Workers begin with their share of threads.
    """
    if ray.is_initialized():
        return
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    if address:
        environment = {
            **thread_limits(job.threads),
            **{name: os.environ[name] for name in _ENVIRONMENT},
        }
        try:
            ray.init(
                address=address,
                runtime_env={"env_vars": environment},
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, ValueError) as error:
            raise ResourceError(
                f"no Ray cluster answers at {address}: {error}. Start one (ray up, ray start"
                " --head), or leave out --address"
            ) from error
        return
    os.environ.update(thread_limits(job.threads))  # workers inherit it
    require_token()
    ray.init(
        address="local",
        resources={DRIVER: 1000},
        # it needs more libraries (ray[default]), and a second one on a machine confuses both
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )


def require_token() -> None:
    """Have a cluster that is started here answer only to who knows its token, in a file that only
    the user can read: Ray listens on all addresses of a machine. `RAY_AUTH_MODE` overrides it.
    """
    if "RAY_AUTH_MODE" in os.environ:
        return
    os.environ["RAY_AUTH_MODE"] = "token"
    Config.initialize("")  # Ray read its settings when it was imported
    if "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ:
        return
    file = Path("~/.ray/auth_token").expanduser()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(secrets.token_hex(32))
    except FileExistsError:
        file.chmod(0o600)


def node_resources(address: str | None = None) -> list[Mapping[str, float]]:
    """Return what each node has: those that are alive, and on the head of a cluster that grows
    those that it may still start.
    """
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not address:
        return alive
    try:
        config: dict[str, Any] = json.loads(BOOTSTRAP.expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return alive
    grown = [
        kind["resources"]
        for name, kind in config.get("available_node_types", {}).items()
        if name != config.get("head_node_type")
        for _ in range(min(kind.get("max_workers", 0), config.get("max_workers", 0)))
    ]
    heads = [node for node in alive if node.get("node:__internal_head__")]
    return max([heads + grown, alive], key=len) if grown else alive


def _wanted(job: Job) -> dict[str, float]:
    """Return what one worker holds."""
    return {"CPU": float(job.threads), **({"GPU": job.gpus} if job.gpus else {})}


def check_fits(job: Job, nodes: list[Mapping[str, float]], *, training: bool) -> None:
    """Refuse what no node can ever give, naming the resource; a group of workers must fit on the
    cluster as a whole.
    """
    wanted = _wanted(job)
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
    each = " and ".join(f"{amount:g} {resource}" for resource, amount in wanted.items())
    total = sum(_slots(node, wanted) for node in nodes)
    if not total:
        raise ResourceError(f"a worker asks for {each}, and no node has both")
    if training and job.workers > total:
        raise ResourceError(
            f"a trial asks for {job.workers} workers with {each} each, and the cluster has room for"
            f" {total}: lower run.workers (--workers)"
        )
    if training and not any(node.get(DRIVER) for node in nodes):
        raise ResourceError(
            f"no node has the resource {DRIVER!r}, which the drivers of trials with several workers"
            f" sit on: start the head with --resources='{{\"{DRIVER}\": 1000}}' (cluster.yaml does)"
        )


def _slots(node: Mapping[str, float], wanted: Mapping[str, float]) -> int:
    """Count the workers that a node has room for."""
    return min(int(node.get(resource, 0.0) / amount + 1e-6) for resource, amount in wanted.items())


def concurrency(job: Job, nodes: list[Mapping[str, float]], *, training: bool) -> int:
    """Count the trials that can hold all their workers at once, so that no two of them block each
    other.
    """
    slots = sum(_slots(node, _wanted(job)) for node in nodes)
    return max(1, min(slots // (job.workers if training else 1), job.at_once or slots))
