"""The work of one worker: a shared stage, or a trial, whole or trained as one of a group of
workers, which a driver starts with Ray Train. Torch is loaded where something trains, and Ray for
groups.
"""

from __future__ import annotations

import ctypes
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from raxalign.catalog import PluginFault
from raxalign.errors import (
    LeaseLost,
    RaxalignError,
    ResourceError,
    StorageError,
    TransientError,
)
from raxalign.grid.plan import Plan
from raxalign.search.watch import Watched
from raxalign.stages import Workshop
from raxalign.stages.checkpoints import Checkpoints
from raxalign.store.files import split_place
from raxalign.store.lease import Holder
from raxalign.store.spool import Spool
from raxalign.sweep.job import Job, Outbox
from raxalign.sweep.order import Holds
from raxalign.train.group import lost_peer
from raxalign.train.runtime import Pruned, Runtime, TokenRate

_PATIENCE = 6 * 3600
"""Seconds that workers wait for the first one, which may wait for another grid."""
Mark = tuple[int, int, int]
Patience = Callable[[Holder], float]


def run_job(config: dict[str, Any], job: Job, patience: Patience) -> dict[str, Any]:
    """Run a stage or a trial; return its result. `patience` is that of `Locks.hold`."""
    job = replace(job, plan=config["plan"])
    try:
        if "stage" in config:
            return _run_stage(config, job, patience)
        if config["needs"] == Holds.GROUP.name:
            return _run_group(config, job)
        return _run_inline(config, job, patience)
    finally:
        # the C library keeps what a job has freed, after a training run some GiB in each worker
        # that is used again, and other workers need it
        with suppress(AttributeError):  # glibc alone has it
            ctypes.CDLL(None).malloc_trim(0)


@dataclass
class Losses:
    """The losses of one trial or stage. It is given up after more than `Job.max_failures` losses
    between which it did not get further than it was before. What an earlier run left counts as
    progress once.
    """

    GIVEN_UP: ClassVar = "given_up"
    """In Tune's configuration of a trial: why it is not run once more."""

    job: Job
    plan: Plan
    key: str
    what: str = "worker"  # that is lost
    count: int = 0
    _best: Mark = field(default=(0, 0, 0))

    def another(self) -> bool:
        """Count a loss; return whether the trial is to be tried again."""
        now = self.progress()
        if now > self._best:
            self._best, self.count = now, 0
        else:
            self.count += 1
        return self.count <= self.job.max_failures

    def progress(self) -> Mark:
        """Return how far a trial, or a stage, is: its evaluations in the ledger, its trainings that
        are done, and the steps that the checkpoints of the others keep. What got further has a
        greater mark.
        """
        plan, storage, evaluations = self.plan, self.job.storage, list[str]()
        trained = [plan.stages[self.key]] if self.key in plan.stages else []
        if self.key in plan.by_key:
            evaluations = list(plan.by_key[self.key].evaluations.values())
            behind = (plan.stages[entry] for entry in plan.closure(evaluations))
            trained = [stage for stage in behind if stage.trained and not stage.inline]
        going = [stage for stage in trained if not storage.artifacts.has(stage.kind, stage.key)]
        return (
            sum(storage.ledger.has(evaluation) for evaluation in evaluations),
            len(trained) - len(going),
            sum(Checkpoints(storage, stage.key).steps() for stage in going),
        )

    def retry(self, cause: object) -> str:
        """Return the line for what lost its worker and is tried again."""
        known = self._described(cause, 1).replace(" was lost once", " was lost", 1)
        return f"{known}; it is tried again, from its last checkpoint where it has one"

    def end(self, cause: object) -> str:
        """Return the message for what lost its worker too often, with the last cause."""
        return self._described(cause, self.count)

    def _described(self, cause: object, count: int) -> str:
        known = getattr(cause, "cause", cause)
        times = f"{count} times" if count > 1 else "once"
        if isinstance(known, RaxalignError):
            return f"{known} (tried {times})"
        lines = str(cause or "no reason was given").strip().splitlines()
        line = lines[-1 if "Traceback" in lines[0] or "ray::" in lines[0] else 0][:300]
        between = " without progress in between" if count > 1 else ""
        return f"its {self.what} was lost {times}{between} ({line})"


@contextmanager
def _told(workshop: Workshop, outbox: Outbox, patience: Patience | None) -> Iterator[None]:
    """Tell the driver what holds the workshop up and what plug-ins print within the block. The
    folder and the environment of the process are those from before it at its end: the next job of
    this worker is another trial's. What the files of plug-ins change when they are loaded stays,
    since they are loaded once.
    """
    workshop.patience, workshop.tell = patience, outbox.hold_up
    environment, folder = dict(os.environ), Path()
    with suppress(OSError):  # it was removed
        folder = Path.cwd()
    try:
        with outbox.passing_on():
            yield
    finally:
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        with suppress(OSError):
            os.chdir(folder)


