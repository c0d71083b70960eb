"""The loss of an objective on rows that nothing is trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.errors import TrainingDiverged
from raxalign.train.chance import DEV, mix
from raxalign.train.objective import Objective, Step
from raxalign.train.sharing import shared

if TYPE_CHECKING:
    import numpy as np
    import torch
else:
    np = lazy.load("numpy")
    torch = lazy.load("torch")

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
        """The rows of a batch."""
        start = number * self.batch_size
        return np.arange(start, min(start + self.batch_size, self.n_rows))

    def _batch(self, number: int) -> float:
        """The loss of one batch."""
        step = Step(number, 0, self._rows(number), seed=mix(self.seed, DEV), micro=MICRO)
        self.objective.begin(step)
        return sum(
            float(self.objective.loss(step, positions)) for positions in step.micro_batches()
        )
