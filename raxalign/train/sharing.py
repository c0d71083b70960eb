"""Measurements in the middle of a training, divided among its workers.

A worker computes some of the batches that one worker alone would compute, and every worker then has
what all of them found. So values are the same with any number of workers, bit for bit, and nobody
waits for the first worker alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from raxalign.train.group import gather_values
from raxalign.train.runtime import Runtime

PartT = TypeVar("PartT")
FoundT = TypeVar("FoundT")
_WORKERS: ContextVar[tuple[int, int]] = ContextVar("_WORKERS", default=(0, 1))  # rank, number


@contextmanager
def sharing(runtime: Runtime) -> Iterator[None]:
    """Divide what `shared` computes within the block among the workers of a training. All of them
    enter it, and call `shared` with the same parts in the same order.
    """
    token = _WORKERS.set((runtime.rank, runtime.world_size))
    try:
        yield
    finally:
        _WORKERS.reset(token)


def shared(
    parts: Iterable[PartT], compute: Callable[[PartT], FoundT]
) -> Iterator[tuple[PartT, FoundT]]:
    """Yield each part with what is computed from it, in the order of the parts.

    Outside of `sharing` this worker computes all of them. Within it, every n-th part is its own,
    and the others come from their workers.

    Args:
        parts: What is computed at once, such as the rows of a batch.
        compute: Computes one part alone. What it returns is plain data, or arrays and tensors on
            the CPU.

    Raises:
        PeerLost: Another worker is gone.
    """
    rank, workers = _WORKERS.get()
    if workers == 1:
        yield from ((part, compute(part)) for part in parts)
        return
    parts = list(parts)
    found = gather_values([compute(part) for part in parts[rank::workers]], workers)
    for number, part in enumerate(parts):
        yield part, found[number % workers][number // workers]
