"""A trial on a worker: inline in its Tune actor, or as a Ray Train group behind a driver; one
function behind both.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import ray
import ray.train
import ray.train.torch
from ray import tune
from ray.tune.integration.ray_train import TuneReportCallback

from raxalign.errors import RaxalignError, StorageError, TransientError
from raxalign.plugin_files import message_of
from raxalign.stages import is_trained, run_trial, train_trial
from raxalign.stages.watching import pruned_at
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool
from raxalign.sweep.advance import Note
from raxalign.sweep.holders import patience
from raxalign.sweep.job import Job, open_workshop, read_plan
from raxalign.sweep.losses import GIVEN_UP, Losses, describe_loss, describe_retry, progress_of
from raxalign.sweep.notices import leave_notice
from raxalign.sweep.placement import GroupTrainer, Naming, remove_groups_of
from raxalign.train.group import lost_peer
from raxalign.train.runtime import TOKENS
from raxalign.train.watch import Pruned

PATIENCE = (
    6 * 3600
    # seconds that workers wait for the first one, which scores weights on dev parts alone, and may
    # wait for another grid that trains the same; a dead one is noticed at once by Ray
)


BETWEEN = 2.0
TRAINED_ONLY = "trained"  # in a group's result, and in Tune's configuration of what is left of it
Scored = Callable[[Mapping[str, float], int], None]
"""Receives the scores on development sets that trainings measure, and their step."""


def _ignored(metrics: Mapping[str, float], step: int) -> None:
    """Scores on development sets that nobody asks for."""


def attempt(
    job: Job, key: str, *, rank: int = 0, world_size: int = 1, scored: Scored = _ignored
) -> str | None:
    """Run a trial on this worker, or train it where this is one of several workers.

    Args:
        job: What workers need to know.
        key: The trial.
        rank: The number of this worker.
        world_size: The number of workers.
        scored: Receives the scores that trainings measure.

    Returns:
        None, or the message of a failure that no retry would mend, which the storage then keeps. A
        trial that was pruned is not a failure.

    Raises:
        Exception: Transient errors, so that Tune tries again; in a group every error, since the
            others wait for this worker. What follows the loss of another worker is `PeerLost`.
    """
    ledger, spool = Ledger(job.root), Spool(job.root, key)
    try:
        report = _reporter(spool, Note(job.scratch if rank == 0 else "", key))
        workshop = open_workshop(job, report=report, rank=rank, world_size=world_size)
        workshop.runtime = replace(workshop.runtime, saved=spool.flush, scored=scored)
        workshop.patience = patience
        workshop.tell = partial(leave_notice, job.scratch, key)
        if world_size > 1:
            train_trial(workshop, key)
        else:
            run_trial(workshop, key)
    except TransientError:
        raise
    except Pruned:
        return None
    except Exception as error:
        message = _kept(ledger, key, error, world_size)
        if world_size > 1:
            raise
        return message
    finally:
        spool.flush()
    return None


def _reporter(spool: Spool, note: Note) -> Callable[[Mapping[str, float], int], None]:
    """Return what receives the metrics of a training: its curves, and what the driver shows of it.

    The speed is shown only, since it is not a result.
    """

    def report(metrics: Mapping[str, float], step: int) -> None:
        curves = {name: v for name, v in metrics.items() if not name.endswith(TOKENS)}
        spool.report(curves, step)
        note.report(metrics, step)

    return report


def _kept(ledger: Ledger, key: str, error: Exception, world_size: int) -> str:
    """Keep why a trial failed; return the message. Raise `PeerLost` where another worker was lost
    before.
    """
    lost = lost_peer(error)
    if lost is not None:
        raise lost from error
    known = isinstance(error, RaxalignError)
    message = message_of(error)
    if world_size == 1 or ledger.failure(key) is None:  # the first of a group to fail knows why
        keep_failure(ledger, key, message, traceback.format_exc(), bug=not known)
    return message


def keep_failure(ledger: Ledger, key: str, message: str, trace: str, *, bug: bool = False) -> None:
    """Keep why a trial failed, and whether that was an error which no code expected; where the
    storage can no longer be written, only the driver reports it.
    """
    with suppress(StorageError):
        ledger.fail(key, {"message": message, "trace": trace, **({"bug": True} if bug else {})})


def run_inline(config: dict[str, Any], job: Job) -> None:
    """Run a trial with one worker; Tune calls this. What is reported last ends it, which saves a
    second call of the worker.
    """
    key = config["trial"]
    error = _given_up(config, job)
    if error is None:
        Ledger(job.root).clear_failure(key)
        error = attempt(job, key, scored=TuneScores().take)
    tune.report({"trial": key, "error": error or "", **_pruned(job, key), "done": True})


class TuneScores:
    """Reports the scores on development sets to Tune while a training runs: at most every
    `BETWEEN` seconds, since a report waits for the driver.
    """

    def __init__(self) -> None:
        self._told, self._latest = time.monotonic(), dict[str, float]()

    def take(self, metrics: Mapping[str, float], step: int) -> None:
        """Take the scores of a step, and report the latest ones where it is time."""
        self._latest |= metrics
        if time.monotonic() - self._told >= BETWEEN:
            tune.report({**self._latest, "step": step})
            self._told = time.monotonic()


def _pruned(job: Job, key: str) -> dict[str, str]:
    """Return in words where a trial was ``pruned``; nothing for one that was not."""
    plan = read_plan(job.plan)
    curve = pruned_at(plan, key, job.root) if plan.studies else None
    if curve is None or all(map(Ledger(job.root).has, plan.by_key[key].evaluations.values())):
        return {}
    return {"pruned": f"pruned at step {curve.points[-1].step:,} of {curve.steps:,}"}


def run_group(config: dict[str, Any], job: Job) -> None:
    """The Tune function of the training of a trial with several workers: the driver that starts a
    Ray Train group and, when a worker is lost, another. What is ``trained`` in the end is evaluated
    by one worker, while the room of the others is free.
    """
    key = config["trial"]
    error = _given_up(config, job) or _run_groups(job, key)
    pruned = _pruned(job, key)
    trained = {TRAINED_ONLY: True} if error is None and not pruned else {}
    tune.report({"trial": key, "error": error or "", **pruned, **trained})


def _given_up(config: dict[str, Any], job: Job) -> str | None:
    """Return why the driver has given up a trial, and keep it; None where it has not."""
    reason: str | None = config.get(GIVEN_UP)
    if reason is not None:
        keep_failure(Ledger(job.root), config["trial"], reason, "")
    return reason


def _run_groups(job: Job, key: str) -> str | None:
    """Run one group after the other until the trial is trained, fails, or was lost too often;
    returns the message of its failure.
    """
    ledger, plan = Ledger(job.root), read_plan(job.plan)
    losses = Losses(job.max_failures, lambda: progress_of(job, plan, key))
    for number in count():
        if is_trained(plan, key, ArtifactStore(job.root), ledger):
            break
        ledger.clear_failure(key)
        remove_groups_of(key)  # of an earlier driver of this trial, which was lost
        loss = _fit_group(job, key, number)
        if loss is None:
            break
        failure = ledger.failure(key)
        if failure is not None and not (failure.get("bug") and loss.died):
            return str(failure["message"])
        if not losses.another():
            message = describe_loss(loss.cause, losses.count, "group of workers")
            keep_failure(ledger, key, message, loss.trace)
            return message
        leave_notice(job.scratch, key, describe_retry(loss.cause, "group of workers"))
    return None


@dataclass(frozen=True)
class _Loss:
    """What ended a group: an error, and whether a worker of it died."""

    cause: str
    died: bool
    trace: str


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
    return _Loss(cause, bool(dead) or not failures, str(error))


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
