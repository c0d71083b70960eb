"""The options of the training loop, declared once for everything that trains.

A method's options inherit `LoopOptions` and give the defaults of their own. `LoopOptions.settings`
turns them into the settings of the loop. Tasks declare those that they have by the same types.

Which rows a step sees and at which learning rate are pure functions of the step's number, so that
resuming needs nothing but that number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field

from raxalign.options.params import LATER, BaseParams, Removed

Schedule = Literal["constant", "linear", "cosine", "inverse-sqrt"]
_T = TypeVar("_T", int, int | None, float, float | None)

BATCH_SIZE = "Rows per training step."


def pair_of(betas: str) -> tuple[float, float]:
    """Return β1 and β2 of a text. Raises `ValueError` for a text of another form."""
    first, second = map(float, betas.split())
    return first, second


LearningRate = Annotated[
    _T, Field(gt=0, description="Largest learning rate: that at the end of the warm-up.")
]
Epochs = Annotated[
    int, Field(ge=1, description="Passes over the training data, where `steps` is 0.")
]
Steps = Annotated[
    _T, Field(ge=0, description="Training steps in place of `epochs` (0: train for `epochs`).")
]
Warmup = Annotated[
    _T,
    Field(
        ge=0,
        description=(
            "Steps over which the learning rate rises linearly: below 1 a fraction of all steps,"
            " from 1 on a number of steps."
        ),
    ),
]
SCHEDULE = Field(
    description=(
        "The learning rate after the warm-up: it stays (`constant`), falls to 0 in a straight"
        " line (`linear`) or along half a `cosine`, or falls with the square root of the step's"
        " number (`inverse-sqrt`)."
    )
)
RateSchedule = Annotated[Schedule, SCHEDULE]
_DECAY = "Weight decay of AdamW; biases and norms do not decay."
WeightDecay = Annotated[float, Field(ge=0, allow_inf_nan=False, description=_DECAY)]
_CLIP = "Largest norm of the gradient, to which a longer one is scaled down (0: no limit)."
Clip = Annotated[float, Field(ge=0, description=_CLIP)]
Dropout = Annotated[bool, Field(description="Whether dropout is on during training.")]


NO_OPTION = "leave it out: it is part of the method"


class LoopOptions(BaseParams):
    """Options of a training by AdamW. None stands for the value of a profile."""

    learning_rate: LearningRate[float | None]
    batch_size: int | None = Field(ge=1, description=BATCH_SIZE)
    epochs: Epochs
    steps: Annotated[Steps[int], LATER] = 0
    warmup: Warmup[float | None]
    schedule: Annotated[RateSchedule, LATER] = "linear"
    dropout: Dropout = True
    optimizer: ClassVar[Mapping[str, Any]] = {}
    """What a kind of training has in place of the values of `TrainSettings`."""
    removed: ClassVar = {
        "weight_decay": Removed(NO_OPTION, default=0.0),
        "betas": Removed(NO_OPTION, default="0.9 0.999"),
        "eps": Removed(NO_OPTION, default=1e-8),
        "clip": Removed(NO_OPTION, default=0.0),
    }

    def settings(self, profile: Mapping[str, Any], *, shuffle: bool = True) -> TrainSettings:
        """Return the settings of the loop; `profile` has what the options leave at None."""
        value: dict[str, Any] = {
            name: profile[name] if getattr(self, name) is None else getattr(self, name)
            for name in LoopOptions.model_fields
        }
        given = {name: profile[name] for name in LoopOptions.removed if name in profile}
        own = {**self.optimizer, **given, **value}
        own |= {name: own.get(name) or None for name in ("steps", "clip")}  # 0: without
        return TrainSettings(**own, shuffle=shuffle)


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

    def rate_at(self, step: int, total: int) -> float:
        """Return the learning rate of a step (0-based) out of `total`.

        After w steps of warm-up out of T the rate of step t, relative to `learning_rate`, is 1
        (``constant``), (T - t) / (T - w) (``linear``), (1 + cos(π (t - w) / (T - w))) / 2
        (``cosine``; Loshchilov and Hutter 2017, Eq. 5, without restarts), or sqrt(max(w, 1) / (t +
        1)) (``inverse-sqrt``; Vaswani et al. 2017, Eq. 3).

        >>> settings = TrainSettings(1.0, 8, warmup=0.25)
        >>> [settings.rate_at(step, 8) for step in range(4)]
        [0.5, 1.0, 1.0, 1.0]
        """
        rising = self.warmup * total if self.warmup < 1 else self.warmup
        if step < rising:
            return self.learning_rate * min(1.0, (step + 1) / rising)
        if self.schedule == "constant":
            return self.learning_rate
        left = max(total - rising, 1)
        if self.schedule == "linear":
            return self.learning_rate * (total - step) / left
        if self.schedule == "cosine":
            return self.learning_rate * (1 + math.cos(math.pi * (step - rising) / left)) / 2
        return self.learning_rate * min(1.0, math.sqrt(max(rising, 1) / (step + 1)))