def _run_stage(config: dict[str, Any], job: Job, patience: Patience) -> dict[str, Any]:
    """Make one shared stage on a worker. Errors that no retry would mend are reported, so that the
    trials that need the stage fail with them; Tune tries the others again.
    """
    key, start, error, trace = config["stage"], time.monotonic(), "", ""
    outbox = job.outbox(key)
    outbox.begin()
    try:
        if Losses.GIVEN_UP in config:
            raise ResourceError(config[Losses.GIVEN_UP])
        workshop = job.open_workshop(report=outbox.report, trains=config["trains"])
        with _told(workshop, outbox, patience):
            workshop.ensure(key)
    except TransientError:
        raise
    # a bug in one stage fails the trials that need it, not the grid
    except Exception as found:  # noqa: BLE001
        error = PluginFault.message_of(found)
        trace = "" if isinstance(found, RaxalignError) else traceback.format_exc()
    seconds = time.monotonic() - start
    return {"error": error, "trace": trace, "seconds": seconds, "done": True}


def _run_inline(config: dict[str, Any], job: Job, patience: Patience) -> dict[str, Any]:
    """Run one trial in this process."""
    key = config["trial"]
    error = _given_up(config, job)
    if error is None:
        error = attempt(job, key, patience)
    return {"trial": key, "error": error or "", **_where_pruned(job, key), "done": True}


def attempt(
    job: Job, key: str, patience: Patience | None = None, *, rank: int = 0, world_size: int = 1
) -> str | None:
    """Run a trial on this worker, or train it where this is one of several workers. Return None, or
    the message of a failure that no retry would mend, which the storage then keeps. A trial that
    was pruned is not a failure.

    Raises transient errors, so that Tune tries again; in a group every error, since the others wait
    for this worker. What follows the loss of another worker is `PeerLost`.
    """
    outbox = job.outbox(key)
    if rank == 0:
        outbox.begin()
    try:
        if world_size == 1:
            job.storage.ledger.clear_failure(job.run_of(key))
        with _curves(job, key, rank, outbox) as (spool, report):
            workshop = job.open_workshop(rank=rank, world_size=world_size)
            workshop.curves = report
            workshop.runtime = replace(workshop.runtime, saved=spool.flush)
            with _told(workshop, outbox, patience):
                (workshop.train_trial if world_size > 1 else workshop.run_trial)(key)
    except TransientError:
        raise
    except Pruned:
        return None
    except Exception as error:
        message = _kept(job, key, error, world_size)
        if world_size > 1:
            raise
        return message
    return None


@contextmanager
def _curves(
    job: Job, key: str, rank: int, outbox: Outbox
) -> Iterator[tuple[Spool, Callable[[str, Mapping[str, float], int], None]]]:
    """Keep the curves of a trial, what its first worker uses, and in the end the hours for which
    this worker held GPUs. Yields what receives metrics of a stage too; only a training run's speed
    is shown.
    """
    plan, begun, machine = job.read_plan(), time.monotonic(), _Machine(job)
    spool, part_of = Spool(job.storage, key, plan.by_key[key].parts), cache(plan.part_of)

    def report(stage: str, metrics: Mapping[str, float], step: int) -> None:
        kept = {n: v for n, v in metrics.items() if not n.endswith(TokenRate.NAME)}
        spool.report(kept, step, part_of(key, stage))
        if rank == 0:
            outbox.report(metrics, step)
            spool.report(machine.sample(), int(time.time()))

    try:
        yield spool, report
    finally:
        if rank == 0:
            spool.report(machine.sample(), int(time.time()))
        if job.gpus:
            hours = job.gpus * (time.monotonic() - begun) / 3600
            spool.report({f"{Spool.GPU_HOURS}/{rank}": hours}, int(time.time()))
        spool.flush()


class _Machine:
    """What this process uses while a trial runs, by MLflow's names; nothing of it is a result."""

    EVERY = 10.0  # seconds between two samples, at least

    def __init__(self, job: Job) -> None:
        self._job, self._wall, self._busy = job, time.monotonic(), time.process_time()

    def sample(self) -> dict[str, float]:
        """Return the load of the trial's cores since the last sample, the memory of the process and
        of its GPU and, with nvidia-ml-py, the GPU's load; nothing shortly after the last sample.
        """
        wall, busy = time.monotonic(), time.process_time()
        if wall - self._wall < self.EVERY:
            return {}
        cores = (busy - self._busy) / (wall - self._wall) / self._job.threads
        self._wall, self._busy, found = wall, busy, {"cpu_utilization_percentage": 100 * cores}
        with suppress(OSError):  # on systems without /proc
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            found["process_memory_megabytes"] = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        if self._job.gpus:
            import torch

            with suppress(Exception):  # no GPU after all, or no NVML: a sample stops no training
                free, whole = torch.cuda.mem_get_info()
                found["gpu_0_memory_usage_megabytes"] = (whole - free) / 1e6
                found["gpu_0_utilization_percentage"] = float(torch.cuda.utilization())
        return {Spool.SYSTEM + name: value for name, value in found.items()}


