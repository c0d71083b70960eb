"""The contract of a corpus: where its sentence pairs come from, under which licence, and what their
identity is; and what corpora of local text files share.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from raxalign.corpora.readers.codes import ListName, own_code
from raxalign.corpora.text.words import divide_at_blanks
from raxalign.errors import DataError
from raxalign.options.params import LATER, BaseParams, Parts, PlugIn
from raxalign.options.sources import DataPath, Source, expand_path

_NUMBER = re.compile(r"(\d{1,18})(?:[ \t]|$)")
_FEW, _ENOUGH = 2, 1000  # lines: few show nothing, and more than enough are not looked at
WHOLE = ""  # the name of the only part of a corpus that has one


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A source sentence (the other language) and its translation in the pivot.

    `id` is its 0-based place in the corpus, counted before anything is dropped. Corpora that know
    better give words and links: `source_words` and `target_words` are then used as they are, in
    place of the tokeniser, and `links` are gold links (0-based).
    """

    id: int
    source: str
    target: str
    source_words: tuple[str, ...] | None = None
    target_words: tuple[str, ...] | None = None
    links: tuple[tuple[int, int], ...] | None = None

    def divided(self) -> SentencePair:
        """Return the pair with the words that blanks divide."""
        source, target = divide_at_blanks(self.source), divide_at_blanks(self.target)
        return replace(self, source_words=source, target_words=target)


@dataclass(frozen=True)
class CorpusInputs:
    """What a corpus may read: `locations`, a path or remote name for each name of its `sources`,
    and a folder for downloads that survives a kill.

    `digests` are the SHA-256s or revisions that the plan was made for, by the same names; remote
    data is checked against them.
    """

    locations: Mapping[str, str]
    downloads: Path
    digests: Mapping[str, str] = field(default_factory=dict)


class Corpus(PlugIn):
    """A source of sentence pairs. Subclasses are final, one per file, and import nothing heavy."""

    licence: ClassVar[str]

    PRETOKENIZED: ClassVar = (
        "Whether spaces separate the words of both sides, in every language; otherwise a tokeniser"
        " makes the words."
    )
    """What the option `pretokenized` of several corpora is."""
    CODES: ClassVar = (
        "The {} own codes for languages, by language (`{{nl: nld}}`), where they differ from those"
        " of the grid; or `flores` or `ntrex` for those of FLORES-200 or NTREX-128."
    )
    """What the option `codes` of several corpora is."""

    class Params(BaseParams):
        """The options of the source."""

    @abstractmethod
    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the outside data of one language pair, by name; empty without. Opens nothing."""

    @abstractmethod
    def read(self, lang: str, pivot: str, inputs: CorpusInputs) -> Iterator[SentencePair]:
        """Return all sentence pairs in the order of the corpus, untokenised unless it knows the
        words.

        Raises `DataError` with file and line for different line counts, invalid UTF-8, NUL bytes
        and an empty corpus. Blank sides are yielded (the bitext counts and drops them), so that ids
        and line numbers agree.
        """

    def part_sizes(self, lang: str, pivot: str, inputs: CorpusInputs) -> tuple[int, int]:
        """Count the sentence pairs of (test, dev) where these are files of their own; `read` then
        yields training, dev and test in this order.

        Raises `DataError` as `read` does, and where the corpus has no such files.
        """
        kind = type(self).__module__.rpartition(".")[2]
        raise DataError(kind, "this corpus has no files of its own for dev and test")

    def lacks(self, lang: str, pivot: str) -> str:
        """Return why there is no text of a pair, where that is known without looking at any file;
        else nothing.
        """
        return ""

    def n_pairs(self, lang: str, pivot: str, enough: int) -> int | None:
        """Count the sentence pairs up to `enough` (of the training file where dev and test have
        their own), or return None.

        It is None where counting takes a download, or where a file cannot be read. Lines are
        counted, not checked.
        """
        return None


class FileCorpus(Corpus):
    """A corpus of local text files. A subclass names them and reads one part; two that it calls
    ``source`` and ``target`` have equally many lines, which is checked before anything is made.
    """

    class Params(Corpus.Params):
        """The options of all corpora of local text files."""

        path: DataPath | Parts
        """Path of the file, or of one for each of `train`, `dev` and `test`; it may hold `{lang}`
        and `{pivot}`.
        """
        pretokenized: Annotated[bool, LATER] = Field(False, description=Corpus.PRETOKENIZED)
        codes: Annotated[dict[str, str] | ListName, LATER] = Field(
            default_factory=dict, description=Corpus.CODES.format("files'")
        )

    params: Params

    @abstractmethod
    def read_part(
        self, part: str, lang: str, pivot: str, inputs: CorpusInputs
    ) -> Iterator[SentencePair]:
        """Return the sentence pairs of one part with ids from 0, as `Corpus.read` yields them."""

    @staticmethod
    def source_name(part: str, name: str) -> str:
        """Return the name of a file of a part in `sources`: ``source``, or ``dev/source`` of a
        part.
        """
        return f"{part}/{name}" if part else name

    def parts(self) -> tuple[str, ...]:
        """Return the names of the parts in order: training, dev, test; `WHOLE` of one without."""
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
        """Yield the sentence pairs of all parts in order, streamed; ids run on between parts."""
        first = 0
        for part in self.parts():
            number, pairs = -1, self.read_part(part, lang, pivot, inputs)
            places = [str(p) for name, p in inputs.locations.items() if name.startswith(part)]
            for number, pair in enumerate(_unnumbered(pairs, places)):
                numbered = pair if first == 0 else replace(pair, id=first + number)
                yield numbered.divided() if self.params.pretokenized else numbered
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


def _unnumbered(pairs: Iterator[SentencePair], places: Sequence[str]) -> Iterator[SentencePair]:
    """Yield sentence pairs from one file or two. Raises `DataError` where each line of a side
    begins with its own number, as in the files of SimAlign.
    """
    first = list(islice(pairs, _ENOUGH))
    for place, side in ((places[0], "source"), (places[-1], "target")):
        found = [_NUMBER.match(getattr(pair, side)) for pair in first]
        apart = {m and int(m[1]) - n for n, m in enumerate(found)}
        if len(apart) == 1 and None not in apart and len(found) > _FEW:
            told = "each line begins with its own number, which would be read as a word"
            remedy = "Write the file without it (`cut -f 2-` where a tab follows)"
            raise DataError(place, told, line=1, remedy=remedy)
    yield from chain(first, pairs)
