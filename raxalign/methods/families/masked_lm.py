"""What methods that train by masked language modelling share: options, and the training.

Masked language modelling on rows of sentences or of pairs (Devlin et al. 2019; of pairs Conneau
and Lample 2019, §3.3, which they call TLM).

Formula: mean over the masked places m of the global batch of -log p(x_m | the row with masks).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic

from pydantic import Field

from raxalign.encoders.models.masking import MaskedWords, Masks
from raxalign.encoders.models.rows import Packed, Rows
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.methods.base import MethodInputs
from raxalign.methods.families.trained import Folders, RowsT, TrainedMethod, TrainedParams
from raxalign.methods.rows.sentences import Bitexts, read_bitexts
from raxalign.options.params import Removed
from raxalign.train.objective import Step
from raxalign.train.options import NO_OPTION, Epochs, LearningRate, Warmup


class MaskedLM(MaskedWords, Generic[RowsT]):
    """Predicts masked pieces of `batch_of(rows, step)`, row r of it from ``step.rows[r]``."""

    def __init__(
        self,
        encoder: TransformerEncoder,
        rows: RowsT,
        batch_of: Callable[[RowsT, Step], Rows],
        mask_share: float,
    ) -> None:
        super().__init__(encoder, mask_share)
        self.rows, self.batch_of = rows, batch_of

    def batch(self, step: Step) -> Rows:
        """Return the rows of the global batch."""
        return self.batch_of(self.rows, step)

    def lay_out(self, rows: Rows, masks: Masks) -> Packed:
        """Return some rows as the encoder reads them."""
        found: Packed = self.encoder.lay_out([masks.applied(rows)])
        return found


class MaskedLMParams(TrainedParams):
    """The options of a training by masked language modelling (Pan et al. 2021), with AdamW and
    a weight decay of 0.01. Rows are sentences unless a subclass says otherwise.
    """

    mask_share: float = Field(0.15, gt=0, lt=1)
    """Share of the pieces, special ones apart, that are masked per batch: 80 % by the mask, 10 % by
    random pieces, 10 % by themselves.
    """
    learning_rate: LearningRate[float] = 3e-5
    batch_size: int = Field(128, ge=1)
    """Sentences per training step, counted over all languages together."""
    epochs: Epochs = 10
    warmup: Warmup[float] = 0.1
    optimizer: ClassVar = {"weight_decay": 0.01}
    removed: ClassVar = {"weight_decay": Removed(NO_OPTION, 0.01)}
    max_length: int = Field(128, ge=8)
    """Largest number of pieces per row, special ones included; longer rows are cut."""


def read_pairs(
    method: TrainedMethod[Any], encoder: TransformerEncoder, inputs: MethodInputs, folders: Folders
) -> Bitexts:
    """Return the sentence pairs of all languages whose length the params of a method allow."""
    resolved = method.resolved()
    allowed = resolved["min_pieces"], resolved["max_pieces"] or None
    return read_bitexts(encoder, folders, inputs.pivot, resolved["max_length"], allowed)


class MaskedLMMethod(TrainedMethod[RowsT]):
    """Trains by masked language modelling alone."""

    params: MaskedLMParams

    def objective(self, encoder: TransformerEncoder, rows: RowsT, seed: int) -> MaskedLM[RowsT]:  # noqa: ARG002
        """Return the prediction of masked pieces."""
        return MaskedLM(encoder, rows, self.batch_of, self.params.mask_share)

    @abstractmethod
    def batch_of(self, rows: RowsT, step: Step) -> Rows:
        """Return the rows of a global batch."""

    def counts(self, rows: RowsT) -> dict[str, object]:
        """Return the number of rows too."""
        return {"rows": self.n_rows(rows), **super().counts(rows)}
