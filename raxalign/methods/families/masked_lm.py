"""What methods that train by masked language modelling share: options, and the training.

Masked language modelling on rows of sentences or of pairs (Devlin et al. 2019; of pairs Conneau
and Lample 2019, §3.3, which they call TLM).

Formula: mean over the masked places m of the global batch of -log p(x_m | the row with masks).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pydantic import Field

from raxalign.encoders.training.masking import MaskedWords, Masks
from raxalign.methods.families import wording
from raxalign.methods.families.trained import TrainedMethod, TrainedParams, losses
from raxalign.methods.rows.sentences import Rows
from raxalign.methods.rows.states import lay_out_rows
from raxalign.train.objective import Step
from raxalign.train.options import Epochs, LearningRate, Warmup, WeightDecay

if TYPE_CHECKING:
    from raxalign.encoders.models.packing import Packed
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.train.runtime import Runtime


class MaskedLM(MaskedWords[Rows]):
    """Predicts the masked pieces of the rows that `rows_of(step)` makes, row r of them from
    ``step.rows[r]``.
    """

    def __init__(
        self, encoder: TransformerEncoder, rows_of: Callable[[Step], Rows], mask_share: float
    ) -> None:
        super().__init__(encoder, mask_share)
        self.rows_of = rows_of

    def on(self, rows_of: Callable[[Step], Rows]) -> Self:
        """Return the same objective over other rows; it shares the module."""
        other = copy.copy(self)
        other.rows_of = rows_of
        return other

    def batch(self, step: Step) -> Rows:
        """Return the rows of the global batch."""
        return self.rows_of(step)

    def lay_out(self, rows: Rows, masks: Masks) -> Packed:
        """Return some rows as the encoder reads them."""
        return lay_out_rows(self.encoder, [(rows, masks.applied(rows))])


class MaskedLMParams(TrainedParams):
    """The options of a training by masked language modelling (Pan et al. 2021), with AdamW. Rows
    are sentences unless a subclass says otherwise.
    """

    mask_share: float = Field(0.15, gt=0, lt=1, description=wording.MASK_SHARE)
    learning_rate: LearningRate[float] = 3e-5
    batch_size: int = Field(128, ge=1, description=wording.BATCH_OF_SENTENCES)
    epochs: Epochs = 10
    warmup: Warmup[float] = 0.1
    weight_decay: WeightDecay = 0.01
    max_length: int = Field(128, ge=8, description=wording.ROW_LENGTH)


@dataclass(frozen=True)
class MaskedText:
    """What is masked: `rows_of(step)` makes the rows of a global batch out of `n_rows` rows."""

    rows_of: Callable[[Step], Rows]
    n_rows: int


class MaskedLMMethod(TrainedMethod):
    """Trains by masked language modelling alone."""

    params: MaskedLMParams

    def train_on(
        self,
        encoder: TransformerEncoder,
        text: MaskedText,
        runtime: Runtime,
        name: str,
        dev: Callable[[], MaskedText],
    ) -> dict[str, object]:
        """Train the encoder in place; returns notes: the number of rows, and `losses`. `dev` reads
        the text of the dev part.
        """
        objective = MaskedLM(encoder, text.rows_of, self.params.mask_share)

        def on_dev() -> tuple[MaskedLM, int]:
            held_out = dev()
            return objective.on(held_out.rows_of), held_out.n_rows

        fitted = self.fit(objective, text.n_rows, runtime, name, on_dev)
        return {"rows": text.n_rows, **losses(fitted)}
