"""What a trial uses of its machine: samples while it runs, and the hours that it holds cards for.

MLflow shows them with its system metrics. Nothing of them is a result.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from raxalign.store.spool import GPU_HOURS, SYSTEM, Spool
from raxalign.sweep.job import Job

EVERY = 10.0  # seconds between two samples
_MIB = 2**20


@contextmanager
def used(spool: Spool, job: Job, rank: int) -> Iterator[None]:
    """Sample what this process uses while the block runs, and report the hours of its cards at the
    end.

    Args:
        spool: Where samples are kept with the curves of the trial.
        job: What the worker may use.
        rank: The number of this worker; only the first one samples.
    """
    begun, over = time.monotonic(), threading.Event()
    sampler = threading.Thread(
        target=_sample, args=(spool, job, over), name="raxalign-usage", daemon=True
    )
    if rank == 0:
        sampler.start()
    try:
        yield
    finally:
        over.set()
        if rank == 0:
            sampler.join()
        if job.gpus:
            hours = job.gpus * (time.monotonic() - begun) / 3600
            spool.report({f"{GPU_HOURS}/{rank}": hours}, int(time.time()))


def _sample(spool: Spool, job: Job, over: threading.Event) -> None:
    wall, busy = time.monotonic(), time.process_time()
    while not over.wait(EVERY):
        now, worked = time.monotonic(), time.process_time()
        cores = 100 * (worked - busy) / (now - wall) / job.threads
        wall, busy = now, worked
        found = {"cpu_utilization_percentage": cores, **_memory(), **(_card() if job.gpus else {})}
        spool.report({SYSTEM + name: value for name, value in found.items()}, int(time.time()))


def _memory() -> Mapping[str, float]:
    """The memory of this process, where the system tells it."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
        return {"process_memory_megabytes": pages * os.sysconf("SC_PAGE_SIZE") / _MIB}
    return {}


def _card() -> Mapping[str, float]:
    """The memory of the card, and with NVIDIA's library (nvidia-ml-py) how busy it is."""
    import torch

    if not torch.cuda.is_available():
        return {}
    free, whole = torch.cuda.mem_get_info()
    found = {
        "gpu_0_memory_usage_megabytes": (whole - free) / _MIB,
        "gpu_0_memory_usage_percentage": 100 * (whole - free) / whole,
    }
    with suppress(ImportError, RuntimeError):
        found["gpu_0_utilization_percentage"] = float(torch.cuda.utilization())
    return found
