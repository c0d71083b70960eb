"""The training of transfer tasks: its options, each declared once, and what a task fixes about it.

A room's `Params` name the options that it has and give their defaults: ``learning_rate:
Annotated[float, LEARNING_RATE] = 5e-5``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import Field

from raxalign.train.loop import TrainSettings

LEARNING_RATE = Field(gt=0, description="Learning rate at the end of the warm-up.")
EPOCHS = Field(ge=1, description="Passes over the training data.")
BATCH_SIZE = Field(
    ge=1,
    description=(
        "Training rows per step: examples, sentences, or windows of a context; with code-switching"
        " the two mixes of an example or window count as one."
    ),
)
WARMUP = Field(
    ge=0,
    description=(
        "Steps over which the learning rate rises linearly: below 1 a share of all steps, from 1 on"
        " a number of steps."
    ),
)
WEIGHT_DECAY = Field(ge=0, description="Weight decay of AdamW; biases and norms are spared.")
DROPOUT = Field(
    ge=0, lt=1, description="Dropout before the output layer, and after the layers of a BiLSTM."
)
MAX_LENGTH = Field(
    ge=8,
    description=(
        "Largest number of pieces per row, special ones included; longer rows are cut or divided,"
        " also where the encoder has fewer positions."
    ),
)
MAX_TRAIN = Field(
    ge=1,
    description=(
        "Number of training rows of each language that are used, from the beginning (none: all)."
    ),
)


class Tuned(Protocol):
    """The options that every training of a task has."""

    @property
    def learning_rate(self) -> float:
        """The rate at the end of the warm-up."""

    @property
    def batch_size(self) -> int:
        """Training rows per step."""

    @property
    def epochs(self) -> int:
        """Passes over the training rows."""

    @property
    def warmup(self) -> float:
        """A share of all steps below 1, a number of steps from 1 on."""


@dataclass(frozen=True)
class Recipe:
    """The settings of a training that a task fixes; those of `TrainSettings`."""

    schedule: Literal["constant", "linear"] = "constant"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    clip: float | None = None

    def settings(self, tuned: Tuned, weight_decay: float = 0.0) -> TrainSettings:
        """The settings of a training with the options `tuned`."""
        return TrainSettings(
            tuned.learning_rate,
            tuned.batch_size,
            tuned.epochs,
            warmup=tuned.warmup,
            schedule=self.schedule,
            betas=self.betas,
            eps=self.eps,
            weight_decay=weight_decay,
            clip=self.clip,
        )
