"""Masked words of a sentence pair are predicted from both sentences."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, final

from pydantic import Field, model_validator

from raxalign.encoders.models.rows import Rows
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.lazy import np
from raxalign.methods.base import MethodInputs
from raxalign.methods.families import wording
from raxalign.methods.families.rows import Bitexts
from raxalign.methods.families.trained import MaskedLMMethod
from raxalign.options.params import LATER
from raxalign.train.chance import Stream
from raxalign.train.objective import Step

_PROFILES = {
    "paper": {"min_pieces": 10, "max_pieces": 128},
    "sane": {"min_pieces": 1, "max_pieces": 0},
}


@final
class Tlm(MaskedLMMethod[Bitexts]):
    """Train the encoder to predict masked tokens of sentence pairs, which it reads together, so
    that it looks for them in the translation.

    Formula: mean over masked places m of -log p(x_m | [CLS] a [SEP] b [SEP] with masks).

    Data: sentence pairs of the bitext, of all languages together. Positions run on through both
    sentences and there are no language embeddings, as in Pan et al. and WEAM, unlike in XLM; the
    two sentences have the encoder's two token types.

    `profile` fills in what is not given: `paper` leaves out pairs with a side of less than 10
    subword tokens or more than 128 in all, as Pan et al. do; `sane` reads all pairs, and the longer
    sentence of those that are too long loses its end first.

    Reference: Conneau and Lample (2019); settings of Pan et al. (2021), of whose method this is the
    ablation without MoCo.

    Relations: `mlm` with `data: bitext` is the control without translations in sight; `ppa` adds a
    contrast of sentences, `weam` word links.

    Example:
        methods:
          none: {}
          tlm: {profile: sane, epochs: 1, batch_size: 32}
    """

    VERSION = 1
    name = "tlm"
    reads = "bitext"
    predicts = True
    reference = "Conneau and Lample 2019; Pan et al. 2021"
    papers = ("conneau2019", "pan2021")
    profiles = _PROFILES

    class Params(MaskedLMMethod.Params):
        """Training is by AdamW."""

        profile: Literal["paper", "sane"] = Field("sane", description=wording.PROFILE)
        random_order: bool = True
        """Whether the order of the two sentences is drawn anew each time, rather than the pivot's
        last.
        """
        pivot_first: Annotated[bool, LATER] = False
        """Whether the pivot's sentence is the first of the two, as in `weam`; requires
        `random_order: false`.
        """
        min_pieces: int | None = Field(None, ge=1, description=wording.MIN_PIECES_OF_PAIR)
        max_pieces: int | None = Field(None, ge=0, description=wording.MAX_PIECES_OF_PAIR)
        batch_size: int = Field(128, ge=1, description=wording.BATCH_OF_PAIRS)
        max_length: int = Field(128, ge=8, description=wording.PAIR_LENGTH)

        @model_validator(mode="after")
        def _one_order(self) -> Self:
            if self.pivot_first and self.random_order:
                raise ValueError(
                    "`pivot_first: true` fixes the order of the two sentences; write"
                    " `random_order: false` too"
                )
            return self

    params: Params

    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> Bitexts:
        """Return the sentence pairs of all languages, without those of another length."""
        return self.read_pairs(encoder, folders, inputs.pivot)

    def batch_of(self, rows: Bitexts, step: Step) -> Rows:
        """Return the rows of a global batch."""
        src, tgt = rows.src_P[step.rows], rows.tgt_P[step.rows]
        if not self.params.random_order:
            first, second = (tgt, src) if self.params.pivot_first else (src, tgt)
            return rows.sentences.joint_rows(first, second)
        turned = step.generator(Stream.MIXING).random(len(src)) < 0.5
        return rows.sentences.joint_rows(np.where(turned, tgt, src), np.where(turned, src, tgt))
