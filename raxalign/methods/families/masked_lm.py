"""What methods that train by masked language modelling share: options, and the training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from raxalign.methods.families import wording
from raxalign.methods.families.trained import TrainedMethod, TrainedParams, losses
from raxalign.methods.objectives.masked_lm import MaskedLM
from raxalign.train.options import Epochs, LearningRate, Warmup, WeightDecay

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.methods.rows.sentences import Rows
    from raxalign.train.objective import Step
    from raxalign.train.runtime import Runtime


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