def _kept(job: Job, key: str, error: Exception, world_size: int) -> str:
    """Keep why a trial failed; return the message. Raise `PeerLost` after another worker's loss."""
    lost = lost_peer(error)
    if lost is not None:
        raise lost from error
    message, trace = PluginFault.message_of(error), traceback.format_exc()
    with suppress(StorageError):  # without the plan, which the driver has
        run = job.run_of(key)
        # the first of a group to fail knows why
        if world_size == 1 or job.storage.ledger.failure(run) is None:
            job.keep_failure(run, message, trace, bug=not isinstance(error, RaxalignError))
    return message


def _where_pruned(job: Job, key: str) -> dict[str, str]:
    """Return in words where a trial was ``pruned``; nothing for one that was not."""
    place = Watched.pruned(job.read_plan(), key, job.storage)
    return {"pruned": place} if place else {}


def _given_up(config: dict[str, Any], job: Job) -> str | None:
    """Return why the driver has given up a trial, and keep it; None where it has not."""
    reason: str | None = config.get(Losses.GIVEN_UP)
    if reason is not None:
        with suppress(StorageError):  # likewise
            job.keep_failure(job.run_of(config["trial"]), reason, "")
    return reason


def _run_group(config: dict[str, Any], job: Job) -> dict[str, Any]:
    """Run the training of a trial with several workers: drive a Ray Train group and, when a worker
    is lost, another. What is ``trained`` in the end is evaluated by one worker, while the room of
    the others is free.
    """
    key = config["trial"]
    error = _given_up(config, job) or _run_groups(job, key)
    pruned = _where_pruned(job, key)
    trained = {Job.TRAINED_ONLY: True} if error is None and not pruned else {}
    return {"trial": key, "error": error or "", **pruned, **trained}


def _run_groups(job: Job, key: str) -> str | None:
    """Run one group after the other until the trial is trained, fails, or was lost too often;
    returns the message of its failure.
    """
    ledger, plan, outbox = job.storage.ledger, job.read_plan(), job.outbox(key)
    run = plan.by_key[key].run
    losses = Losses(job, plan, key, "group of workers")
    workshop = Workshop(plan, job.storage, Runtime())
    for number in count():
        if workshop.is_trained(key):
            break
        ledger.clear_failure(run)
        _clear_room(job, key)
        outbox.begin(waiting=True)
        loss = _fit_group(job, key, number)
        if loss is None:
            break
        failure = ledger.failure(run)
        if failure is not None and not (failure.get("bug") and loss.died):
            return str(failure["message"])
        if not (loss.overtaken or losses.another()):
            message = losses.end(loss.cause)
            job.keep_failure(run, message, loss.trace)
            return message
        outbox.hold_up(losses.retry(loss.cause))
    return None


def _clear_room(job: Job, key: str) -> None:
    """Free the room on the cluster that an earlier group of a trial holds. Where its controller was
    lost, Ray Train frees it only on a cluster with a dashboard, and the next group would wait for
    it.
    """
    from ray.util.placement_group import PlacementGroup, remove_placement_group

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
    import ray.train.torch
    from ray.tune.integration.ray_train import TuneReportCallback

    trainer = ray.train.torch.TorchTrainer(
        _run_worker,
        train_loop_config={"trial": key, "job": job},
        torch_config=ray.train.torch.TorchConfig(timeout_s=_PATIENCE),
        scaling_config=ray.train.ScalingConfig(
            num_workers=job.workers, use_gpu=bool(job.gpus), resources_per_worker=job.demand
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
    from ray.exceptions import RayActorError

    # a health check that failed holds the reason
    found = getattr(error, "worker_failures", {}).values()
    failures = [getattr(failure, "health_check_failure", failure) for failure in found]
    dead = [found for found in failures if isinstance(found, RayActorError)]
    cause = str((dead or failures or [error])[0]).strip()
    # the types of errors are lost on their way here, but their names are not (see `_run_worker`)
    overtaken = any(LeaseLost.__name__ in str(found) for found in failures)
    return _Loss(cause, bool(dead) or not failures, str(error), overtaken)


def _run_worker(config: dict[str, Any]) -> None:
    """Run the part of one worker of a group."""
    import ray.train
    from ray.util.placement_group import get_current_placement_group

    from raxalign.sweep.cluster import patience

    context, job, key = ray.train.get_context(), config["job"], config["trial"]
    rank = context.get_world_rank()
    if rank == 0:  # for the next group of the trial (`_clear_room`)
        storage, name = split_place(f"{job.scratch}/rooms/{key}")
        group = get_current_placement_group()
        storage.write(name, (group.id.hex() if group else "").encode())
    try:
        attempt(job, key, patience, rank=rank, world_size=context.get_world_size())
    # not every exception survives the way to the controller
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
    ray.train.report({"trial": key})
