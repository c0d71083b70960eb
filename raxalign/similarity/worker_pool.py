"""Lanes: threads that run whole parts of the work, each with its share of PyTorch's threads. Where
all share every operation, each waits for the slowest at its end, and NumPy's run on one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Barrier, Lock
from typing import Any

from raxalign.lazy import torch

_MOST = 4
"""Lanes, so that their blocks stay large in the same memory."""

_WORK = 2**30
"""Multiplications below which one lane is as fast."""

_OPENING = Lock()
"""Held while the default number of threads is another, which others would take for theirs."""


def lanes_for(x: torch.Tensor, y: torch.Tensor) -> int:
    """Return how many lanes work on the products of two sets of vectors (n, d) and (m, d): a number
    that divides the calling thread's number of PyTorch threads, and 1 on a GPU.
    """
    if x.device.type != "cpu" or x.numel() * len(y) < _WORK:
        return 1
    threads = _own_threads()
    return next(lanes for lanes in range(_MOST, 0, -1) if threads % lanes == 0)


def _own_threads() -> int:
    """Return the calling thread's number, which is the default's where it has not asked before."""
    with _OPENING:
        return torch.get_num_threads()


@contextmanager
def opened(lanes: int) -> Iterator[Callable[[Sequence[Callable[[], Any]]], list[Any]]]:
    """Yield a function that runs some jobs in lanes and returns their results, or raises the error
    of the first one that failed. One lane is the caller's own thread; several share its PyTorch
    threads and have its modes of autograd.

    A number of threads that is set in one thread becomes the default of new ones. So the default is
    set again at once, in another thread, and the caller's own number is never touched.
    """
    if lanes == 1:
        yield lambda jobs: [job() for job in jobs]
        return
    threads = max(1, _own_threads() // lanes)
    inference, grad = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

    def begin(all_there: Barrier) -> None:
        torch.get_num_threads()  # otherwise the first operation would set the default again
        torch.set_num_threads(threads)
        all_there.wait()

    def run(job: Callable[[], Any]) -> Any:
        with torch.inference_mode(inference), torch.set_grad_enabled(grad):
            return job()

    with ThreadPoolExecutor(lanes, "similarity") as pool:
        with _OPENING, ThreadPoolExecutor(1) as other:
            default = other.submit(torch.get_num_threads).result()
            list(pool.map(begin, [Barrier(lanes)] * lanes))
            other.submit(torch.set_num_threads, default).result()
        yield lambda jobs: list(pool.map(run, jobs))


def walk(
    rows: Sequence[int], columns: Sequence[int], visit: Callable[[int, int, int], None], lanes: int
) -> None:
    """Visit every cell of a grid, some cells at a time, none of them in one row or one column:
    `visit` is called with the number of a lane, a row, and a column. Each row is of one lane, each
    further lane begins one column later, and the order of the visits to each row and column is the
    same in every run. Raises the error of a visit, after which no other one begins.
    """
    lanes = min(lanes, len(columns))
    with opened(lanes) as run:
        for start in range(0, len(rows), lanes):
            for turn in range(len(columns)):
                cells = [
                    (lane, row, columns[(turn + lane) % len(columns)])
                    for lane, row in enumerate(rows[start : start + lanes])
                ]
                run([partial(visit, *cell) for cell in cells])
