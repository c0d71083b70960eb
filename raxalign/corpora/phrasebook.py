"""The phrasebook: parallel sentences in six languages from a small grammar, with gold links;
nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import Field

from raxalign.config.params import BaseParams
from raxalign.config.sources import Source
from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.corpora.grammar import LANGS, capacity, detokenized
from raxalign.corpora.grammar.compose import tokens
from raxalign.corpora.grammar.sentences import links, meaning
from raxalign.errors import DataError
from raxalign.languages import spelled


class Phrasebook(Corpus):
    """Made-up but correct sentences with word order, agreement and ambiguity worth aligning; the
    same id is the same sentence in all languages.
    """

    VERSION = 1
    licence = "Apache-2.0, part of raxalign"

    class Params(BaseParams):
        """The sentence pairs of a smaller `size` are the first ones of a larger."""

        size: int = Field(12_000, ge=1, description="Number of sentence pairs.")
        seed: int = Field(0, ge=0, description="Seed that the sentences are drawn by.")

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

        Raises: DataError: a language that the grammar does not have, or more sentences than it can
        make different.
        """
        for code in (lang, pivot):
            if spelled(code, LANGS) is None:
                raise DataError(
                    "phrasebook", f"has no {code!r}", remedy=f"its languages are {', '.join(LANGS)}"
                )
        if self._options.size > capacity():
            raise DataError(
                "phrasebook",
                f"has {capacity()} different sentences, not {self._options.size}",
                remedy="ask for a smaller size",
            )
        return self._pairs(spelled(lang, LANGS) or lang, spelled(pivot, LANGS) or pivot)

    def _pairs(self, lang: str, pivot: str) -> Iterator[SentencePair]:
        seed = self._options.seed
        for number in range(self._options.size):
            said = meaning(number, seed)
            source, source_senses = zip(*[token[:2] for token in tokens(lang, said)], strict=True)
            target, target_senses = zip(*[token[:2] for token in tokens(pivot, said)], strict=True)
            yield SentencePair(
                number,
                detokenized(source),
                detokenized(target),
                source,
                target,
                links(source_senses, target_senses),
            )
