"""The loss that a training minimises, as a function of the batch: one, or two in one training, the
sum of both in a step or one of them in turn.

Of two losses each draws its rows and its dropout as in a training of its own, by the number of its
own steps. The optimiser is one, with the settings of the first one.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Generic, Protocol, Self, TypeVar

from raxalign.errors import RaxalignError, TrainingDiverged
from raxalign.lazy import np, torch
from raxalign.train.chance import Stream, mix
from raxalign.train.devices import copied_at_once
from raxalign.train.group import add_up, shared, sum_gradients
from raxalign.train.options import TrainSettings

BatchT = TypeVar("BatchT")
PartT = TypeVar("PartT")


class StepOrder(Protocol):
    """The rows of every step of a training."""

    @property
    def total(self) -> int:
        """The number of steps of the training."""

    @property
    def batch_size(self) -> int:
        """The most rows of a step that are computed together."""

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one pass over the rows."""

    def rows(self, step: int) -> tuple[int, np.ndarray]:
        """Return (epoch, rows of the global batch) of a step."""


@dataclass(frozen=True)
class RowOrder:
    """The rows of every step of a training, by seed. Raises `RaxalignError` without rows."""

    n_rows: int
    settings: TrainSettings
    seed: int

    def __post_init__(self) -> None:
        if self.n_rows < 1:
            raise RaxalignError("there is nothing to train on: the training set has no rows")

    @property
    def total(self) -> int:
        """The number of steps of the training."""
        return self.settings.total(self.n_rows)

    @property
    def batch_size(self) -> int:
        """The rows of a step, except in the last one of an epoch."""
        return self.settings.batch_size

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
        return epoch, _permutation(self.n_rows, mix(self.seed, epoch, Stream.ORDER))[start:stop]


@lru_cache(maxsize=2)
def _permutation(n: int, seed: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).permutation(n)


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

    def generator(self, use: int) -> np.random.Generator:
        """Return the random generator of the global batch for one use (`Stream.MASKING`,
        `Stream.MIXING`), the same on every worker.
        """
        seed = mix(self.seed, self.number, Stream.USES, use)
        return np.random.Generator(np.random.PCG64(seed))

    def seed_dropout(self, share: int, place: int | None = None) -> None:
        """Seed what a share of the batch draws in the forward pass; with `place`, the position of
        its first row, what a micro-batch draws that is read twice.

        Without a GPU in use, `torch.manual_seed` formats the whole call stack at every call.
        """
        where = (Stream.DROPOUT,) if place is None else (place, Stream.DROPOUT_TWICE)
        seed = mix(self.seed, self.number, share, *where)
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)


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
    replays: bool = False
    """Whether what a device does for one step can be recorded and serve for others: see
    `HostSided.device_loss`. Nothing happens then in `begin` and `end` that training depends on.
    """

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

    def state(self) -> Mapping[str, torch.Tensor]:
        """Return the parameters and buffers of the module by name, each shared tensor once, not
        copied.
        """
        own = {name: parameter.data for name, parameter in self.module.named_parameters()}
        return {**own, **dict(self.module.named_buffers())}

    def changing_state(self) -> dict[str, torch.Tensor]:
        """Return the tensors of the module that training may change, by name, not copied: all but
        the parameters of the encoders that have no gradients, as the base of adapters.
        """
        trees = [encoder.model for encoder in self.encoders()]
        held = {id(p) for tree in trees for p in tree.parameters() if not p.requires_grad}
        own = self.module.named_parameters()
        changing = {name: p.data for name, p in own if id(p) not in held}
        return changing | dict(self.module.named_buffers())

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Put back, in place, what `changing_state` gave; all of it must be there."""
        with torch.no_grad():
            for name, tensor in self.changing_state().items():
                tensor.copy_(tensors[name])

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
        `batch` is what `host_batch` returned. All its arrays are copied to a GPU
        (`copied_at_once`).
        """

    @abstractmethod
    def device_loss(self, step: Step, part: PartT) -> torch.Tensor:
        """Return the contribution of a micro-batch, as `Objective.loss` does. Where the objective
        `replays`, it depends on the part and on what training changes alone, reads all arrays by
        `on_device`, and no value back from the device.
        """

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
            part = self.host_part(step, self.host, positions)
        else:
            part = step.prepared.parts[int(positions[0])]
        with copied_at_once(part, next(self.module.parameters()).device):
            return self.device_loss(step, part)


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


