"""Two losses in one training: the sum of both in a step, or one of them in turn.

Each part draws its rows and its dropout as in a training of its own, by the number of its own
steps. The optimiser is one, with the settings of the first part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from raxalign.lazy import np, torch
from raxalign.train.chance import DROPOUT, mix, seed_generators
from raxalign.train.group import add_up, sum_gradients
from raxalign.train.objective import Objective, Prepared, Step
from raxalign.train.options import RowOrder, StepOrder, TrainSettings

Gradients = Sequence["torch.Tensor | None"]


@dataclass(frozen=True)
class Turns:
    """Which of two trainings each step of a joint one belongs to.

    With `alternates` a step of the second one follows every `every` steps of the first one within
    an epoch. Otherwise every `every`-th step of the first one, from step 0 on, is one of the second
    one too.
    """

    first: RowOrder
    second: RowOrder
    every: int = 1
    alternates: bool = False

    @property
    def batch_size(self) -> int:
        """The most rows that a part has in a step."""
        return max(self.first.batch_size, self.second.batch_size)

    @property
    def steps_per_epoch(self) -> int:
        """The steps of one pass over the rows of the first part."""
        return self._until(self.first.steps_per_epoch)

    @property
    def total(self) -> int:
        """The number of steps of the joint training."""
        epochs, rest = divmod(self.first.total, self.first.steps_per_epoch)
        return epochs * self.steps_per_epoch + self._until(rest)

    @property
    def of_second(self) -> int:
        """The number of steps of the second part."""
        if self.alternates:
            return self.total - self.first.total
        return -(-self.first.total // self.every)

    def at(self, step: int) -> tuple[int | None, int | None]:
        """Return the numbers that a step has in the trainings of both parts.

        >>> turns = Turns(RowOrder(3, TrainSettings(1e-3, 1), 0), RowOrder(9, TrainSettings(1, 1),
        ...     0), every=2, alternates=True)
        >>> [turns.at(step) for step in range(turns.total)]
        [(0, None), (1, None), (None, 0), (2, None)]
        """
        if not self.alternates:
            return step, None if step % self.every else step // self.every
        epoch, place = divmod(step, self.steps_per_epoch)
        turn, within = divmod(place, self.every + 1)
        if within == self.every:
            return None, epoch * (self.first.steps_per_epoch // self.every) + turn
        return epoch * self.first.steps_per_epoch + place - turn, None

    def parts(self, step: int) -> Iterator[tuple[int, int, np.ndarray] | None]:
        """Yield for both parts the number of a step there, its epoch and its rows."""
        for order, number in zip((self.first, self.second), self.at(step), strict=True):
            yield None if number is None else (number, *order.rows(number))

    def rows(self, step: int) -> tuple[int, np.ndarray]:
        """Return (epoch, rows of both parts) of a step."""
        found = [rows for _, _, rows in filter(None, self.parts(step))]
        return step // self.steps_per_epoch, np.concatenate(found)

    def _until(self, steps: int) -> int:
        """The steps that are taken until so many of the first part, within an epoch."""
        return steps + (steps // self.every if self.alternates else 0)


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


@dataclass(frozen=True)
class Mixing:
    """How two gradients become one. The second loss counts `weight` times. With `projects` two
    gradients that conflict, as their product is negative, each lose their part along the other one
    (PCGrad; Yu et al. 2020, Algorithm 1, with both orders of two tasks). Every `measured` steps of
    the second part their norms and their cosine are reported (0: never), for all parameters that
    both have gradients of, and for the `groups` of them by name.
    """

    weight: float = 1.0
    projects: bool = False
    measured: int = 0
    groups: Mapping[str, Sequence[torch.nn.Parameter]] | None = None
    report: Callable[[Mapping[str, float], int], None] = lambda values, step: None  # noqa: ARG005


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
    them has no part in counts the last one that it had, so that losses can be compared.

    `first.end` is called after every step, with its number in the joint training, `second.end`
    after its own steps.
    """

    def __init__(self, first: Objective, second: Objective, turns: Turns, mixing: Mixing) -> None:
        self.first, self.second, self.turns, self.mixing = first, second, turns, mixing
        self.module = self._both = _Both(first.module, second.module)
        self.trained = [p for p in self.module.parameters() if p.requires_grad]
        between = turns.every + 1 if turns.alternates else turns.every
        later = (second.comparable_from + turns.alternates) * between
        self.comparable_from = max(first.comparable_from, later)
        self.loss_unit = max(first.loss_unit, second.loss_unit * mixing.weight)
        self._now: tuple[Step | None, ...] = ()
        self._losses: list[torch.Tensor] = []
        self._apart: Gradients | None = None

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
        self._apart, self._losses = None, [zero, zero]
        if second:
            self._mode(1)
            self.second.begin(second)
        if first:
            self._mode(0)
            if second:
                seed_generators(mix(first.seed, first.number, first.rank, DROPOUT))
            self.first.begin(first)

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """Return the contribution of some rows of one part."""
        assert isinstance(step, JointStep)
        which, (_, own) = step.which(positions), step.part_of(positions)
        if which and self._apart is None and self._splits(step):
            self._set_apart()
        self._mode(which)
        part = self._now[which]
        assert part is not None, "begin comes first"
        loss = (self.first, self.second)[which].loss(part, own)
        loss = loss * self.mixing.weight if which else loss
        self._losses[which] = self._losses[which] + loss.detach()
        return loss

    def gathered(
        self, step: Step, parameters: Sequence[torch.nn.Parameter], loss: torch.Tensor
    ) -> torch.Tensor:
        """Sum the gradients over all workers, each part's by itself where they are looked at;
        return the sum of the last losses of both.
        """
        assert isinstance(step, JointStep)
        losses, several = torch.stack(self._losses), step.world_size > 1
        if self._splits(step):
            self._join(step, parameters, loss)
        elif several:
            sum_gradients(parameters, loss)
        if several:
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

    def _splits(self, step: JointStep) -> bool:
        """Whether both gradients of a step are looked at."""
        first, second = step.parts
        if first is None or second is None:
            return False
        return self.mixing.projects or self._reports(second.number)

    def _reports(self, number: int) -> bool:
        return bool(self.mixing.measured) and number % self.mixing.measured == 0

    def _set_apart(self) -> None:
        """Put the gradients of the first part aside."""
        self._apart = [parameter.grad for parameter in self.trained]
        for parameter in self.trained:
            parameter.grad = None

    def _join(
        self, step: JointStep, parameters: Sequence[torch.nn.Parameter], loss: torch.Tensor
    ) -> None:
        """Sum both gradients over the workers, report them, and put what becomes of them into the
        parameters.
        """
        if self._apart is None:  # this worker had no rows of the second part
            self._set_apart()
        assert self._apart is not None
        second = _summed(step, parameters, loss)
        for parameter, gradient in zip(self.trained, self._apart, strict=True):
            parameter.grad = gradient
        first, second_step = _summed(step, parameters, loss), step.parts[1]
        self._apart = None
        pairs = {
            parameter: (a, b)
            for parameter, a, b in zip(parameters, first, second, strict=True)
            if a is not None and b is not None
        }
        if second_step is not None and self._reports(second_step.number) and step.rank == 0:
            self.mixing.report(compared(pairs, self.mixing.groups or {}), step.number + 1)
        project = bool(pairs) and self.mixing.projects
        along = _along(list(pairs.values())) if project else (None, None)
        for parameter, a, b in zip(parameters, first, second, strict=True):
            if a is None or b is None:
                parameter.grad = b if a is None else a
            elif along[0] is None or along[1] is None:
                parameter.grad = a + b
            else:
                parameter.grad = a + b - along[0] * b - along[1] * a


