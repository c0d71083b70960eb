"""Masked language modelling on text whose words are in part changed for translations from a
dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, final

from pydantic import Field

from raxalign.config.params import LATER
from raxalign.config.sources import DataPath, LocalFile, Source, expand_path
from raxalign.encoders.training.masking import chance_of
from raxalign.errors import RaxalignError
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.masked_lm import MaskedLMParams, train_masked_lm
from raxalign.methods.families.trained import TrainedMethod
from raxalign.methods.objectives.masked_lm import MIXING
from raxalign.methods.rows.switching import SwitchableText, read_switchable, switched_rows

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.methods.rows.sentences import Rows
    from raxalign.train.objective import Step
    from raxalign.train.runtime import Runtime


@final
class CodeSwitching(TrainedMethod):
    """Train the encoder to predict masked pieces of sentences in which some words stand in another
    language, so that words and their translations have the same contexts.

    Formula: mean over masked places m of -log p(x_m | [CLS] c(a) [SEP] with masks), where c changes
    words for translations.

    Data: monolingual text of every language and the pivot, and a dictionary (two words a line, the
    pivot's last), read both ways: words of the pivot are changed for words of the other languages,
    and theirs for the pivot's. Words are looked up lower-cased and put in as the dictionary writes
    them. With several languages one that knows the word is drawn first, then one of its
    translations, each as likely as another; what is drawn is drawn anew in each epoch. The notes
    count the words that have translations, and the entries that are in the texts.

    Reference: Qin et al. (2020, CoSDA-ML), with masked language modelling in place of a task's
    training.
    """

    VERSION = 1
    reference = "Qin et al. 2020"

    class Params(MaskedLMParams):
        """Training is by AdamW."""

        dictionary: DataPath = Field(
            description=(
                "File of a dictionary, two words per line, the pivot's last; its path may hold"
                " `{lang}` and `{pivot}`."
            )
        )
        swap: Annotated[bool, LATER] = Field(False, description=wording.SWAP)
        sentence_share: float = Field(
            1.0, ge=0, le=1, description="Probability that words of a sentence are changed at all."
        )
        switch_share: float = Field(
            0.5,
            ge=0,
            le=1,
            description=(
                "Probability that a word of such a sentence is changed, where the dictionary"
                " has it."
            ),
        )
        min_pieces: int = Field(1, ge=1, description=wording.MIN_PIECES)

    params: Params

    def needs(self) -> Needs:
        """Text."""
        return Needs(text=True)

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """The dictionary."""
        return {
            "dictionary": LocalFile(expand_path(self.params.dictionary, lang=lang, pivot=pivot))
        }

    def train(
        self, encoder: TransformerEncoder, inputs: MethodInputs, runtime: Runtime
    ) -> Mapping[str, object]:
        """Train; notes count sentences, words and those with a translation a language.

        Raises `RaxalignError` where the dictionary has no word of a language's text, or its sides
        are clearly the other way round.
        """
        from raxalign.corpora.readers.dictionary import read_dictionary

        params = self.params
        dictionaries = {
            lang: read_dictionary(inputs.files["dictionary"][lang], swap=params.swap)
            for lang in inputs.languages
        }
        entries = _entries_in_text(dictionaries, inputs, swap=params.swap)
        folders = {lang: inputs.text[lang] for lang in (*inputs.languages, inputs.pivot)}
        text = read_switchable(
            encoder, folders, dictionaries, inputs.pivot, params.max_length, params.min_pieces
        )
        coverage = text.coverage()
        for lang in inputs.languages:
            if not coverage[lang]["with_translation"]:
                raise RaxalignError(
                    f"code_switching: no word of the text of {lang} is in the dictionary"
                    f" {inputs.files['dictionary'][lang]}; look at its languages and their order"
                    f" ({lang} first, then {inputs.pivot})"
                )
        notes = train_masked_lm(
            encoder,
            lambda step: self.rows(text, step),
            len(text.numbers_R),
            params,
            runtime,
            "code_switching",
        )
        return {
            **{lang: {**counts, **entries.get(lang, {})} for lang, counts in coverage.items()},
            **notes,
        }

    def rows(self, text: SwitchableText, step: Step) -> Rows:
        """The rows of a global batch."""
        shares = {
            "sentence_share": self.params.sentence_share,
            "word_share": self.params.switch_share,
        }
        return switched_rows(text, step.rows, **shares, rng=chance_of(step, MIXING))


def _entries_in_text(
    dictionaries: Mapping[str, Sequence[tuple[str, str]]], inputs: MethodInputs, *, swap: bool
) -> dict[str, dict[str, int]]:
    """For each language the different entries, and how many of them have both words in the
    texts.
    """
    from raxalign.corpora.readers.dictionary import found_entries
    from raxalign.corpora.text.dataset import vocabulary

    pivot, counts = vocabulary(inputs.text[inputs.pivot], "words"), {}
    for lang, entries in dictionaries.items():
        path, words = (
            inputs.files["dictionary"][lang],
            (vocabulary(inputs.text[lang], "words"), pivot),
        )
        found = found_entries(path, entries, words, langs=(lang, inputs.pivot), swap=swap)
        counts[lang] = {
            "entries": len({(src.lower(), tgt.lower()) for src, tgt in entries}),
            "entries_in_text": found,
        }
    return counts
