"""Links that exist already: in a Pharaoh file made elsewhere, or the corpus's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from raxalign.arrays import Ints
from raxalign.corpora.readers.inspection import FileRead, Report, read_through
from raxalign.errors import DataError, RaxalignError
from raxalign.lazy import np
from raxalign.options.params import Removed
from raxalign.options.sources import DataPath, LocalFile, Source, expand_path
from raxalign.pairing.aligners.base import AlignerInputs, WordAligner
from raxalign.pairing.links import Links
from raxalign.pairing.words import Words

_NOT_OWN = (
    "{place}: these links count words, but the words of this text were made here by a tokeniser, so"
    " that links would land on other words. If spaces separate the words of the corpus, set"
    " `pretokenized: true` for it; if the links count the tokeniser's words, set `words: any` for"
    " the word aligner"
)


class GivenLinks(WordAligner):
    """Takes links from a Pharaoh file with one line for each line of the corpus, or, without a
    path, the corpus's gold links.

    Forward and reverse links are both what is given, so that no symmetrisation changes them. Links
    count the words of a text, so the text has to come in words: `pretokenized: true` for files
    whose words spaces separate. Text that a tokeniser divided is refused.

    Data: the links of all sentence pairs of the corpus.

    Relations: Choose it for gold links, or for those of a program of your own; all other word
    aligners make links.

    Example:
        corpus:
          source: tsv
          path: "gold/{lang}-{pivot}.src-tgt"
          delimiter: "|||"
          pretokenized: true
        pairs: {aligner: links, path: "gold/{lang}-{pivot}.gold", first: 1}
    """

    VERSION: ClassVar[int] = 1

    class Params(WordAligner.Params):
        """Where the links are and how they are written.

        With `words: any`, nothing but the range of the positions is checked.
        """

        path: DataPath | None = None
        """Pharaoh file of the links (none: the corpus's own links); its path may hold `{lang}` and
        `{pivot}`.
        """
        first: Literal[0, 1] = 0
        """Number of the first word of a sentence in the file."""
        removed: ClassVar = {
            "possible": Removed("leave it out: possible links (`ipj`) count as all do", "keep")
        }
        swap: bool = False
        """Whether the pivot's position comes first in a link of the file."""
        words: Literal["own", "any"] = "own"
        """Which words the links may count: those of the corpus (`own`), or those that a tokeniser
        made here too (`any`).
        """

    params: Params

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """The file of links, if one is named."""
        if self.params.path is None:
            return {}
        return {"links": LocalFile(expand_path(self.params.path, lang=lang, pivot=pivot))}

    def read_files(self, lang: str, pivot: str) -> Iterator[FileRead]:
        """Read the file of links, one line per sentence pair; whether each link is inside its
        sentences is checked when the corpus is read.
        """
        for source in self.sources(lang, pivot).values():
            if isinstance(source, LocalFile):
                yield read_through(source.path, partial(_lines, source.path))

    def align(
        self, src: Sequence[Sequence[str]], tgt: Sequence[Sequence[str]], inputs: AlignerInputs
    ) -> tuple[Links, Links]:
        """The given links, twice.

        Raises `DataError` with the file and line of a link that is outside its sentences, and
        `RaxalignError` for text whose words a tokeniser made.
        """
        if self.params.path is None and inputs.gold is None:
            raise RaxalignError(
                "aligner `links` without a `path` takes the corpus's own links, and this corpus has"
                " none; give a Pharaoh file"
            )
        if self.params.words == "own" and not inputs.own_words:
            raise RaxalignError(
                _NOT_OWN.format(place=inputs.locations.get("links", "the corpus's own links"))
            )
        if self.params.path is None:
            assert inputs.gold is not None
            return inputs.gold, inputs.gold
        sides = Words.of(src).lengths, Words.of(tgt).lengths
        links = self._read(Path(inputs.locations["links"]), np.asarray(inputs.ids, np.int64), sides)
        return links, links

    def _read(self, path: Path, ids: Ints, lengths: tuple[Ints, Ints]) -> Links:
        """The links of the lines `ids` by 0-based (source, target) positions, unwanted ones left
        out; lines of sentences that were dropped are passed over.
        """
        links, _ = Links.read_marked(path)
        needed, first = int(ids.max(initial=-1)) + 1, np.int32(self.params.first)
        if needed > len(links):
            fault = f"has {len(links)} lines, the corpus has at least {needed}"
            raise DataError(path, fault, remedy="One line per sentence pair is needed")
        links = links.swapped() if self.params.swap else links
        links = Links(links.offsets, links.src - first, links.tgt - first).take(ids)
        k = links.outside(*lengths)
        if k is not None:
            row, swap = int(links.rows()[k]), self.params.swap
            places = [str(side[k] + first) for side in (links.src, links.tgt)]
            link = "-".join(places[::-1] if swap else places)
            sizes = f"{lengths[0][row]} and {lengths[1][row]} words, counted from {first}"
            fault = f"link {link} is out of range: the sentences have {sizes}"
            remedy = f"If the file counts from {1 - first}, set `first: {1 - first}`; if the pivot"
            remedy += f" comes first in it, `swap: {str(not swap).lower()}`"
            raise DataError(path, fault, line=int(ids[row]) + 1, remedy=remedy)
        return links


def _lines(path: Path, _: Report) -> int:
    return len(Links.read_marked(path)[0])
