"""Sentence pairs of a task's own, in files that are parallel by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from raxalign.catalog import catalog
from raxalign.config.params import LATER, BaseParams, Removed
from raxalign.config.sources import DataPrefix, LocalFile
from raxalign.corpora.base import CODES, CorpusInputs, FileCorpus
from raxalign.corpora.readers.codes import ListName
from raxalign.corpora.readers.inspection import FileRead, Report, read_through
from raxalign.corpora.text.words import given_words, tokenize, within_text
from raxalign.errors import DataError
from raxalign.lazy import np
from raxalign.tasks.vectors.pairs import SentencePairs

_PATH = (
    "Path of the {} sentences, up to the extension that is the code of a language, or with"
    " `{{side}}` in place of that code, as of the corpus `moses`{}."
)


class SentenceFiles(BaseParams):
    """Two files per language pair and split, of which line k of one translates line k of the other.

    FLORES-200 is `test: "flores200_dataset/devtest/{side}.devtest"` with `codes: flores`.
    """

    dev: DataPrefix | None = Field(
        None, description=_PATH.format("development", " (none: they are not reported)")
    )
    test: DataPrefix | None = Field(
        None, description=_PATH.format("test", " (none: they are not reported)")
    )
    removed: ClassVar[Mapping[str, Removed]] = {
        "pretokenized": Removed("words are found in the text, as the grid's own are")
    }
    codes: Annotated[dict[str, str] | ListName, LATER] = Field(
        default_factory=dict, description=CODES.format("files'")
    )

    def splits(self) -> dict[str, FileCorpus]:
        """Return the text of each split that is given."""
        kind = catalog("corpora")["moses"]
        paths = {"dev": self.dev, "test": self.test}
        return {
            split: kind(kind.Params(path=path, codes=self.codes))
            for split, path in paths.items()
            if path is not None
        }

    def sources(self, lang: str, pivot: str) -> Mapping[str, LocalFile]:
        """Return the files of one language and the pivot: ``test_source``, ``test_target``."""
        return {
            f"{split}_{name}": source
            for split, corpus in self.splits().items()
            for name, source in corpus.sources(lang, pivot).items()
            if isinstance(source, LocalFile)
        }

    def read(
        self, lang: str, pivot: str, files: Mapping[str, Mapping[str, Path]]
    ) -> Iterator[tuple[str, SentencePairs]]:
        """Yield each split with its pairs; `files` are those of `sources`, by name and language.

        Raises `DataError` as the corpus `moses` does, and for a split without pairs.
        """
        for split, corpus in self.splits().items():
            sides = {name: files[f"{split}_{name}"][lang] for name in ("source", "target")}
            yield split, _pairs(corpus, lang, pivot, sides)

    def inspected(self, lang: str, pivot: str) -> Iterator[FileRead]:
        """Read the files of one language and the pivot before anything runs."""
        for split, corpus in self.splits().items():
            given = self.sources(lang, pivot)
            sides = {name: given[f"{split}_{name}"].path for name in ("source", "target")}
            count = partial(_count, corpus, lang, pivot, sides)
            yield read_through(sides["source"], count)


def _count(corpus: FileCorpus, lang: str, pivot: str, sides: Mapping[str, Path], _: Report) -> int:
    return len(_pairs(corpus, lang, pivot, sides).ids)


def _pairs(corpus: FileCorpus, lang: str, pivot: str, sides: Mapping[str, Path]) -> SentencePairs:
    """The pairs of a split without those of which a side is blank."""
    locations = {name: str(path) for name, path in sides.items()}
    divide = {code: tokenize(code) for code in (lang, pivot)}
    ids, src, tgt = [], [], []
    for pair in corpus.read(lang, pivot, CorpusInputs(locations, Path())):
        given = ((pair.source_words, pair.source, lang), (pair.target_words, pair.target, pivot))
        own, other = (
            within_text(divide[code], text) if words is None else given_words(words, code)
            for words, text, code in given
        )
        if own and other:
            ids.append(pair.id)
            src.append(own)
            tgt.append(other)
    if not ids:
        raise DataError(sides["source"], f"has no sentence with a translation in {pivot}")
    return SentencePairs(np.array(ids, dtype=np.int64), src, tgt)
