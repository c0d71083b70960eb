"""What methods that train by masked language modelling have in common: options, and the
training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from raxalign.methods.base import Method
from raxalign.methods.families import wording
from raxalign.methods.families.trained import losses
from raxalign.methods.objectives.masked_lm import MaskedLM
from raxalign.train.loop import TrainSettings, fit

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.methods.rows.sentences import Rows
    from raxalign.train.objective import Step
    from raxalign.train.runtime import Runtime


class MaskedLMParams(Method.Params):
    """The options of a training by masked language modelling (Pan et al. 2021), with AdamW. Rows
    are sentences unless a subclass says otherwise.
    """

    mask_share: float = Field(0.15, gt=0, lt=1, description=wording.MASK_SHARE)
    learning_rate: float = Field(3e-5, gt=0, description=wording.LEARNING_RATE)
    batch_size: int = Field(128, ge=1, description=wording.BATCH_OF_SENTENCES)
    epochs: int = Field(10, ge=1, description=wording.EPOCHS)
    warmup: float = Field(0.1, ge=0, description=wording.WARMUP)
    weight_decay: float = Field(0.01, ge=0, description=wording.WEIGHT_DECAY)
    max_length: int = Field(128, ge=8, description=wording.ROW_LENGTH)
    dropout: bool = Field(True, description=wording.DROPOUT)


def train_settings(params: MaskedLMParams) -> TrainSettings:
    """The options of the loop."""
    return TrainSettings(
        learning_rate=params.learning_rate,
        batch_size=params.batch_size,
        epochs=params.epochs,
        warmup=params.warmup,
        schedule="linear",
        weight_decay=params.weight_decay,
        dropout=params.dropout,
    )


def train_masked_lm(
    encoder: TransformerEncoder,
    rows_of: Callable[[Step], Rows],
    n_rows: int,
    params: MaskedLMParams,
    runtime: Runtime,
    name: str,
) -> dict[str, object]:
    """Train the encoder in place; returns notes: the number of rows, and `losses`."""
    fitted = fit(
        MaskedLM(encoder, rows_of, params.mask_share),
        n_rows,
        train_settings(params),
        runtime,
        name=name,
    )
    return {"rows": n_rows, **losses(fitted)}
