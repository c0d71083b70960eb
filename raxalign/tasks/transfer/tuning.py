"""The training of transfer tasks: its options, each declared once, and the settings of the loop.

The `Params` of a room name all of `Tuned` and give their defaults: ``learning_rate:
Annotated[float, LEARNING_RATE] = 5e-5``. Those that are not declared here have the types of
`raxalign.train.options`.
"""

from __future__ import annotations

from typing import Protocol

from pydantic import Field

from raxalign.train.loop import Schedule, TrainSettings
from raxalign.train.options import pair_of

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

    @property
    def schedule(self) -> Schedule:
        """The rate after the warm-up."""

    @property
    def weight_decay(self) -> float:
        """Weight decay of matrices."""

    @property
    def betas(self) -> str:
        """Adam's β1 and β2."""

    @property
    def eps(self) -> float:
        """Adam's ε."""

    @property
    def clip(self) -> float:
        """Largest norm of the gradient; 0 is no limit."""


def settings_of(tuned: Tuned) -> TrainSettings:
    """Returns the settings of a training with the options `tuned`."""
    return TrainSettings(
        tuned.learning_rate,
        tuned.batch_size,
        tuned.epochs,
        warmup=tuned.warmup,
        schedule=tuned.schedule,
        betas=pair_of(tuned.betas),
        eps=tuned.eps,
        weight_decay=tuned.weight_decay,
        clip=tuned.clip or None,
    )
