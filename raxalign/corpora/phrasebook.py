"""The phrasebook: parallel sentences in six languages, with gold links; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field, model_validator

from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.corpora.phrases.rows import LANGS, detokenized, held, links, sentences
from raxalign.errors import DataError
from raxalign.languages import spelled
from raxalign.options.sources import Source


class PhrasebookCorpus(Corpus):
    """Made-up but correct sentences with word order, agreement and ambiguity worth aligning; the
    same id is the same sentence in all languages. There are 13,000 with `seed: 0` and 3,000 with
    `seed: 1`, which are part of the package.

    Relations: The corpus of the encoder `phrasebook`, for trying things out; `moses` and `tsv` read
    text of your own.

    Example:
        corpus:
          source: phrasebook
          size: 3_000
          split: {test: 300, dev: 200}
    """

    VERSION = 1
    licence = "Apache-2.0, part of raxalign"

    class Params(Corpus.Params):
        """The sentence pairs of a smaller `size` are the first ones of a larger."""

        size: int = Field(12_000, ge=1)
        """Number of sentence pairs."""
        seed: int = Field(0, ge=0)
        """Seed that the sentences were drawn by."""

        @model_validator(mode="after")
        def _there(self) -> PhrasebookCorpus.Params:
            most = held("sentences")
            if self.size > most.get(str(self.seed), 0):
                seeds = " and ".join(f"{n:,} with seed {seed}" for seed, n in most.items())
                raise ValueError(
                    f"the phrasebook has {seeds}, not {self.size:,} sentences with seed"
                    f" {self.seed}; ask for fewer, or name text of your own (`source: moses`)"
                )
            return self

    params: Params

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:  # noqa: ARG002
        """Return nothing: the rows are part of the package."""
        return {}

    def lacks(self, lang: str, pivot: str) -> str:
        """Return which of two languages the phrasebook does not have."""
        missing = [code for code in (lang, pivot) if spelled(code, LANGS) is None]
        told = f"the phrasebook has no {' and no '.join(missing)}; it has {', '.join(LANGS)}"
        return told if missing else ""

    def n_pairs(self, lang: str, pivot: str, enough: int) -> int | None:  # noqa: ARG002
        """Return `size`."""
        return self.params.size

    def read(self, lang: str, pivot: str, inputs: CorpusInputs) -> Iterator[SentencePair]:  # noqa: ARG002
        """Return all pairs, with words and gold links. Raises `DataError` for another language."""
        if told := self.lacks(lang, pivot):
            raise DataError("phrasebook", told)
        return self._pairs([spelled(code, LANGS) or code for code in (lang, pivot)])

    def _pairs(self, langs: Sequence[str]) -> Iterator[SentencePair]:
        found = sentences(langs, self.params.size, self.params.seed)
        for number, (source, target) in enumerate(found):
            yield SentencePair(
                number,
                detokenized(source.words),
                detokenized(target.words),
                source.words,
                target.words,
                links(source.senses, target.senses),
            )
