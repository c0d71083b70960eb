"""The options of the training of transfer tasks, each declared once, and the settings of the loop.

The `Params` of a room name all options of the loop and give their defaults: ``learning_rate:
Annotated[float, LEARNING_RATE] = 5e-5``. Those that are not declared here have the types of
`raxalign.train.options`.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from raxalign.train.loop import TrainSettings
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


def settings_of(options: Any) -> TrainSettings:
    """Return the settings of a training with these options."""
    return TrainSettings(
        options.learning_rate,
        options.batch_size,
        options.epochs,
        warmup=options.warmup,
        schedule=options.schedule,
        betas=pair_of(options.betas),
        eps=options.eps,
        weight_decay=options.weight_decay,
        clip=options.clip or None,
    )