@dataclass(frozen=True)
class Turns:
    """Which of two trainings each step of a joint one belongs to.

    With `alternates` a step of the second one follows each step of the first one. Otherwise each
    step is one of both.
    """

    first: RowOrder
    second: RowOrder
    alternates: bool = False

    @property
    def batch_size(self) -> int:
        """The most rows that a part has in a step."""
        return max(self.first.batch_size, self.second.batch_size)

    @property
    def steps_per_epoch(self) -> int:
        """The steps of one pass over the rows of the first part."""
        return self.first.steps_per_epoch * (1 + self.alternates)

    @property
    def total(self) -> int:
        """The number of steps of the joint training."""
        return self.first.total * (1 + self.alternates)

    def at(self, step: int) -> tuple[int | None, int | None]:
        """Return the numbers that a step has in the trainings of both parts.

        >>> turns = Turns(RowOrder(3, TrainSettings(1e-3, 1), 0), RowOrder(9, TrainSettings(1, 1),
        ...     0), alternates=True)
        >>> [turns.at(step) for step in range(4)]
        [(0, None), (None, 0), (1, None), (None, 1)]
        """
        if not self.alternates:
            return step, step
        turn, which = divmod(step, 2)
        return (None, turn) if which else (turn, None)

    def parts(self, step: int) -> Iterator[tuple[int, int, np.ndarray] | None]:
        """Yield for both parts the number of a step there, its epoch and its rows."""
        for order, number in zip((self.first, self.second), self.at(step), strict=True):
            yield None if number is None else (number, *order.rows(number))

    def rows(self, step: int) -> tuple[int, np.ndarray]:
        """Return (epoch, rows of both parts) of a step."""
        found = [rows for _, _, rows in filter(None, self.parts(step))]
        return step // self.steps_per_epoch, np.concatenate(found)


@dataclass(frozen=True)
class JointStep(Step):
    """A step of two parts, at least one of which is there. `rows` are those of both; micro-batches
    have rows of one part, those of the first one before those of the second one.
    """

    parts: tuple[Step | None, Step | None] = (None, None)

    @property
    def first(self) -> Step:
        """The first part that is there."""
        return next(part for part in self.parts if part is not None)

    def micro_batches(self) -> list[np.ndarray]:
        """Return the positions of this worker's micro-batches."""
        first, second = self.parts
        found = first.micro_batches() if first else []
        return [*found, *(self._cut + p for p in (second.micro_batches() if second else ()))]

    def which(self, positions: np.ndarray) -> int:
        """Return the number of the part whose rows a micro-batch has, 0 or 1."""
        return int(positions[0] >= self._cut)

    def part_of(self, positions: np.ndarray) -> tuple[Step, np.ndarray]:
        """Return the part whose rows a micro-batch has, and their positions there."""
        which = self.which(positions)
        part = self.parts[which]
        assert part is not None, "the rows are those of the parts"
        return part, positions - which * self._cut

    @property
    def _cut(self) -> int:
        return len(self.parts[0].rows) if self.parts[0] else 0


