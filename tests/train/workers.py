"""Real workers of one training for tests: processes that meet over gloo."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.forks import forks


def _work(
    rank: int, job: Callable[[int, Path], None], count: int, folder: str, together: Any
) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=count
    )
    job(rank, Path(folder))
    together.wait()  # nobody closes a connection on which another one still waits
    # No shutdown of the interpreter: gloo's threads may still run then, and now and again the
    # process aborts although all is done.
    os._exit(0)


def run_workers(job: Callable[[int, Path], None], count: int, folder: Path) -> None:
    """Run ``job(rank, folder)``, a function of a module, in `count` new processes with a process
    group; raises what one of them raised.
    """
    given = (job, count, str(folder), forks().Barrier(count))
    torch.multiprocessing.start_processes(_work, given, count, start_method="forkserver")
