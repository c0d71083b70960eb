"""Masked language modelling on text whose words are in part changed for translations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, final

from pydantic import Field

from raxalign.config.params import LATER
from raxalign.config.sources import DataPath, LocalFile, Source, expand_path
from raxalign.corpora.readers.dictionary import DictionaryFile, read_dictionary
from raxalign.corpora.text.dataset import word_counts
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.training.masking import chance_of
from raxalign.errors import RaxalignError
from raxalign.methods.base import MethodInputs
from raxalign.methods.families import wording
from raxalign.methods.families.masked_lm import MaskedLMMethod, MaskedLMParams
from raxalign.methods.families.trained import Folders
from raxalign.methods.rows.sentences import Rows
from raxalign.methods.rows.switching import Entries, SwitchableText, read_switchable, switched_rows
from raxalign.train.chance import MIXING
from raxalign.train.objective import Step


@final
class CodeSwitching(MaskedLMMethod[SwitchableText]):
    """Train the encoder to predict masked pieces of sentences in which some words stand in another
    language, so that words and their translations have the same contexts.

    Formula: mean over masked places m of -log p(x_m | [CLS] c(a) [SEP] with masks), where c changes
    words for translations.

    Data: monolingual text of every language and the pivot, and a dictionary (two words per line,
    the pivot's last), read both ways: words of the pivot are changed for words of the other
    languages, and theirs for the pivot's. Words are looked up in lower case and put in as the
    dictionary writes them. With several languages one that knows the word is drawn first, then one
    of its translations, each as likely as another; what is drawn is drawn anew in each epoch. The
    notes count the words that have translations, and the entries that are in the texts.

    Reference: Qin et al. (2020, CoSDA-ML), with masked language modelling in place of a task's
    training.
    """

    VERSION = 2
    name = "code_switching"
    reads = "text"
    predicts = True
    reference = "Qin et al. 2020"
    papers = ("qin2020",)

    class Params(MaskedLMParams):
        """Training is by AdamW."""

        dictionary: DataPath
        """File of a dictionary, two words per line, the pivot's last; its path may hold `{lang}`
        and `{pivot}`.
        """
        swap: Annotated[bool, LATER] = Field(False, description=wording.SWAP)
        sentence_share: float = Field(1.0, ge=0, le=1)
        """Probability that words of a sentence are changed at all."""
        switch_share: float = Field(0.5, ge=0, le=1)
        """Probability that a word of such a sentence is changed, where the dictionary has it."""
        min_pieces: int = Field(1, ge=1, description=wording.MIN_PIECES)

    params: Params

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the dictionary."""
        return {
            "dictionary": LocalFile(expand_path(self.params.dictionary, lang=lang, pivot=pivot))
        }

    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Folders
    ) -> SwitchableText:
        """Return the text of all languages and the pivot, with its words looked up.

        Raises `RaxalignError` where the dictionary has no word of a language's text, or where its
        two sides are clearly in the other order.
        """
        entries = _coverage(inputs, swap=self.params.swap)
        text = replace(self._looked_up(encoder, inputs, folders), entries=entries)
        coverage = text.coverage()
        for lang in inputs.languages:
            if not coverage[lang]["with_translation"]:
                raise RaxalignError(
                    f"code_switching: no word of the text of {lang} is in the dictionary"
                    f" {inputs.files['dictionary'][lang]}; look at its languages and their order"
                    f" ({lang} first, then {inputs.pivot})"
                )
        return text

    def read_dev(self, encoder: TransformerEncoder, inputs: MethodInputs) -> SwitchableText:
        """Return the sentences of both sides of the dev part, whatever words they have."""
        with TemporaryDirectory(prefix="raxalign-") as work:
            return self._looked_up(encoder, inputs, _dev_text(inputs, Path(work)))

    def batch_of(self, rows: SwitchableText, step: Step) -> Rows:
        """Return rows of sentences with words in another language."""
        return switched_rows(
            rows,
            step.rows,
            sentence_share=self.params.sentence_share,
            word_share=self.params.switch_share,
            rng=chance_of(step, MIXING),
        )

    def counts(self, rows: SwitchableText) -> dict[str, object]:
        """Return the numbers of sentences, words, translated ones, and entries of each language."""
        return {**super().counts(rows), **rows.coverage()}

    def _looked_up(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Folders
    ) -> SwitchableText:
        pivot, params = inputs.pivot, self.params
        sizes = params.max_length, params.min_pieces
        return read_switchable(encoder, folders, self._dictionaries(inputs), pivot, *sizes)

    def _dictionaries(self, inputs: MethodInputs) -> Entries:
        return {
            lang: read_dictionary(inputs.files["dictionary"][lang], swap=self.params.swap)
            for lang in inputs.languages
        }


def _dev_text(inputs: MethodInputs, work: Path) -> dict[str, Path]:
    """The sentences of the dev part as text of each language and the pivot, written in `work`."""
    from raxalign.corpora.text.bitext import write_text

    for lang in inputs.languages:
        write_text([inputs.dev[lang]], "src", work / lang)
    write_text([inputs.dev[lang] for lang in inputs.languages], "tgt", work / inputs.pivot)
    return {lang: work / lang / "data" for lang in (*inputs.languages, inputs.pivot)}


def _coverage(inputs: MethodInputs, *, swap: bool) -> dict[str, dict[str, Any]]:
    """For each language what of its dictionary is in the texts."""
    pivot, found = word_counts(inputs.text[inputs.pivot], "words", inputs.pivot), {}
    for lang in inputs.languages:
        path, langs = inputs.files["dictionary"][lang], (lang, inputs.pivot)
        counts = word_counts(inputs.text[lang], "words", lang), pivot
        found[lang] = DictionaryFile.read(path, langs, swap=swap).coverage(counts)
    return found