Pairs = Mapping["torch.nn.Parameter", "tuple[torch.Tensor, torch.Tensor]"]
"""The two gradients of parameters that both have."""


def compared(pairs: Pairs, groups: Mapping[str, Sequence[torch.nn.Parameter]]) -> dict[str, float]:
    """Return ``gradient_cosine/NAME`` and the norms ``task_gradient/NAME`` and
    ``method_gradient/NAME`` of two gradients, for ``all`` parameters and for each group; the cosine
    is left out where a norm is 0.
    """
    named = {"all": list(pairs.values())}
    named |= {
        name: [pairs[p] for p in parameters if p in pairs] for name, parameters in groups.items()
    }
    named = {name: found for name, found in named.items() if found}
    if not named:
        return {}
    found = torch.stack([torch.stack(_products(both)) for both in named.values()]).double()
    values: dict[str, float] = {}
    for name, (product, first, second) in zip(named, found.tolist(), strict=True):
        norms = {"task": first**0.5, "method": second**0.5}
        values |= {f"{which}_gradient/{name}": norm for which, norm in norms.items()}
        if first and second:
            values[f"gradient_cosine/{name}"] = product / (norms["task"] * norms["method"])
    return values


def _products(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
    """The inner product of two gradients, and that of each with itself."""
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    sides = ((first, second), (first, first), (second, second))
    return [
        torch.stack([(a * b).sum() for a, b in zip(*side, strict=True)]).sum() for side in sides
    ]


def _along(
    pairs: Sequence[tuple[torch.Tensor, torch.Tensor]],
) -> tuple[torch.Tensor, torch.Tensor]:
    """How much of the first gradient lies along the second one, and of the second one along the
    first one, where they conflict; else 0.
    """
    product, first, second = _products(pairs)
    conflict = torch.clamp(product, max=0.0)
    least = torch.finfo(product.dtype).tiny  # a gradient of 0 conflicts with nothing
    return conflict / second.clamp(min=least), conflict / first.clamp(min=least)


def _summed(step: Step, parameters: Sequence[torch.nn.Parameter], loss: torch.Tensor) -> Gradients:
    """Sum the gradients of one part over all workers; return them."""
    if step.world_size > 1:
        sum_gradients(parameters, loss)
    return [parameter.grad for parameter in parameters]
