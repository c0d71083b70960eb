"""What corpora of local text files share: parts, other codes for languages, and words that are
given.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from raxalign.config.params import LATER, Parts
from raxalign.config.sources import DataPath, expand_path
from raxalign.corpora.base import PRETOKENIZED, Corpus, CorpusInputs, SentencePair
from raxalign.corpora.readers.codes import ListName, own_code
from raxalign.corpora.text.words import divide_at_blanks

WHOLE = ""  # the name of the only part of a corpus that has one

_CODES = (
    "The files' own codes for languages, by language (`{nl: nld}`), where they differ from those of"
    " the grid; or `flores` or `ntrex` for those of FLORES-200 or NTREX-128."
)


class FileCorpus(Corpus):
    """A corpus of local text files. A subclass names them and reads one part."""

    class Params(Corpus.Params):
        """The options of all corpora of local text files."""

        path: DataPath | Parts = Field(
            description=(
                "Path of the file, or of one for each of `train`, `dev` and `test`; it may hold"
                " `{lang}` and `{pivot}`."
            )
        )
        pretokenized: Annotated[bool, LATER] = Field(False, description=PRETOKENIZED)
        codes: Annotated[dict[str, str] | ListName, LATER] = Field(
            default_factory=dict, description=_CODES
        )

    params: Params

    @abstractmethod
    def read_part(
        self, part: str, lang: str, pivot: str, inputs: CorpusInputs
    ) -> Iterator[SentencePair]:
        """Return the sentence pairs of one part with ids from 0, as `Corpus.read` yields them."""

    def parts(self) -> tuple[str, ...]:
        """Return the names of the parts in order: training, dev, test; `WHOLE` alone for a corpus
        that is one.
        """
        path = self.params.path
        return tuple(path.paths()) if isinstance(path, Parts) else (WHOLE,)

    def place(self, part: str, lang: str, pivot: str) -> Path:
        """Return the path of a part for one language pair."""
        path = self.params.path
        template = path.paths()[part] if isinstance(path, Parts) else path
        return expand_path(template, lang=self.code(lang), pivot=self.code(pivot))

    def code(self, lang: str) -> str:
        """Return what the files call a language."""
        return own_code(lang, self.params.codes)

    def read(self, lang: str, pivot: str, inputs: CorpusInputs) -> Iterator[SentencePair]:
        """Yield the sentence pairs of all parts in order, streamed; ids run on from one part to the
        next.
        """
        first = 0
        for part in self.parts():
            number = -1
            for number, pair in enumerate(self.read_part(part, lang, pivot, inputs)):
                numbered = pair if first == 0 else replace(pair, id=first + number)
                yield _with_words(numbered) if self.params.pretokenized else numbered
            first += number + 1

    def part_sizes(self, lang: str, pivot: str, inputs: CorpusInputs) -> tuple[int, int]:
        """Count the sentence pairs of (test, dev), which are read and checked for this; dev has
        none where it has no file.
        """
        if self.parts() == (WHOLE,):
            return super().part_sizes(lang, pivot, inputs)
        sizes = {
            part: sum(1 for _ in self.read_part(part, lang, pivot, inputs))
            for part in self.parts()
            if part != "train"
        }
        return sizes["test"], sizes.get("dev", 0)


def source_name(part: str, name: str) -> str:
    """Return the name of a file of a part in `sources`: ``source`` of the whole, ``dev/source`` of
    a part.
    """
    return f"{part}/{name}" if part else name


def _with_words(pair: SentencePair) -> SentencePair:
    return replace(
        pair, source_words=divide_at_blanks(pair.source), target_words=divide_at_blanks(pair.target)
    )
