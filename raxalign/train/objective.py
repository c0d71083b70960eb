"""The loss that a training minimises, as a function of the batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy

from raxalign.train.chance import BATCH, mix

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import nn
else:
    np = lazy.load("numpy")
    torch = lazy.load("torch")


@dataclass(frozen=True)
class Prepared:
    """What the host makes for a step: `batch` for the global batch, and `parts` for this worker's
    micro-batches, each under the position of its first row.
    """

    batch: Any
    parts: Mapping[int, Any]


@dataclass(frozen=True)
class Step:
    """One optimiser step (0-based `number`): `rows` are the rows of the *global* batch, the same on
    every worker and in the same order.

    A worker computes a share of it, in micro-batches of at most `micro` rows, given as positions
    in `rows`. `prepared` is what `Objective.prepare` returned for the step (None: it was not
    called).
    """

    number: int
    epoch: int
    rows: np.ndarray
    seed: int = 0
    rank: int = 0
    world_size: int = 1
    micro: int = 1
    prepared: Prepared | None = field(default=None, repr=False, compare=False)

    def generator(self) -> torch.Generator:
        """Chance of the global batch (masks, negatives): fresh, on the CPU, the same on every
        worker and after resuming.
        """
        return torch.Generator().manual_seed(mix(self.seed, self.number, BATCH))

    def share(self, rank: int | None = None) -> np.ndarray:
        """Return the positions in `rows` that a worker (this one) computes: every `world_size`-th,
        so that long and short rows spread.
        """
        return np.arange(len(self.rows))[(self.rank if rank is None else rank) :: self.world_size]

    def micro_batches(self) -> list[np.ndarray]:
        """Return the positions of this worker's micro-batches, in their order."""
        share = self.share()
        return [share[start : start + self.micro] for start in range(0, len(share), self.micro)]


class Objective(ABC):
    """A loss over numbered rows. The loop calls, for each step on each worker: `begin`, `loss` for
    each micro-batch, `end`.

    `loss` is the micro-batch's *contribution* to the loss of the global batch: its normalisers
    (numbers of links, of masked tokens, of rows) are those of `step.rows`, known to every worker
    without communication. Contributions and gradients are summed, over micro-batches and workers
    alike, so neither the number of workers nor the micro-batch changes the result beyond rounding.

    `module` holds everything that training changes as parameters and buffers (a queue, an average
    of weights): it is what checkpoints keep. What never changes, as a frozen twin, is kept outside
    of it. Losses before step `comparable_from` (0-based) lack parts that later ones have, as a
    contrast with a queue that is not yet full. `loss_unit` is the weight of a regulariser, which
    begins at 0, where that is more than 1: a loss is not taken for exploding below a multiple of
    it.
    """

    module: nn.Module
    comparable_from: int = 0
    loss_unit: float = 1.0

    def prepare(self, step: Step) -> Prepared | None:  # noqa: ARG002
        """Return what the host makes for a step, for an objective that can make it ahead of the
        step (None: this one cannot). A thread may call it (see `HostSided`).
        """
        return None

    def blocks(self) -> Sequence[nn.Module]:
        """Return the parts of the module that the backward pass may run again, so that what they
        compute need not be kept. A second run of such a part changes nothing.
        """
        return ()

    def begin(self, step: Step) -> None:  # noqa: B027 most objectives have nothing to do here
        """Before the micro-batches: for what needs the whole global batch. It may be called again
        when memory ran out, so it communicates with other workers, if at all, only as its last act.
        """

    @abstractmethod
    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """Return the contribution of the rows ``step.rows[positions]``: a scalar with a
        gradient.
        """

    def end(self, step: Step) -> None:  # noqa: B027 most objectives have nothing to do here
        """After the optimiser's step, in training mode and without gradients: for averages and
        queues.
        """
