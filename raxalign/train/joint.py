"""Two losses in one training: the sum of both in a step, or one of them in turn.

Each part draws its rows and its dropout as in a training of its own, by the number of its own
steps. The optimiser is one, with the settings of the first part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from raxalign.lazy import np, torch
from raxalign.train.chance import Stream, mix, seed_generators
from raxalign.train.group import add_up, sum_gradients
from raxalign.train.objective import Objective, Prepared, Step
from raxalign.train.options import RowOrder, StepOrder, TrainSettings


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


class _Both(torch.nn.Module):
    """The modules of both parts, and the loss that each had last."""

    def __init__(self, first: torch.nn.Module, second: torch.nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second
        device = next(first.parameters()).device
        self.recent: torch.Tensor
        self.register_buffer("recent", torch.zeros(2, device=device))


class Joint(Objective):
    """The sum of two losses, in the steps that `turns` give each. The loss of a step that one of
    them has no part in counts the last one that it had, so that losses can be compared. The second
    loss counts `weight` times.

    `first.end` is called after every step, with its number in the joint training, `second.end`
    after its own steps.
    """

    def __init__(self, first: Objective, second: Objective, turns: Turns, weight: float) -> None:
        self.first, self.second, self.turns, self.weight = first, second, turns, weight
        self.module = self._both = _Both(first.module, second.module)
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
        zero = torch.zeros((), device=self._both.recent.device)
        self._losses = [zero, zero]
        if second:
            self._mode(1)
            self.second.begin(second)
        if first:
            self._mode(0)
            if second:
                seed_generators(mix(first.seed, first.number, first.rank, Stream.DROPOUT))
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
                self._both.recent[which] = losses[which]
        return self._both.recent.sum()

    def end(self, step: Step) -> None:
        """After the optimiser's step."""
        self.first.end(step)
        if self._now[1] is not None:
            self.second.end(self._now[1])

    def _mode(self, which: int) -> None:
        """Switch dropout as the training of a part has it."""
        dropout = (self.turns.first, self.turns.second)[which].settings.dropout
        if self.module.training != dropout:
            self.module.train(dropout)
