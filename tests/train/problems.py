"""Small trainings for tests."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from raxalign.train.objective import Objective, Step


class Regression(Objective):
    """Mean squared error of a small network with dropout on a fixed problem; `limit` is the
    micro-batch that fits into memory.

    One layer is used for rows below 3 alone, so that in some steps some workers have no gradient
    for it.
    """

    def __init__(self, n: int = 22, dropout: float = 0.0, limit: int | None = None) -> None:
        generator = torch.Generator().manual_seed(3)
        self.x, self.y = (
            torch.randn(n, 5, generator=generator),
            torch.randn(n, 1, generator=generator),
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(11)
            self.body = nn.Sequential(
                nn.Linear(5, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1)
            )
            self.module = nn.ModuleDict(
                {"body": self.body, "rare": nn.Linear(5, 1), "idle": nn.Linear(2, 2)}
            )
        self.limit = limit
        self.seen: list[tuple[int, list[int]]] = []
        self.micros: list[int] = []

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        if self.limit is not None and len(positions) > self.limit:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")
        rows = torch.from_numpy(step.rows[positions])
        self.seen.append((step.number, rows.tolist()))
        self.micros.append(len(positions))
        found = self.body(self.x[rows])
        if (rows < 3).any():
            found = found + self.module["rare"](self.x[rows]) * (rows < 3)[:, None]
        return (found - self.y[rows]).pow(2).sum() / len(step.rows)


def weights(objective: Objective) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in objective.module.parameters()])
