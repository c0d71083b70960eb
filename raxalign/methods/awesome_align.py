"""The encoder learns to link words by its own links (Dou and Neubig 2021)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self, final

from pydantic import Field, model_validator

from raxalign.encoders.models.vectors import Layer
from raxalign.errors import RaxalignError
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.masked_lm import MaskedLMParams
from raxalign.methods.families.trained import Folders, TrainedMethod
from raxalign.methods.rows.sentences import Bitexts, read_bitexts
from raxalign.train.options import Clip, Epochs, LearningRate, Warmup, WeightDecay

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.methods.objectives.awesome_align import AlignerLosses


@final
class AwesomeTraining(TrainedMethod[Bitexts]):
    """Train the encoder for linking words by its states, as the word aligner `awesome_align` does
    it: on the links that it finds itself, and by predicting masked words and telling translations
    from other pairs.

    Formula: mlm L_MLM + tlm L_TLM + so L_SO + psi L_PSI + co L_CO, each to be minimised. L_SO =
    -Σ_ij A_ij (P(y_j | x_i) / |x| + P(x_i | y_j) / |y|) / 2, where A are the pieces of words that
    are linked now. L_CO = -Σ_ij P(y_j | x_i) P(x_i | y_j) / min(|x|, |y|). L_PSI = -log s(x, y) -
    log(1 - s(x, y')) with y' of another pair, halved; s reads [CLS] of both together through a
    layer with tanh. L_MLM and L_TLM are those of `mlm`, over each side, and of `tlm`.

    Data: sentence pairs of all languages together. No links are read. The trained encoder is saved
    as any other; name its folder as `encoder` of the word aligner, or evaluate it by the task
    `word_alignment`.

    The program of the authors has twice this L_SO, takes the means of masked pieces for each
    sentence, and masks one sentence of a pair at a time. The head of L_PSI is dropped after
    training.

    Reference: Dou and Neubig (2021, section 2.2); settings of their released program.
    """

    VERSION = 1
    name = "awesome_align"
    reads = "bitext"
    reference = "Dou and Neubig 2021"
    papers = ("dou2021", "extraction=entmax peters2019")

    class Params(MaskedLMParams):
        """Training is by AdamW. A weight of 0 leaves a loss out."""

        so: float = Field(1.0, ge=0, allow_inf_nan=False, description="Weight of L_SO.")
        co: float = Field(0.0, ge=0, allow_inf_nan=False, description="Weight of L_CO.")
        mlm: float = Field(1.0, ge=0, allow_inf_nan=False, description="Weight of L_MLM.")
        tlm: float = Field(1.0, ge=0, allow_inf_nan=False, description="Weight of L_TLM.")
        psi: float = Field(1.0, ge=0, allow_inf_nan=False, description="Weight of L_PSI.")
        layers: Layer = "0.67"
        """Layer whose states are compared: `last`, one number (0: the embeddings) or a fraction of
        the depth; 0.67 is layer 8 of 12, the paper's.
        """
        extraction: Literal["softmax", "entmax"] = "softmax"
        """How similarities become probabilities: by `softmax`, or by the sparse `entmax` with α =
        1.5.
        """
        threshold: float = Field(0.001, ge=0, lt=1)
        """Probability that two pieces must exceed, each for the other, to be linked in L_SO."""
        learning_rate: LearningRate[float] = 2e-5
        batch_size: int = Field(8, ge=1, description=wording.BATCH_OF_PAIRS)
        epochs: Epochs = 1
        warmup: Warmup[float] = 0.0
        weight_decay: WeightDecay = 0.0
        clip: Clip[float] = 1.0
        max_length: int = Field(128, ge=8, description=wording.PAIR_LENGTH)

        @model_validator(mode="after")
        def _trains_something(self) -> Self:
            if not (self.so or self.co or self.mlm or self.tlm or self.psi):
                raise ValueError(
                    "all of so, co, mlm, tlm and psi are 0, which leaves nothing to train; give one"
                    " of them a weight, or use the method `none`"
                )
            return self

    params: Params

    def needs(self) -> Needs:
        """Sentence pairs, and the masked-LM head where pieces are predicted."""
        return replace(super().needs(), head=bool(self.params.mlm or self.params.tlm))

    def idle(self) -> set[str]:
        """Those of a loss that is left out."""
        params = self.params
        idle = set() if params.mlm or params.tlm else {"mask_share"}
        idle |= set() if params.so or params.co else {"extraction"}
        idle |= set() if params.so or params.co or params.psi else {"layers"}
        return super().idle() | idle | (set() if params.so else {"threshold"})

    def read(self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Folders) -> Bitexts:
        """Return the sentence pairs of all languages. Raises `RaxalignError` for a single pair,
        which cannot be told from others.
        """
        bitexts = read_bitexts(encoder, folders, inputs.pivot, self.params.max_length)
        if self.params.psi and len(bitexts) < 2:
            raise RaxalignError(
                "awesome_align: psi tells translations from other pairs, and there is one sentence"
                " pair; give more text, or psi: 0"
            )
        return bitexts

    def objective(self, encoder: TransformerEncoder, rows: Bitexts, seed: int) -> AlignerLosses:
        """Return the weighted sum of the losses."""
        from raxalign.methods.objectives.awesome_align import AlignerLosses

        return AlignerLosses(encoder, rows, self.resolved(), seed)
