"""A trial on a worker: inline in its Tune actor, or as a Ray Train group behind a driver; one
function behind both.
"""

from __future__ import annotations

import traceback
from contextlib import suppress
from typing import Any

import ray.train
import ray.train.torch
from ray import tune
from ray.tune.integration.ray_train import TuneReportCallback

from raxalign.errors import RaxalignError, StorageError, TransientError
from raxalign.stages import run_trial
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool
from raxalign.sweep.job import Job, open_workshop

PATIENCE = (
    6 * 3600
    # seconds that workers wait for the first one, which evaluates alone; a dead one is noticed at
    # once by Ray
)


def attempt(job: Job, key: str, *, rank: int = 0, world_size: int = 1) -> str | None:
    """Run a trial on this worker.

    Args:
        job: What workers need to know.
        key: The trial.
        rank: The number of this worker.
        world_size: The number of workers.

    Returns:
        None, or the message of a failure that no retry would mend, which the storage then keeps.

    Raises:
        Exception: Transient errors, so that Tune tries again; in a group every error, since the
            others wait for this worker.
    """
    ledger, spool = Ledger(job.root), Spool(job.root, key)
    try:
        run_trial(open_workshop(job, report=spool.report, rank=rank, world_size=world_size), key)
    except TransientError:
        raise
    except Exception as error:
        message = (
            str(error) if isinstance(error, RaxalignError) else f"{type(error).__name__}: {error}"
        )
        keep_failure(ledger, key, message, traceback.format_exc())
        if world_size > 1:
            raise
        return message
    finally:
        spool.flush()
    return None


def keep_failure(ledger: Ledger, key: str, message: str, trace: str) -> None:
    """Keep why a trial failed; where the storage can no longer be written, only the driver reports
    it.
    """
    with suppress(StorageError):
        ledger.fail(key, {"message": message, "trace": trace})


def run_inline(config: dict[str, Any], job: Job) -> None:
    """Run a trial with one worker; Tune calls this. What is reported last ends it, which saves a
    second call of the worker.
    """
    Ledger(job.root).clear_failure(config["trial"])
    error = attempt(job, config["trial"])
    tune.report({"trial": config["trial"], "error": error or "", "done": True})


def run_group(config: dict[str, Any], job: Job) -> None:
    """The Tune function of a trial with several workers: the driver that starts a Ray Train group
    and, when a worker dies, another.
    """
    key, ledger = config["trial"], Ledger(job.root)
    ledger.clear_failure(key)
    error: str | None = None
    for number in range(job.max_failures + 1):
        error = _fit_group(job, key, number)
        failure = ledger.failure(key)
        if failure is not None:
            error = failure["message"]
        if error is None or failure is not None:
            break
    if error is not None and ledger.failure(key) is None:
        keep_failure(ledger, key, error, "")
    tune.report({"trial": key, "error": error or ""})


def _fit_group(job: Job, key: str, number: int) -> str | None:
    """Run one Ray Train group; returns None when it ended well, else what stopped it."""
    resources = {"CPU": float(job.threads), **({"GPU": job.gpus} if job.gpus else {})}
    trainer = ray.train.torch.TorchTrainer(
        _run_worker,
        train_loop_config={"trial": key, "job": job},
        torch_config=ray.train.torch.TorchConfig(timeout_s=PATIENCE),
        scaling_config=ray.train.ScalingConfig(
            num_workers=job.workers, use_gpu=bool(job.gpus), resources_per_worker=resources
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
        return f"the group of workers was lost: {error}"
    return None


def _run_worker(config: dict[str, Any]) -> None:
    """Run the part of one worker of a group."""
    context = ray.train.get_context()
    attempt(
        config["job"],
        config["trial"],
        rank=context.get_world_rank(),
        world_size=context.get_world_size(),
    )
    ray.train.report({"trial": config["trial"]})
