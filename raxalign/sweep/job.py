"""What travels to workers: where the plan and the storage are, and what a worker may use. Small,
plain, and the same for all trials.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from raxalign.catalog import load_files
from raxalign.errors import StorageError
from raxalign.lazy import torch
from raxalign.options.run import Checkpointing
from raxalign.plan.plan import Plan
from raxalign.plan.stored import plan_at, plan_path
from raxalign.stages import Workshop
from raxalign.store.files import CACHE_GIB, split_place
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime


@dataclass(frozen=True)
class Job:
    """What a worker needs to know; `threads` and `gpus` are its share. For what has no comment see
    `raxalign.options.run.RunConfig`.
    """

    storage: Storage
    plan: str  # its place in the storage
    workers: int = 1  # of a training trial
    threads: int = 1
    gpus: float | None = 0.0  # None: to be chosen by what the cluster has
    max_failures: int = 2
    scratch: str = ""  # a folder or URL for Ray's own files, which nobody needs afterwards
    at_once: int | None = None  # the most trials that run at a time (None: as many as fit)
    cache_gib: float = 50.0
    sign: str = ""  # a file that shows a machine that it has the driver's storage
    checkpoint_minutes: float = 10.0
    activation_checkpointing: Checkpointing = "auto"


def write_plan(plan: Plan, storage: Storage) -> str:
    """Put the plan into the storage, where every worker finds it; returns its place."""
    text = plan.to_json()
    path = plan_path(text)
    storage.files.write(path, text.encode())
    return f"{storage}/{path}"


@cache
def read_plan(place: str) -> Plan:
    """Read the plan at a place, once per process, and load its plug-in files: those of the user's
    own grid, since the place comes from the driver and is checked against the plan.

    Raises `StorageError` where the plan was changed, and `PluginFault` where a file is not what the
    plan was made of.
    """
    plan = plan_at(place)
    load_files(plan.plugins)
    return plan


def sees(place: str) -> bool:
    """Return whether this machine sees a file of the storage now."""
    storage, name = split_place(place)
    return bool(storage.existing([name]))


def thread_limits(threads: int) -> dict[str, str]:
    """Return the environment that holds a worker to its share of the cores: several processes with
    a full set of threads each slow one another tenfold. The numeric libraries read it when they are
    loaded, so a worker must begin with it.
    """
    libraries = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "RAYON")
    names = (f"{library}_NUM_THREADS" for library in libraries)
    return {**dict.fromkeys(names, str(threads)), "TOKENIZERS_PARALLELISM": "false"}


def open_workshop(
    job: Job,
    *,
    report: Callable[[Mapping[str, float], int], None] | None = None,
    trains: bool = True,
    rank: int = 0,
    world_size: int = 1,
) -> Workshop:
    """Open the workshop of this process, which loads torch where it `trains`. `report` receives
    points of curves: values by name, and their step.

    Raises `StorageError` where this machine does not have the driver's storage: it may have joined
    the cluster after the others were asked.
    """
    if job.sign and not sees(job.sign):
        raise StorageError(
            f"{job.storage}: {socket.gethostname()} does not see what the driver wrote there. Mount"
            " one shared file system at that path on all machines, or give an object store"
            " (--storage s3://...)"
        )
    os.environ.update({**thread_limits(job.threads), CACHE_GIB: str(job.cache_gib)})
    runtime = Runtime(
        _take_share(job) if trains else "cpu",
        rank=rank,
        world_size=world_size,
        threads=job.threads,
        checkpoint_seconds=60 * job.checkpoint_minutes,
        checkpointing=job.activation_checkpointing,
    )
    if report is not None:
        runtime = replace(runtime, report=report)
    return Workshop(read_plan(job.plan), job.storage, runtime)


def _take_share(job: Job) -> str:
    """Hold torch to this worker's share of the cores and of a card; returns the device."""
    torch.set_num_threads(job.threads)
    if not (job.gpus and torch.cuda.is_available()):
        return "cpu"
    if job.gpus < 1:  # who takes too much runs out of memory itself, and not its neighbour
        torch.cuda.set_per_process_memory_fraction(job.gpus)
    return "cuda"
