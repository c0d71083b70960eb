"""The options of the training loop, declared once for everything that trains.

A method's options inherit `LoopOptions` and give the defaults of their own. `LoopOptions.settings`
turns them into the settings of the loop. Tasks declare those that they have by the same types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field

from raxalign.config.params import LATER, BaseParams
from raxalign.train.loop import Schedule, TrainSettings

_T = TypeVar("_T", int, int | None, float, float | None)

BATCH_SIZE = "Rows per training step."


def _two_shares(betas: str) -> str:
    """The text in one form. Raises `ValueError` for all but two numbers from 0 to below 1."""
    try:
        first, second = pair_of(betas)
    except ValueError:
        first = second = -1.0
    if not (0 <= first < 1 and 0 <= second < 1):
        raise ValueError(f"{betas!r}: write two numbers from 0 to below 1, such as 0.9 0.999")
    return f"{first!r} {second!r}"


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
    _T,
    Field(ge=0, description="Training steps in place of `epochs` (0: train for `epochs`)."),
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
_BETAS = (
    "Adam's β1 and β2 with a blank between them: the share of the running means of the gradient and"
    " of its square that each step keeps."
)
Betas = Annotated[str, AfterValidator(_two_shares), Field(description=_BETAS)]
Epsilon = Annotated[
    _T, Field(gt=0, description="ε of Adam, the constant in the denominator of its update.")
]
_CLIP = "Largest norm of the gradient, to which a longer one is scaled down (0: no limit)."
Clip = Annotated[_T, Field(ge=0, description=_CLIP)]
Dropout = Annotated[bool, Field(description="Whether dropout is on during training.")]


class LoopOptions(BaseParams):
    """Options of a training by AdamW. None stands for the value of a profile."""

    learning_rate: LearningRate[float | None]
    batch_size: int | None = Field(ge=1, description=BATCH_SIZE)
    epochs: Epochs
    steps: Annotated[Steps[int], LATER] = 0
    warmup: Warmup[float | None]
    schedule: Annotated[RateSchedule, LATER] = "linear"
    weight_decay: Annotated[WeightDecay, LATER] = 0.0
    betas: Annotated[Betas, LATER] = "0.9 0.999"
    eps: Annotated[Epsilon[float], LATER] = 1e-8
    clip: Annotated[Clip[float], LATER] = 0.0
    dropout: Dropout = True

    def settings(self, profile: Mapping[str, Any], *, shuffle: bool = True) -> TrainSettings:
        """Return the settings of the loop; `profile` has what the options leave at None."""
        value: dict[str, Any] = {
            name: profile[name] if getattr(self, name) is None else getattr(self, name)
            for name in LoopOptions.model_fields
        }
        changed = {"steps": value["steps"] or None, "clip": value["clip"] or None}
        return TrainSettings(
            **{**value, **changed, "betas": pair_of(value["betas"])}, shuffle=shuffle
        )
