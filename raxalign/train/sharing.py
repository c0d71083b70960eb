"""Measurements in the middle of a training, divided among its workers.

A worker computes some of the batches that one worker alone would compute, and every worker then has
what all of them found. So values are the same with any number of workers, bit for bit, and nobody
waits for the first worker alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from raxalign.errors import TrainingDiverged
from raxalign.lazy import np, torch
from raxalign.train.chance import DEV, mix
from raxalign.train.group import gather_values
from raxalign.train.objective import Objective, Step
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
    and the others come from their workers. What is computed is plain data, or arrays and tensors on
    the CPU. Raises `PeerLost` where another worker is gone.
    """
    rank, workers = _WORKERS.get()
    if workers == 1:
        yield from ((part, compute(part)) for part in parts)
        return
    parts = list(parts)
    found = gather_values([compute(part) for part in parts[rank::workers]], workers)
    for number, part in enumerate(parts):
        yield part, found[number % workers][number // workers]


MICRO = 64
"""Rows that are read at once."""


@dataclass(frozen=True)
class DevLoss:
    """The loss on the rows 0 to `n_rows` - 1 of `objective`, which shares its module with the
    objective that is trained.

    Batches of `batch_size` rows come in the order of the rows; masks and other draws are the same
    each time, so that losses of different steps can be compared.
    """

    objective: Objective
    n_rows: int
    batch_size: int
    seed: int

    def measure(self) -> float:
        """Return the mean over the batches, each weighted by its number of rows. A group of workers
        shares the batches. Raises `TrainingDiverged` where the mean is not finite.
        """
        total, numbers = 0.0, range(-(-self.n_rows // self.batch_size))
        with torch.no_grad():
            for number, loss in shared(numbers, self._batch):
                total += loss * len(self._rows(number))
        mean = total / self.n_rows
        if not math.isfinite(mean):
            raise TrainingDiverged(
                f"training diverged: the loss on the dev part is {mean}. Choose a smaller"
                " `learning_rate`, or a longer `warmup`"
            )
        return mean

    def _rows(self, number: int) -> np.ndarray:
        start = number * self.batch_size
        return np.arange(start, min(start + self.batch_size, self.n_rows))

    def _batch(self, number: int) -> float:
        step = Step(number, 0, self._rows(number), seed=mix(self.seed, DEV), micro=MICRO)
        self.objective.begin(step)
        return sum(
            float(self.objective.loss(step, positions)) for positions in step.micro_batches()
        )
