"""Masked language modelling of single sentences (Devlin et al. 2019): what more training without
translations does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

import numpy as np
from pydantic import Field

from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.masked_lm import MaskedLMMethod, MaskedLMParams, MaskedText
from raxalign.methods.rows.sentences import Sentences, single_rows
from raxalign.methods.rows.tokenised import read_bitexts, read_texts

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.train.runtime import Runtime


@final
class Mlm(MaskedLMMethod):
    """Train the encoder on, as it was pre-trained: masked pieces of single sentences are predicted.

    Formula: mean over masked places m of -log p(x_m | [CLS] a [SEP] with masks).

    Data: monolingual text of every language and the pivot (`data: text`), or both sides of the
    sentence pairs as single sentences (`bitext`): the same sentences as `tlm` has, without their
    translations in sight. All languages stand together in random order.

    Reference: Devlin et al. (2019); settings of Pan et al. (2021).
    """

    VERSION = 1
    reference = "Devlin et al. 2019; Pan et al. 2021"
    papers = ("devlin2019", "pan2021")

    class Params(MaskedLMParams):
        """Training is by AdamW. With `data: bitext`, `min_pieces` leaves out whole pairs that have
        a shorter side.
        """

        data: Literal["text", "bitext"] = Field(
            "text",
            description="Which sentences are read: monolingual text, or both sides of the bitext.",
        )
        min_pieces: int = Field(1, ge=1, description=wording.MIN_PIECES)

    params: Params

    def needs(self) -> Needs:
        """Text, or sentence pairs."""
        text = self.params.data == "text"
        return Needs(text=text, bitext=not text, dev=self.selects(), head=True, pieces=True)

    def train(
        self, encoder: TransformerEncoder, inputs: MethodInputs, runtime: Runtime
    ) -> Mapping[str, object]:
        """Train; notes count sentences per language."""
        sentences, numbers = self.sentences(encoder, inputs)
        counts = np.bincount(
            sentences.langs_S[numbers], minlength=len(sentences.languages)
        ).tolist()
        notes = self.train_on(
            encoder,
            _text(sentences, numbers),
            runtime,
            "mlm",
            dev=lambda: _text(*self._both_sides(encoder, inputs, inputs.dev)),
        )
        by_language = {
            lang: {"sentences": count}
            for lang, count in zip(sentences.languages, counts, strict=True)
        }
        return {**by_language, **notes}

    def sentences(
        self, encoder: TransformerEncoder, inputs: MethodInputs
    ) -> tuple[Sentences, np.ndarray]:
        """Return what is read, and the numbers of the sentences that are trained on."""
        if self.params.data == "bitext":
            return self._both_sides(encoder, inputs, inputs.bitext)
        folders = {lang: inputs.text[lang] for lang in (*inputs.languages, inputs.pivot)}
        sentences = read_texts(
            encoder, folders, self.params.max_length, min_pieces=self.params.min_pieces
        )
        return sentences, np.arange(len(sentences))

    def _both_sides(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> tuple[Sentences, np.ndarray]:
        """The sentences of both sides of bitexts, and their numbers, each side after the other."""
        bitexts = read_bitexts(
            encoder,
            {lang: folders[lang] for lang in inputs.languages},
            inputs.pivot,
            self.params.max_length,
            min_pieces=self.params.min_pieces,
        )
        return bitexts.sentences, np.concatenate([bitexts.src_P, bitexts.tgt_P])


def _text(sentences: Sentences, numbers: np.ndarray) -> MaskedText:
    """Rows of single sentences."""
    return MaskedText(lambda step: single_rows(sentences, numbers[step.rows]), len(numbers))
