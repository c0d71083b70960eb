"""Lanes: threads that work on parts of their own, each with its share of PyTorch's threads.

Where all threads share every operation, each waits for the slowest at the end of it, and operations
of NumPy run on one. Lanes run whole parts of the work and seldom wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import ParamSpec, TypeVar

from raxalign.lazy import torch

T = TypeVar("T")
P = ParamSpec("P")

_MOST = 4
"""Lanes, so that their blocks stay large in the same memory."""

_WORK = 2**30
"""Multiplications below which one lane is as fast."""

_OPENING = Lock()
"""Held while the default number of threads is another: who opens lanes would take it for the right
one.
"""


def lanes_for(x: torch.Tensor, y: torch.Tensor) -> int:
    """Return how many lanes work on the products of two sets of vectors (n, d) and (m, d): a number
    that divides the calling thread's number of PyTorch threads, and 1 on a GPU.
    """
    if x.device.type != "cpu" or x.numel() * len(y) < _WORK:
        return 1
    threads = torch.get_num_threads()
    return next(lanes for lanes in range(_MOST, 0, -1) if threads % lanes == 0)


def at_once(jobs: Sequence[Callable[[], T]], lanes: int) -> list[T]:
    """Return the results of some jobs, each of which runs in a lane; one lane is the caller's own
    thread.

    Raises:
        Exception: the error of the first job that failed.
    """
    if lanes == 1:
        return [job() for job in jobs]
    with _opened(lanes) as opened:
        results = [opened[number % lanes].submit(job) for number, job in enumerate(jobs)]
        return [result.result() for result in results]


def walk(
    rows: Sequence[int], columns: Sequence[int], visit: Callable[[int, int, int], None], lanes: int
) -> None:
    """Visit every cell of a grid of rows and columns. Each row belongs to one lane.

    No two cells of one row or one column are visited at a time, and the order of the visits to each
    row and each column is the same in every run.

    Args:
        rows: the rows in the order in which they are visited.
        columns: the columns in the order in which the first lane visits them; each further lane
            begins one column later.
        visit: what is called with the number of a lane, a row, and a column.
        lanes: the number of lanes; one is the caller's own thread.

    Raises:
        Exception: the error of a visit. Cells of its row and its column are not visited after it.
    """
    if lanes == 1:
        for row in rows:
            for column in columns:
                visit(0, row, column)
        return
    last: dict[tuple[str, int], Future[None]] = {}
    visits = []
    with _opened(lanes) as opened:
        for lane, row, column in _turns(rows, columns, lanes):
            keys = (("lane", lane), ("column", column))
            before = [last[key] for key in keys if key in last]
            turn = opened[lane].submit(_after, before, visit, lane, row, column)
            last.update(dict.fromkeys(keys, turn))
            visits.append(turn)
        for turn in visits:
            turn.result()


def _turns(
    rows: Sequence[int], columns: Sequence[int], lanes: int
) -> Iterator[tuple[int, int, int]]:
    """Yield the lane, row and column of every visit, in an order in which each can wait for those
    before it.
    """
    for start in range(0, len(rows), lanes):
        for step in range(len(columns)):
            for lane, row in enumerate(rows[start : start + lanes]):
                yield lane, row, columns[(step + lane) % len(columns)]


def _after(
    before: Sequence[Future[None]],
    visit: Callable[[int, int, int], None],
    lane: int,
    row: int,
    column: int,
) -> None:
    """Visit a cell when earlier visits have ended; raise the error of one that failed."""
    for earlier in before:
        earlier.result()
    visit(lane, row, column)


class _Lane:
    """A thread with a number of PyTorch threads, in the caller's modes of autograd."""

    def __init__(self, threads: int) -> None:
        self.inference = torch.is_inference_mode_enabled()
        self.grad = torch.is_grad_enabled()
        self.executor = ThreadPoolExecutor(1, "similarity")
        self.default = self.executor.submit(_set_threads, threads).result()

    def submit(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a job after all jobs that were submitted before it."""

        def run() -> T:
            with torch.inference_mode(self.inference), torch.set_grad_enabled(self.grad):
                return job(*args, **kwargs)

        return self.executor.submit(run)


@contextmanager
def _opened(lanes: int) -> Iterator[list[_Lane]]:
    """Open lanes that share the calling thread's PyTorch threads. At the end, jobs that have not
    begun are dropped.

    A number of threads that is set in one thread becomes the default of new ones. So the default is
    set again at once, in another thread, and the caller's own number is never touched.
    """
    threads = max(1, torch.get_num_threads() // lanes)
    with ExitStack() as stack:
        opened = []
        with _OPENING:
            for _ in range(lanes):
                opened.append(_Lane(threads))
                stack.callback(opened[-1].executor.shutdown, cancel_futures=True)
            with ThreadPoolExecutor(1) as other:
                other.submit(_set_threads, opened[0].default).result()
        yield opened


def _set_threads(number: int) -> int:
    """Set this thread's number of PyTorch threads; return the number that it had before."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    return before
