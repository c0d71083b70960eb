"""The loss that a training minimises, as a function of the batch."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from raxalign.errors import TrainingDiverged
from raxalign.lazy import np, torch
from raxalign.train.chance import Stream, mix
from raxalign.train.group import shared, sum_gradients
from raxalign.train.options import RowOrder, StepOrder, TrainSettings

BatchT = TypeVar("BatchT")
PartT = TypeVar("PartT")


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

    The batch is divided into `shares` (0: as many as there are workers), each of which draws
    dropout of its own. A worker computes one of them, several or none, in micro-batches of at most
    `micro` rows, given as positions in `rows`. `prepared` is what `Objective.prepare` returned for
    the step (None: it was not called).
    """

    number: int
    epoch: int
    rows: np.ndarray
    seed: int = 0
    rank: int = 0
    world_size: int = 1
    micro: int = 1
    shares: int = 0
    prepared: Prepared | None = field(default=None, repr=False, compare=False)

    @property
    def n_shares(self) -> int:
        """The number of shares."""
        return self.shares or self.world_size

    def share_of(self, positions: np.ndarray) -> int:
        """Return the number of the share of a micro-batch: the position of its first row."""
        return int(positions[0]) % self.n_shares

    def micro_batches(self) -> list[np.ndarray]:
        """Return the positions of this worker's micro-batches, share by share. A share has every
        `n_shares`-th row, so that long and short rows spread.
        """
        own, positions = range(self.rank, self.n_shares, self.world_size), np.arange(len(self.rows))
        return [
            share[start : start + self.micro]
            for share in (positions[number :: self.n_shares] for number in own)
            for start in range(0, len(share), self.micro)
        ]

    @property
    def first(self) -> Step:
        """The step of the first objective, where there are several."""
        return self

    def part_of(self, positions: np.ndarray) -> tuple[Step, np.ndarray]:
        """Return the step of the objective whose rows a micro-batch has, and their positions in the
        rows of that step.
        """
        return self, positions


class Objective(ABC):
    """A loss over numbered rows. The loop calls, for each step on each worker: `begin`, `loss` for
    each micro-batch, `end`.

    `loss` is the micro-batch's *contribution* to the loss of the global batch: its normalisers
    (numbers of links, of masked tokens, of rows) are those of `step.rows`, known to every worker
    without communication. Contributions and gradients are summed, over micro-batches and workers
    alike, so neither the number of workers nor the micro-batch changes the result beyond rounding.

    `module` holds everything that training changes as parameters and buffers (a queue, an average
    of weights): it is what checkpoints keep, except what its encoders hold without gradients. What
    else never changes, as a frozen twin, is kept outside of it. Losses before step
    `comparable_from` (0-based) lack parts that later ones have, as a contrast with a queue that is
    not yet full. `loss_unit` is the weight of a regulariser, which
    begins at 0, where that is more than 1: a loss is not taken for exploding below a multiple of
    it.
    """

    module: torch.nn.Module
    encoder: Any = None
    """The encoder in the module, if its blocks may run again in the backward pass."""
    rows: Any = None
    comparable_from: int = 0
    loss_unit: float = 1.0

    def on(self, rows: Any) -> Self:
        """Return the same objective over other rows; it shares the module."""
        other = copy.copy(self)
        other.rows = rows
        return other

    def order(self, n_rows: int, settings: TrainSettings, seed: int) -> StepOrder:
        """Return the rows of every step of a training on the rows 0 to `n_rows` - 1."""
        return RowOrder(n_rows, settings, seed)

    def taken(self, step: Step) -> Step:
        """Return a step as it is taken: an objective of several parts gives each rows of its
        own.
        """
        return step

    def gathered(
        self, step: Step, parameters: Sequence[torch.nn.Parameter], loss: torch.Tensor
    ) -> torch.Tensor:
        """Sum the gradients in the parameters over all workers; return the sum of the loss."""
        return sum_gradients(parameters, loss) if step.world_size > 1 else loss

    def prepare(self, step: Step) -> Prepared | None:  # noqa: ARG002
        """Return what the host makes for a step, for an objective that can make it ahead of the
        step (None: this one cannot). A thread may call it (see `HostSided`).
        """
        return None

    def blocks(self) -> Sequence[torch.nn.Module]:
        """Return the parts of the module that the backward pass may run again, so that what they
        compute need not be kept. A second run of such a part changes nothing.
        """
        return () if self.encoder is None else self.encoder.blocks()

    def encoders(self) -> Sequence[Any]:
        """Return the encoders that the loss runs: that of the module, and those beside it."""
        return () if self.encoder is None else (self.encoder,)

    def begin(self, step: Step) -> None:  # noqa: B027 most objectives have nothing to do here
        """Before the micro-batches: for what needs the whole global batch. It may be called again
        when memory ran out, so it communicates with other workers, if at all, only as its last act.
        """

    @abstractmethod
    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """Return the contribution of the rows ``step.rows[positions]``, a scalar with gradient."""

    def end(self, step: Step) -> None:  # noqa: B027 most objectives have nothing to do here
        """After the optimiser's step, without gradients: for averages and queues."""


class HostSided(Objective, Generic[BatchT, PartT]):
    """An objective whose work on the host is apart from that on the device, so that a thread can do
    the former for the next step while the device computes. `host_batch` and `host_part` make arrays
    on the host: pieces, their layout, indices, weights. `device_loss` computes the loss of them.

    The first half depends on the step alone. It reads nothing that training changes, changes
    nothing, draws from generators of its own (`train.chance`) and gives the device no work, so
    that its result is the same in whichever thread and before whichever step it runs.
    """

    host: BatchT
    """What `host_batch` returned for the step that has begun."""

    @abstractmethod
    def host_batch(self, step: Step) -> BatchT:
        """Return what the micro-batches of a step share: draws, weights, normalisers."""

    @abstractmethod
    def host_part(self, step: Step, batch: BatchT, positions: np.ndarray) -> PartT:
        """Return what the device is given for one micro-batch, the rows ``step.rows[positions]``;
        `batch` is what `host_batch` returned.
        """

    @abstractmethod
    def device_loss(self, step: Step, part: PartT) -> torch.Tensor:
        """Return the contribution of a micro-batch, as `Objective.loss` does."""

    def prepare(self, step: Step) -> Prepared | None:
        """Return the first half of a step, for all micro-batches of this worker."""
        batch = self.host_batch(step)
        own = step.micro_batches()
        return Prepared(batch, {int(p[0]): self.host_part(step, batch, p) for p in own})

    def begin(self, step: Step) -> None:
        """Take what was prepared for the global batch, or make it now."""
        self.host = self.host_batch(step) if step.prepared is None else step.prepared.batch

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """Return the contribution of a micro-batch, from what was prepared or is made now."""
        if step.prepared is None:
            return self.device_loss(step, self.host_part(step, self.host, positions))
        return self.device_loss(step, step.prepared.parts[int(positions[0])])


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
        step = Step(number, 0, self._rows(number), seed=mix(self.seed, Stream.DEV), micro=MICRO)
        self.objective.begin(step)
        return sum(
            float(self.objective.loss(step, positions)) for positions in step.micro_batches()
        )
