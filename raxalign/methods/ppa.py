"""Sentences are contrasted by momentum, and words predicted in both (Pan et al. 2021)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, final

from pydantic import Field, model_validator

from raxalign.errors import RaxalignError
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.masked_lm import MaskedLMParams, read_pairs
from raxalign.methods.families.trained import Folders, Profiles, TrainedMethod
from raxalign.methods.rows.sentences import Bitexts
from raxalign.options.params import Removed

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.methods.objectives.ppa import PostPretraining
    from raxalign.train.loop import Fitted

_PROFILES: Profiles = {
    "paper": {"queue_start": "random", "normalize_z": False, "min_pieces": 10, "max_pieces": 128},
    "sane": {"queue_start": "full", "normalize_z": True, "min_pieces": 1, "max_pieces": 0},
}
_OF_MOCO = ("queue_size", "queue_start", "momentum", "temperature", "normalize_z", "projection")
_OF_TLM = ("mask_share", "mlm_for_tlm")


@final
class Ppa(TrainedMethod[Bitexts]):
    """Train the encoder so that [CLS] of a sentence is nearer to that of its translation than to
    those of other sentences (MoCo), and so that masked words of a sentence and its translation,
    read together, are predicted (TLM).

    Formula: L_MoCo + L_TLM. L_MoCo = mean over pairs of -log(e^(q·k/τ) / (e^(q·k/τ) + Σ_queue
    e^(q·k'/τ))), with q = g(f(x)) and k = g'(f'(y)), where g = W2 ReLU(W1 h) of the unit [CLS]
    vector h of the last layer, and f', g' are moving averages of f, g, of which a step keeps 0.999.
    Which sentence is x is random. L_TLM = mean over masked pieces of -log p(piece | [CLS] x [SEP] y
    [SEP]).

    Data: sentence pairs of all languages together, in random order; pairs of another length than
    `min_pieces` and `max_pieces` allow are left out. The queue holds the keys of the last
    `queue_size` pairs; those of a row's own pivot sentence are not negatives for it.

    `profile` fills in what is not given. `paper` is as printed: a queue of random unit vectors at
    the start, z as it leaves the projection, and sentences of 10 pieces at least, 128 both
    together. `sane` normalises z, as momentum contrast does elsewhere (else the logits hardly
    differ at first); holds L_MoCo back until the queue is full of real keys; and reads short and
    long sentences too. Dropout is on in both encoders. Rows of TLM are those of the method `tlm`,
    which is this one without MoCo. Only f is kept; g, f' and g' are dropped after training.

    Reference: Pan et al. (2021, §3); MoCo: He et al. (2020, Eq. 1-2); the queue's start: Chi et al.
    (2021).

    Relations: `sentence_margin` contrasts the sentences of a batch alone, without a queue and a
    second encoder, and predicts nothing; `tlm` is the other half.

    Example:
        methods:
          none: {}
          ppa: {profile: paper, epochs: 10}
          ppa_without_moco: {kind: ppa, profile: paper, moco: false, epochs: 10}
    """

    VERSION = 1
    name = "ppa"
    reads = "bitext"
    reference = "Pan et al. 2021; He et al. 2020"
    papers = ("pan2021", "he2020")
    profiles = _PROFILES

    class Params(MaskedLMParams):
        """Training is by AdamW."""

        profile: Literal["paper", "sane"] = Field("sane", description=wording.PROFILE)
        moco: bool = True
        """Whether L_MoCo, the contrast of sentences, is part of the loss."""
        tlm: bool = True
        """Whether L_TLM, the prediction of masked pieces, is part of the loss."""
        mlm_for_tlm: bool = False
        """Whether each sentence is read on its own for L_TLM, rather than together with its
        translation.
        """
        queue_size: int = Field(32_000, ge=1)
        """Number of earlier sentences, as keys in the queue, that a sentence is contrasted with."""
        temperature: float = Field(0.05, gt=0)
        """Temperature of the contrast, τ in the formula."""
        projection: int = Field(300, ge=1)
        """Number of coordinates of q and k."""
        min_pieces: int | None = Field(None, ge=1, description=wording.MIN_PIECES_OF_PAIR)
        max_pieces: int | None = Field(None, ge=0, description=wording.MAX_PIECES_OF_PAIR)
        batch_size: int = Field(128, ge=1, description=wording.BATCH_OF_PAIRS)
        removed: ClassVar = {
            "queue_start": Removed("leave it out: `profile` decides", None),
            "normalize_z": Removed("leave it out: `profile` decides", None),
            "momentum": Removed("leave it out: a step keeps 0.999 of the copies", 0.999),
        }

        @model_validator(mode="after")
        def _trains_something(self) -> Ppa.Params:
            if not (self.moco or self.tlm):
                raise ValueError(
                    "moco: false and tlm: false leave nothing to train; use the method `none`"
                )
            return self

    params: Params

    def needs(self) -> Needs:
        """Sentence pairs."""
        return replace(super().needs(), head=self.params.tlm)

    def idle(self) -> set[str]:
        """Those of a part that is left out."""
        idle = {*(() if self.params.moco else _OF_MOCO), *(() if self.params.tlm else _OF_TLM)}
        return super().idle() | idle

    def read(self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Folders) -> Bitexts:
        """Return the sentence pairs of all languages, without those of another length."""
        return read_pairs(self, encoder, inputs, folders)

    def objective(self, encoder: TransformerEncoder, rows: Bitexts, seed: int) -> PostPretraining:
        """Return L_MoCo + L_TLM. Raises `RaxalignError` where the queue would never be full."""
        from raxalign.methods.objectives.ppa import PostPretraining

        filled = self._filled_at(len(rows))
        objective = PostPretraining(encoder, rows, self.resolved(), seed)
        objective.comparable_from = filled
        return objective

    def notes(self, rows: Bitexts, objective: PostPretraining, fitted: Fitted) -> dict[str, object]:
        """Return what was counted, the losses, and the steps that the contrast was held back."""
        random = self.resolved()["queue_start"] == "random"
        held = 0 if random else objective.comparable_from
        notes = super().notes(rows, objective, fitted)
        return {**notes, "held_back": held, "first_loss": fitted.losses[held]}

    def _filled_at(self, n_rows: int) -> int:
        """The first step whose contrast is with a whole queue of keys, beyond the last step where
        there is none; 0 without a contrast. Raises `RaxalignError` where the contrast is held back
        for a queue that is never full.
        """
        from raxalign.methods.objectives.ppa import full_at

        params, settings = self.params, self.settings()
        if not params.moco:
            return 0
        first, last = full_at(n_rows, params.batch_size, settings.total(n_rows), params.queue_size)
        if self.resolved()["queue_start"] == "full" and params.queue_size > last:
            span = (
                f"{params.steps} steps of {params.batch_size}"
                if params.steps
                else f"{params.epochs} epochs of {n_rows}"
            )
            raise RaxalignError(
                f"ppa: the queue is never full: {span} sentence pairs put {last} keys into it"
                f" before the last step, and queue_size is {params.queue_size}. Give a smaller"
                f" queue_size, more {'steps' if params.steps else 'epochs'}, or profile: paper"
            )
        return first
