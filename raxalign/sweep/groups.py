"""The training of a trial by a group of workers: a driver that starts Ray Train. This module loads
torch, so only the drivers and workers of groups import it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import ray
import ray.train
import ray.train.torch
from ray import tune
from ray.tune.integration.ray_train import TuneReportCallback
from ray.util.placement_group import (
    PlacementGroup,
    get_current_placement_group,
    remove_placement_group,
)

from raxalign.errors import LeaseLost
from raxalign.stages import is_trained
from raxalign.store.files import split_place
from raxalign.sweep.job import Job, read_plan
from raxalign.sweep.mailbox import Outbox
from raxalign.sweep.room import demand
from raxalign.sweep.work import (
    TRAINED_ONLY,
    Losses,
    attempt,
    describe_loss,
    describe_retry,
    given_up,
    keep_failure,
    progress_of,
    where_pruned,
)

PATIENCE = 6 * 3600
"""Seconds that workers wait for the first one, which may wait for another grid."""


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
    ledger, plan, outbox = job.storage.ledger, read_plan(job.plan), Outbox(job.scratch, key)
    losses = Losses(job.max_failures, lambda: progress_of(job, plan, key))
    for number in count():
        if is_trained(plan, key, job.storage.artifacts, ledger):
            break
        ledger.clear_failure(key)
        clear_room(job, key)
        outbox.begin(waiting=True)
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
        outbox.hold_up(describe_retry(loss.cause, "group of workers"))
    return None


def clear_room(job: Job, key: str) -> None:
    """Free the room on the cluster that an earlier group of a trial holds. Where its controller was
    lost, Ray Train frees it only on a cluster with a dashboard, and the next group would wait for
    it.
    """
    storage, name = split_place(f"{job.scratch}/rooms/{key}")
    with suppress(FileNotFoundError):
        number = bytes.fromhex(storage.read(name).decode())
        if number:
            remove_placement_group(PlacementGroup(type(PlacementGroup.empty().id)(number)))
        storage.delete(name)


@dataclass(frozen=True)
class _Loss:
    """What ended a group: an error, whether a worker of it died, and whether another process has
    taken over what it made, which is not a fault of the trial.
    """

    cause: str
    died: bool  # whether a worker of it died
    trace: str
    overtaken: bool = False  # by another process, which is not a fault of the trial


def _fit_group(job: Job, key: str, number: int) -> _Loss | None:
    """Run one Ray Train group; returns None when it ended well, else what stopped it."""
    trainer = ray.train.torch.TorchTrainer(
        _run_worker,
        train_loop_config={"trial": key, "job": job},
        torch_config=ray.train.torch.TorchConfig(timeout_s=PATIENCE),
        scaling_config=ray.train.ScalingConfig(
            num_workers=job.workers, use_gpu=bool(job.gpus), resources_per_worker=demand(job)
        ),
        run_config=ray.train.RunConfig(
            name=f"train-{key[:16]}-{number}",
            storage_path=job.scratch,
            callbacks=[TuneReportCallback()],
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
    """Describe what ended a group. Of several workers the dead one counts: others failed by it."""
    # a health check that failed holds the reason
    found = getattr(error, "worker_failures", {}).values()
    failures = [getattr(failure, "health_check_failure", failure) for failure in found]
    dead = [found for found in failures if isinstance(found, ray.exceptions.RayActorError)]
    cause = str((dead or failures or [error])[0]).strip()
    # the types of errors are lost on their way here, but their names are not (see `_run_worker`)
    overtaken = any(LeaseLost.__name__ in str(found) for found in failures)
    return _Loss(cause, bool(dead) or not failures, str(error), overtaken)


def _run_worker(config: dict[str, Any]) -> None:
    """Run the part of one worker of a group."""
    context, job, key = ray.train.get_context(), config["job"], config["trial"]
    rank = context.get_world_rank()
    if rank == 0:  # for the next group of the trial (`clear_room`)
        storage, name = split_place(f"{job.scratch}/rooms/{key}")
        group = get_current_placement_group()
        storage.write(name, (group.id.hex() if group else "").encode())
    try:
        attempt(job, key, rank=rank, world_size=context.get_world_size())
    # not every exception survives the way to the controller
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
    ray.train.report({"trial": key})
