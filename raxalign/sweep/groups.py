"""The training of a trial by a group of workers: a driver that starts Ray Train. This module loads
torch, so only the drivers and workers of groups import it.
"""

from __future__ import annotations

import functools
import secrets
from dataclasses import dataclass
from itertools import count
from typing import Any

import ray
import ray.train
import ray.train.torch
from ray import tune
from ray.train.v2._internal.callbacks.placement_group_callback import (
    PlacementGroupCleanerCallback,
)
from ray.train.v2._internal.execution.callback import WorkerGroupCallback
from ray.train.v2._internal.execution.worker_group import worker_group
from ray.tune.integration.ray_train import TuneReportCallback
from ray.util.placement_group import placement_group

from raxalign.errors import LeaseLost
from raxalign.stages import is_trained
from raxalign.sweep.job import Job, read_plan
from raxalign.sweep.losses import Losses, describe_loss, describe_retry, progress_of
from raxalign.sweep.messages import leave_notice
from raxalign.sweep.placement import prefix_of, remove_groups_of
from raxalign.sweep.trial import TRAINED_ONLY, attempt, given_up, keep_failure, where_pruned

PATIENCE = 6 * 3600
"""Seconds that workers wait for the first one, which may wait for another grid that trains the
same. Ray notices a dead one at once.
"""


def run_group(config: dict[str, Any], job: Job) -> None:
    """The Tune function of the training of a trial with several workers: the driver that starts a
    Ray Train group and, when a worker is lost, another. What is ``trained`` in the end is evaluated
    by one worker, while the room of the others is free.
    """
    key = config["trial"]
    error = given_up(config, job) or _run_groups(job, key)
    pruned = where_pruned(job, key)
    trained = {TRAINED_ONLY: True} if error is None and not pruned else {}
    tune.report({"trial": key, "error": error or "", **pruned, **trained})


def _run_groups(job: Job, key: str) -> str | None:
    """Run one group after the other until the trial is trained, fails, or was lost too often;
    returns the message of its failure.
    """
    ledger, plan = job.storage.ledger, read_plan(job.plan)
    losses = Losses(job.max_failures, lambda: progress_of(job, plan, key))
    for number in count():
        if is_trained(plan, key, job.storage.artifacts, ledger):
            break
        ledger.clear_failure(key)
        remove_groups_of(key)  # of an earlier driver of this trial, which was lost
        loss = _fit_group(job, key, number)
        if loss is None:
            break
        failure = ledger.failure(key)
        if failure is not None and not (failure.get("bug") and loss.died):
            return str(failure["message"])
        if not (loss.overtaken or losses.another()):
            message = describe_loss(loss.cause, losses.count, "group of workers")
            keep_failure(ledger, key, message, loss.trace)
            return message
        leave_notice(job.scratch, key, describe_retry(loss.cause, "group of workers"))
    return None


@dataclass(frozen=True)
class _Loss:
    """What ended a group: an error, whether a worker of it died, and whether another process has
    taken over what it made, which is not a fault of the trial.
    """

    cause: str
    died: bool
    trace: str
    overtaken: bool = False


def _fit_group(job: Job, key: str, number: int) -> _Loss | None:
    """Run one Ray Train group; returns None when it ended well, else what stopped it."""
    resources = {"CPU": float(job.threads), **({"GPU": job.gpus} if job.gpus else {})}
    trainer = GroupTrainer(
        _run_worker,
        train_loop_config={"trial": key, "job": job},
        torch_config=ray.train.torch.TorchConfig(timeout_s=PATIENCE),
        scaling_config=ray.train.ScalingConfig(
            num_workers=job.workers, use_gpu=bool(job.gpus), resources_per_worker=resources
        ),
        run_config=ray.train.RunConfig(
            name=f"train-{key[:16]}-{number}",
            storage_path=job.scratch,
            callbacks=[TuneReportCallback(), Naming(key)],
            failure_config=ray.train.FailureConfig(max_failures=0, controller_failure_limit=3),
        ),
    )
    try:
        trainer.fit()
    # Ray raises several kinds when a group is lost, and none says whether a retry helps
    except Exception as error:  # noqa: BLE001
        return _loss(error)
    return None


def _loss(error: Exception) -> _Loss:
    """Describe what ended a group. Of several workers the dead one counts: the others failed since
    it was gone.
    """
    # a health check that failed holds the reason
    failures = [
        getattr(found, "health_check_failure", found)
        for found in getattr(error, "worker_failures", {}).values()
    ]
    dead = [found for found in failures if isinstance(found, ray.exceptions.RayActorError)]
    cause = str((dead or failures or [error])[0]).strip()
    # the types of errors are lost on their way here, but their names are not (see `_run_worker`)
    overtaken = any(LeaseLost.__name__ in str(found) for found in failures)
    return _Loss(cause, bool(dead) or not failures, str(error), overtaken)


def _run_worker(config: dict[str, Any]) -> None:
    """Run the part of one worker of a group."""
    context = ray.train.get_context()
    try:
        attempt(
            config["job"],
            config["trial"],
            rank=context.get_world_rank(),
            world_size=context.get_world_size(),
        )
    # not every exception survives the way to the controller
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
    ray.train.report({"trial": config["trial"]})


class Naming(WorkerGroupCallback):  # type: ignore[misc]
    """A listener in a group's controller that gives the group's room its name."""

    def __init__(self, trial: str) -> None:
        self._trial = trial

    def before_worker_group_start(self, worker_group_context: Any) -> None:  # noqa: ARG002
        """Have the next placement group of this process named. Ray Train has no option for it."""
        name = f"{prefix_of(self._trial)}{secrets.token_hex(4)}"
        worker_group.placement_group = functools.partial(placement_group, name=name)


class GroupTrainer(ray.train.torch.TorchTrainer):  # type: ignore[misc]
    """Ray Train's trainer without its cleaner of placement groups. The cleaner asks the dashboard,
    and on a cluster without one it never ends when a driver is killed.
    """

    def _create_default_callbacks(self) -> list[Any]:
        return [
            callback
            for callback in super()._create_default_callbacks()
            if not isinstance(callback, PlacementGroupCleanerCallback)
        ]
