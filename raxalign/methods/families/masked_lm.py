"""What methods that train by masked language modelling have in common: options, and the training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from raxalign.methods.base import Method
from raxalign.methods.families.trained import losses
from raxalign.methods.objectives.masked_lm import MaskedLM
from raxalign.train.loop import TrainSettings, fit

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.methods.rows.sentences import Rows
    from raxalign.train.objective import Step
    from raxalign.train.runtime import Runtime


class MaskedLMParams(Method.Params):
    """The options of a training by masked language modelling (Pan et al. 2021): AdamW, the rate rises over `warmup` and falls linearly to 0.

    Of the pieces that are not special `mask_share` are masked in each global batch: 80 % by the mask, 10 % by random pieces, 10 % by themselves.
    Rows have at most `max_length` pieces.
    """

    mask_share: float = Field(0.15, gt=0, lt=1)
    learning_rate: float = Field(3e-5, gt=0)
    batch_size: int = Field(128, ge=1)
    epochs: int = Field(10, ge=1)
    warmup: float = Field(0.1, ge=0)
    weight_decay: float = Field(0.01, ge=0)
    max_length: int = Field(128, ge=8)
    dropout: bool = True


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
    encoder: TransformerEncoder, rows_of: Callable[[Step], Rows], n_rows: int, params: MaskedLMParams, runtime: Runtime, name: str
) -> dict[str, object]:
    """Train the encoder in place; returns notes: the number of rows, and `losses`."""
    fitted = fit(MaskedLM(encoder, rows_of, params.mask_share), n_rows, train_settings(params), runtime, name=name)
    return {"rows": n_rows, **losses(fitted)}