class Joint(Objective):
    """The sum of two losses, in the steps that `turns` give each. The loss of a step that one of
    them has no part in counts the last one that it had, so that losses can be compared. The second
    loss counts `weight` times.

    `first.end` is called after every step, with its number in the joint training, `second.end`
    after its own steps.
    """

    def __init__(self, first: Objective, second: Objective, turns: Turns, weight: float) -> None:
        self.first, self.second, self.turns, self.weight = first, second, turns, weight
        parts = {"first": first.module, "second": second.module}
        self.module = torch.nn.ModuleDict(parts)
        device = next(first.module.parameters()).device
        self.module.register_buffer("recent", torch.zeros(2, device=device))
        later = (second.comparable_from + turns.alternates) * (1 + turns.alternates)
        self.comparable_from = max(first.comparable_from, later)
        self.loss_unit = max(first.loss_unit, second.loss_unit * weight)
        self._now: tuple[Step | None, ...] = ()
        self._losses: list[torch.Tensor] = []

    def order(self, n_rows: int, settings: TrainSettings, seed: int) -> StepOrder:  # noqa: ARG002
        """Return the rows of both parts, which are known."""
        return self.turns

    def taken(self, step: Step) -> JointStep:
        """Return a step with the rows and the number of each part."""
        parts = [
            None if found is None else replace(step, number=found[0], epoch=found[1], rows=found[2])
            for found in self.turns.parts(step.number)
        ]
        own = (step.seed, step.rank, step.world_size, step.micro, step.shares)
        return JointStep(step.number, step.epoch, step.rows, *own, parts=(parts[0], parts[1]))

    def blocks(self) -> Sequence[torch.nn.Module]:
        """Return the blocks of the first part, which are those of the second one too."""
        return self.first.blocks()

    def encoders(self) -> Sequence[Any]:
        """Return the encoders of both parts."""
        return [*self.first.encoders(), *self.second.encoders()]

    def prepare(self, step: Step) -> Prepared:
        """Return what each part prepares."""
        assert isinstance(step, JointStep)
        both = zip((self.first, self.second), step.parts, strict=True)
        return Prepared([part and goal.prepare(part) for goal, part in both], {})

    def begin(self, step: Step) -> None:
        """Begin the step of each part. What the second one draws leaves the first one's dropout as
        it is alone.
        """
        assert isinstance(step, JointStep)
        made = step.prepared.batch if step.prepared else (None, None)
        first, second = self._now = tuple(
            part and replace(part, prepared=own) for part, own in zip(step.parts, made, strict=True)
        )
        zero = torch.zeros((), device=self._recent.device)
        self._losses = [zero, zero]
        if second:
            self._mode(1)
            self.second.begin(second)
        if first:
            self._mode(0)
            if second:
                first.seed_dropout(first.rank)
            self.first.begin(first)

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """Return the contribution of some rows of one part."""
        assert isinstance(step, JointStep)
        which, (_, own) = step.which(positions), step.part_of(positions)
        self._mode(which)
        part = self._now[which]
        assert part is not None, "begin comes first"
        loss = (self.first, self.second)[which].loss(part, own)
        loss = loss * self.weight if which else loss
        self._losses[which] = self._losses[which] + loss.detach()
        return loss

    def gathered(
        self, step: Step, parameters: Sequence[torch.nn.Parameter], loss: torch.Tensor
    ) -> torch.Tensor:
        """Sum the gradients over all workers; return the sum of the last losses of both."""
        assert isinstance(step, JointStep)
        losses = torch.stack(self._losses)
        if step.world_size > 1:
            sum_gradients(parameters, loss)
            add_up(losses)
        for which, part in enumerate(step.parts):
            if part is not None:
                self._recent[which] = losses[which]
        return self._recent.sum()

    def end(self, step: Step) -> None:
        """After the optimiser's step."""
        self.first.end(step)
        if self._now[1] is not None:
            self.second.end(self._now[1])

    @property
    def _recent(self) -> torch.Tensor:
        """The loss that each part had last."""
        return self.module.get_buffer("recent")

    def _mode(self, which: int) -> None:
        """Switch dropout as the training of a part has it."""
        dropout = (self.turns.first, self.turns.second)[which].settings.dropout
        if self.module.training != dropout:
            self.module.train(dropout)
