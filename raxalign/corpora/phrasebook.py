"""The phrasebook: parallel sentences in six languages, with gold links; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import Field, model_validator

from raxalign.config.params import BaseParams
from raxalign.config.sources import Source
from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.corpora.phrases.rows import LANGS, detokenized, held, links, sentences
from raxalign.errors import DataError
from raxalign.languages import spelled


class Phrasebook(Corpus):
    """Made-up but correct sentences with word order, agreement and ambiguity worth aligning; the
    same id is the same sentence in all languages. There are 13,000 with `seed: 0` and 3,000 with
    `seed: 1`, which are part of the package.
    """

    VERSION = 1
    licence = "Apache-2.0, part of raxalign"

    class Params(BaseParams):
        """The sentence pairs of a smaller `size` are the first ones of a larger."""

        size: int = Field(12_000, ge=1, description="Number of sentence pairs.")
        seed: int = Field(0, ge=0, description="Seed that the sentences were drawn by.")

        @model_validator(mode="after")
        def _there(self) -> Phrasebook.Params:
            most = held("sentences")
            if self.size > most.get(str(self.seed), 0):
                seeds = " and ".join(f"{n:,} with seed {seed}" for seed, n in most.items())
                raise ValueError(
                    f"the phrasebook has {seeds}, not {self.size:,} sentences with seed"
                    f" {self.seed}; ask for fewer, or name text of your own (`source: moses`)"
                )
            return self

    @property
    def _options(self) -> Phrasebook.Params:
        return cast(Phrasebook.Params, self.params)

    # - the contract's signature
    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:  # noqa: ARG002
        """Nothing from outside."""
        return {}

    # - the contract's signature
    def n_pairs(self, lang: str, pivot: str, enough: int) -> int | None:  # noqa: ARG002
        """As many as `size` says."""
        return self._options.size

    # - the contract's signature
    def read(self, lang: str, pivot: str, inputs: CorpusInputs) -> Iterator[SentencePair]:  # noqa: ARG002
        """Return all pairs, with their words and gold links.

        Raises: DataError: a language that the phrasebook does not have.
        """
        for code in (lang, pivot):
            if spelled(code, LANGS) is None:
                raise DataError(
                    "phrasebook", f"has no {code!r}", remedy=f"its languages are {', '.join(LANGS)}"
                )
        return self._pairs(spelled(lang, LANGS) or lang, spelled(pivot, LANGS) or pivot)

    def _pairs(self, lang: str, pivot: str) -> Iterator[SentencePair]:
        found = sentences((lang, pivot), self._options.size, self._options.seed)
        for number, (source, target) in enumerate(found):
            yield SentencePair(
                number,
                detokenized(source.words),
                detokenized(target.words),
                source.words,
                target.words,
                links(source.senses, target.senses),
            )
