"""Links that exist already: in a Pharaoh file made elsewhere, or the corpus's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from raxalign.arrays import Ints, offsets_of
from raxalign.config.sources import DataPath, LocalFile, Source, expand_path
from raxalign.corpora.readers.inspection import FileRead, Report, read_through
from raxalign.errors import DataError, RaxalignError
from raxalign.pairing.aligners.base import AlignerInputs, Links, WordAligner
from raxalign.pairing.pharaoh import PharaohBlock, read_blocks
from raxalign.pairing.words import Words

_NOT_OWN = (
    "{place}: these links count words, but the words of this text were made here by a tokeniser, so"
    " that links would land on other words. If blanks divide the words of the corpus, set"
    " `pretokenized: true` for it; if the links count the tokeniser's words, set `words: any` for"
    " the word aligner"
)

_PATH = (
    "Pharaoh file of the links (none: the corpus's own links); its path may hold `{lang}` and"
    " `{pivot}`."
)
_WORDS = (
    "Which words the links may count: those of the corpus (`own`), or those that a tokeniser made"
    " here too (`any`)."
)


class GivenLinks(WordAligner):
    """Takes links from a Pharaoh file with one line for each line of the corpus, or, without a
    path, the corpus's gold links.

    Forward and reverse links are both what is given, so that no symmetrisation changes them. Links
    count the words of a text, so the text has to come in words: `pretokenized: true` for files
    whose words blanks divide. Text that a tokeniser divided is refused.
    """

    VERSION: ClassVar[int] = 1

    class Params(WordAligner.Params):
        """Where the links are and how they are written.

        With `words: any`, nothing but the range of the positions is checked.
        """

        path: DataPath | None = Field(None, description=_PATH)
        first: Literal[0, 1] = Field(
            0, description="Number of the first word of a sentence in the file."
        )
        possible: Literal["drop", "keep"] = Field(
            "keep",
            description=(
                "Whether possible links, which are written `ipj`, count (`keep`) or not (`drop`)."
            ),
        )
        swap: bool = Field(
            False, description="Whether the pivot's position comes first in a link of the file."
        )
        words: Literal["own", "any"] = Field("own", description=_WORDS)

    params: Params

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """The file of links, if one is named."""
        return (
            {}
            if self.params.path is None
            else {"links": LocalFile(expand_path(self.params.path, lang=lang, pivot=pivot))}
        )

    def read_files(self, lang: str, pivot: str) -> Iterator[FileRead]:
        """Reads the file of links, one line per sentence pair; whether each link is inside its
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
        sizes = _Sizes(
            np.asarray(inputs.ids, np.int64), Words.of(src).lengths, Words.of(tgt).lengths
        )
        links = self._read(Path(inputs.locations["links"]), sizes)
        return links, links

    def _read(self, path: Path, sizes: _Sizes) -> Links:
        """The links of the lines `sizes.ids`, in that order; lines of sentences that were dropped
        are passed over.
        """
        order = np.argsort(sizes.ids, kind="stable")
        wanted, parts, line = sizes.ids[order], [], 0
        for block in read_blocks(path):
            a, b = np.searchsorted(wanted, (line, line + len(block.links)))
            part = self._oriented(block).take(wanted[a:b] - line)
            self._require_inside(part, order[a:b], sizes, path)
            parts.append(part)
            line += len(block.links)
        if len(wanted) and int(wanted[-1]) >= line:
            raise DataError(
                path,
                f"has {line} lines, the corpus has at least {int(wanted[-1]) + 1}",
                remedy="One line a sentence pair is needed",
            )
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return Links.join(parts).take(back)

    def _oriented(self, block: PharaohBlock) -> Links:
        """Links by 0-based (source, target) positions, unwanted ones left out."""
        links, first = block.links, np.int32(self.params.first)
        keep = (
            ~block.possible if self.params.possible == "drop" else np.ones(len(links.src), np.bool_)
        )
        counted = offsets_of(keep)
        src, tgt = (links.tgt, links.src) if self.params.swap else (links.src, links.tgt)
        return Links(counted[links.offsets], src[keep] - first, tgt[keep] - first)

    def _require_inside(self, links: Links, rows: Ints, sizes: _Sizes, path: Path) -> None:
        row = rows[links.rows()]
        outside = (
            (links.src < 0)
            | (links.tgt < 0)
            | (links.src >= sizes.src[row])
            | (links.tgt >= sizes.tgt[row])
        )
        if not outside.any():
            return
        k, first = int(np.argmax(outside)), self.params.first
        s, t = int(links.src[k]), int(links.tgt[k])
        written = f"{t + first}-{s + first}" if self.params.swap else f"{s + first}-{t + first}"
        problem = (
            f"link {written} is out of range: the sentences have {sizes.src[row[k]]} and"
            f" {sizes.tgt[row[k]]} words, counted from {first}"
        )
        remedy = (
            f"If the file counts from {1 - first}, set `first: {1 - first}`; if the pivot comes"
            f" first in it, `swap: {not self.params.swap}`"
        )
        raise DataError(
            path,
            problem,
            line=int(sizes.ids[row[k]]) + 1,
            remedy=remedy.replace("True", "true").replace("False", "false"),
        )


def _lines(path: Path, _: Report) -> int:
    return sum(len(block.links) for block in read_blocks(path))


@dataclass(frozen=True)
class _Sizes:
    """The sentence pairs to be linked: their lines (0-based), and their numbers of words."""

    ids: Ints
    src: Ints
    tgt: Ints
