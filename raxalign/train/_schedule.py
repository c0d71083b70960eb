"""Which rows a step sees and at which learning rate: pure functions of its number, so that resuming
needs nothing but that number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from raxalign.errors import RaxalignError
from raxalign.train.objective import mix


@dataclass(frozen=True)
class TrainSettings:
    """The options of a training; all of them change its result.

    `batch_size` counts the rows of the global batch. The last, smaller batch of an epoch is used.
    `steps`, where given, replaces `epochs`. `warmup` below 1 is a share of all steps, from 1 on a
    number of steps; the rate rises linearly over them and then stays (``constant``) or falls
    linearly to 0 (``linear``). Adam's `weight_decay` is decoupled (AdamW) and spares vectors
    (biases, norms). `clip` bounds the gradient's norm. Without `shuffle` rows come in their own
    order in each epoch. Without `dropout` the module trains in eval mode.
    """

    learning_rate: float
    batch_size: int
    epochs: int = 1
    steps: int | None = None
    warmup: float = 0.0
    schedule: Literal["constant", "linear"] = "constant"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float | None = None
    shuffle: bool = True
    dropout: bool = True


@dataclass(frozen=True)
class Order:
    """The rows of every step, by seed."""

    n_rows: int
    batch_size: int
    seed: int
    shuffle: bool

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one pass over the rows."""
        return -(-self.n_rows // self.batch_size)

    def total(self, settings: TrainSettings) -> int:
        """How many steps a training has."""
        return (
            settings.steps if settings.steps is not None else settings.epochs * self.steps_per_epoch
        )

    def rows(self, step: int) -> tuple[int, np.ndarray]:
        """(epoch, rows of the global batch) of a step."""
        epoch, batch = divmod(step, self.steps_per_epoch)
        start = batch * self.batch_size
        stop = min(start + self.batch_size, self.n_rows)
        if not self.shuffle:
            return epoch, np.arange(start, stop)
        return epoch, _permutation(self.n_rows, mix(self.seed, epoch, 0))[start:stop]


def make_order(n_rows: int, settings: TrainSettings, seed: int) -> Order:
    """The order of a training; refuses one without rows or with an empty batch."""
    if n_rows < 1:
        raise RaxalignError("there is nothing to train on: the training set has no rows")
    if settings.batch_size < 1:
        raise RaxalignError(f"batch_size is {settings.batch_size}; it is at least 1")
    return Order(n_rows, settings.batch_size, seed, settings.shuffle)


@lru_cache(maxsize=2)
def _permutation(n: int, seed: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).permutation(n)


def rate_at(settings: TrainSettings, step: int, total: int) -> float:
    """The learning rate of a step (0-based) out of `total`.

    >>> settings = TrainSettings(1.0, 8, warmup=0.25)
    >>> [rate_at(settings, step, 8) for step in range(4)]
    [0.5, 1.0, 1.0, 1.0]
    """
    rising = settings.warmup * total if settings.warmup < 1 else settings.warmup
    if step < rising:
        return settings.learning_rate * min(1.0, (step + 1) / rising)
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * (total - step) / max(total - rising, 1)
