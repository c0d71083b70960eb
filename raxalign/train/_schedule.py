"""Which rows a step sees and at which learning rate: pure functions of the step's number, so that
resuming needs nothing but that number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from raxalign.errors import RaxalignError
from raxalign.lazy import np
from raxalign.train.chance import ORDER, mix

Schedule = Literal["constant", "linear", "cosine", "inverse-sqrt"]


@dataclass(frozen=True)
class TrainSettings:
    """The settings of a training; each of them changes its result.

    `batch_size` counts the rows of the global batch. The last, smaller batch of an epoch is used.
    `steps`, where given, replaces `epochs`. `warmup` below 1 is a fraction of all steps, from 1
    on a number of steps; the rate rises linearly over them. After them `schedule` decides (see
    `rate_at`). Adam's `weight_decay` is decoupled (AdamW) and leaves out vectors (biases, norms).
    `clip` is the largest norm of the gradient. Without `shuffle` rows come in their own order in
    each epoch. Without `dropout` the module trains in eval mode.
    """

    learning_rate: float
    batch_size: int
    epochs: int = 1
    steps: int | None = None
    warmup: float = 0.0
    schedule: Schedule = "constant"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float | None = None
    shuffle: bool = True
    dropout: bool = True

    def total(self, n_rows: int) -> int:
        """Return the number of steps of a training on `n_rows` rows."""
        epochs = self.epochs * -(-n_rows // self.batch_size)
        return epochs if self.steps is None else self.steps


@dataclass(frozen=True)
class RowOrder:
    """The rows of every step of a training on `n_rows` rows, by seed. Raises `RaxalignError` where
    there are none.
    """

    n_rows: int
    settings: TrainSettings
    seed: int

    def __post_init__(self) -> None:
        if self.n_rows < 1:
            raise RaxalignError("there is nothing to train on: the training set has no rows")

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one pass over the rows."""
        return -(-self.n_rows // self.settings.batch_size)

    def rows(self, step: int) -> tuple[int, np.ndarray]:
        """Return (epoch, rows of the global batch) of a step."""
        epoch, batch = divmod(step, self.steps_per_epoch)
        start = batch * self.settings.batch_size
        stop = min(start + self.settings.batch_size, self.n_rows)
        if not self.settings.shuffle:
            return epoch, np.arange(start, stop)
        return epoch, _permutation(self.n_rows, mix(self.seed, epoch, ORDER))[start:stop]


@lru_cache(maxsize=2)
def _permutation(n: int, seed: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).permutation(n)


def rate_at(settings: TrainSettings, step: int, total: int) -> float:
    """Return the learning rate of a step (0-based) out of `total`.

    After w steps of warm-up out of T the rate of step t, relative to `learning_rate`, is 1
    (``constant``), (T - t) / (T - w) (``linear``), (1 + cos(π (t - w) / (T - w))) / 2 (``cosine``;
    Loshchilov and Hutter 2017, Eq. 5, without restarts), or sqrt(max(w, 1) / (t + 1))
    (``inverse-sqrt``; Vaswani et al. 2017, Eq. 3).

    >>> settings = TrainSettings(1.0, 8, warmup=0.25)
    >>> [rate_at(settings, step, 8) for step in range(4)]
    [0.5, 1.0, 1.0, 1.0]
    """
    rising = settings.warmup * total if settings.warmup < 1 else settings.warmup
    if step < rising:
        return settings.learning_rate * min(1.0, (step + 1) / rising)
    if settings.schedule == "constant":
        return settings.learning_rate
    left = max(total - rising, 1)
    if settings.schedule == "linear":
        return settings.learning_rate * (total - step) / left
    if settings.schedule == "cosine":
        return settings.learning_rate * (1 + math.cos(math.pi * (step - rising) / left)) / 2
    return settings.learning_rate * min(1.0, math.sqrt(max(rising, 1) / (step + 1)))
