"""Masked language modelling of single sentences (Devlin et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, final

from pydantic import Field

from raxalign.encoders.models.rows import Rows, RowSource
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.lazy import np
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.rows import Bitexts, read_texts
from raxalign.methods.families.trained import MaskedLMMethod
from raxalign.train.objective import Step


@final
class Mlm(MaskedLMMethod[RowSource]):
    """Train the encoder on, as it was pre-trained: masked tokens of single sentences are predicted.

    Formula: mean over masked places m of -log p(x_m | [CLS] a [SEP] with masks).

    Data: monolingual text of every language and the pivot (`data: text`), or both sides of the
    sentence pairs as single sentences (`bitext`): the same sentences as `tlm` has, without their
    translations in sight. All languages stand together in random order.

    Reference: Devlin et al. (2019); settings of Pan et al. (2021).

    Relations: The control of `tlm` with `data: bitext`; else further pre-training where there are
    no translations. `code_switching` adds a dictionary.

    Example:
        methods:
          none: {}
          mlm: {data: bitext, epochs: 1}
    """

    VERSION = 1
    name = "mlm"
    reference = "Devlin et al. 2019; Pan et al. 2021"
    papers = ("devlin2019", "pan2021")

    class Params(MaskedLMMethod.Params):
        """Training is by AdamW. With `data: bitext`, `min_pieces` leaves out whole pairs that have
        a shorter side.
        """

        data: Literal["text", "bitext"] = "text"
        """Which sentences are read: monolingual text, or both sides of the bitext."""
        min_pieces: int = Field(1, ge=1, description=wording.MIN_PIECES)

    params: Params

    def needs(self) -> Needs:
        """Text, or sentence pairs."""
        text = self.params.data == "text"
        return Needs(text=text, bitext=not text, dev=self.selects(), head=True, pieces=True)

    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> RowSource:
        """Return the sentences of all languages."""
        length, least = self.params.max_length, self.params.min_pieces
        if inputs.pivot in folders:  # text, which the dev part never is
            return read_texts(encoder, folders, length, min_pieces=least)
        bitexts = Bitexts.read(encoder, folders, inputs.pivot, length, (least, None))
        return RowSource(bitexts.sentences, bitexts.sides(np.arange(len(bitexts))))

    def batch_of(self, rows: RowSource, step: Step) -> Rows:
        """Return rows of single sentences."""
        return rows.sentences.single_rows(rows.numbers_R[step.rows])

    def counts(self, rows: RowSource) -> dict[str, object]:
        """Return the number of sentences of each language."""
        languages = rows.sentences.languages
        langs_R = rows.sentences.langs_S[rows.numbers_R]
        counts = np.bincount(langs_R, minlength=len(languages)).tolist()
        named = zip(languages, counts, strict=True)
        return {**super().counts(rows), **{lang: {"sentences": n} for lang, n in named}}
