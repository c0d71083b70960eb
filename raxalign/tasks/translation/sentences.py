"""XNLI's sentences as sentence pairs that are translated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from raxalign.config.params import BaseParams
from raxalign.config.sources import DataPath, LocalFile, Source, differs_by_language
from raxalign.corpora.readers.codes import hub_code
from raxalign.corpora.readers.hub import dataset_revision
from raxalign.corpora.readers.inspection import FileRead, Report, read_through, refuse
from raxalign.errors import DataError
from raxalign.running import Sentence
from raxalign.tasks.classification.reading import ExampleFile, read_hub
from raxalign.tasks.classification.scheme import SCHEME
from raxalign.tasks.transfer.fingerprints import unit
from raxalign.tasks.transfer.params import HubSet, path_of
from raxalign.tasks.vectors.pairs import SentencePairs

if TYPE_CHECKING:
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.classification.examples import Example

Split = Literal["dev", "test"]
PIVOT = "pivot_"
"""What the name of a source begins with that is the pivot's and not the language's own."""


class XnliFiles(BaseParams):
    """Paths of XNLI's files, or of others that the task `xnli` can read; {lang} and {pivot} in a
    path stand for languages.
    """

    dev: DataPath | None = Field(
        None, description="Development file of each language (none: nothing is chosen on dev)."
    )
    test: DataPath = Field(description="Test file of each language.")


@dataclass(frozen=True)
class XnliSentences:
    """Reads premise and hypothesis of each row of XNLI as one sentence, as in Table 1 of Liu et al.
    (2020).

    Attributes:
        files: the local files (None: the set of the hub).
        dataset: the data set of the hub.
        revision: its branch, tag or commit.
    """

    files: XnliFiles | None
    dataset: str
    revision: str

    def splits(self) -> tuple[Split, ...]:
        """Return the splits that are given."""
        without_dev = self.files is not None and self.files.dev is None
        return ("test",) if without_dev else ("dev", "test")

    def hub_sets(self, lang: str, pivot: str) -> Mapping[str, HubSet]:
        """Return the data sets of the hub for a language, by the names of their sources."""
        if self.files is not None:
            return {}
        return {
            "hub": HubSet(self.dataset, hub_code(self.dataset, lang, {}), self.revision),
            f"{PIVOT}hub": HubSet(self.dataset, hub_code(self.dataset, pivot, {}), self.revision),
        }

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the files, or sets of the hub, that are read for a language: its own and the
        pivot's.
        """
        return {name: found.source() for name, found in self.hub_sets(lang, pivot).items()} | {
            f"{prefix}{split}": LocalFile(self._path(split, code, pivot))
            for prefix, code in (("", lang), (PIVOT, pivot))
            for split in self.splits()
            if self.files is not None
        }

    def commits(self, lang: str, pivot: str) -> Mapping[str, str]:
        """Return the commits that the hub's data sets are at, by the names of their sources."""
        return {
            (source := found.source()).name: (
                source.pin or dataset_revision(found.dataset, found.revision)
            )
            for found in self.hub_sets(lang, pivot).values()
        }

    def read(self, split: Split, lang: str, inputs: TaskInputs) -> SentencePairs:
        """Read a split of a language and the pivot.

        Raises:
            DataError: a file cannot be read, or the two are not parallel.
        """
        own = self._rows(split, "", lang, lang, inputs)
        pivot = self._rows(split, PIVOT, lang, inputs.pivot, inputs)
        _require_parallel(f"xnli/{lang}:{split}", own, pivot)
        src, tgt = ([_words(row) for row in rows] for rows in (own, pivot))
        lines = np.array([row.line for row in pivot], dtype=np.int64)
        premises = np.array([unit(row.first.split()) for row in pivot], dtype=np.int64)
        return SentencePairs(lines, src, tgt, premises)

    def read_files(self, languages: Sequence[str], pivot: str) -> Iterator[FileRead]:
        """Read all local files, the pivot's first; those that are not parallel to it are
        faulty.
        """
        for split in self.splits() if self.files is not None else ():
            known: list[Example] = []
            for lang in dict.fromkeys((pivot, *languages)):
                yield self._file_read(split, lang, pivot, known)

    def _file_read(self, split: Split, lang: str, pivot: str, known: list[Example]) -> FileRead:
        """Read a file; `known` has the rows of the pivot, and receives them from the pivot."""
        path = self._path(split, lang, pivot)

        def read(report: Report) -> int:
            rows = self._file(path, split, lang, pivot, report)
            if lang == pivot:
                known.extend(rows)
            elif known:
                _require_parallel(str(path), rows, known)
            return len(rows)

        return read_through(path, read)

    def _rows(
        self, split: Split, prefix: str, lang: str, code: str, inputs: TaskInputs
    ) -> Sequence[Example]:
        """The rows of a language, or of the pivot, as a source of `lang`."""
        if self.files is None:
            revision = inputs.digests.get(f"{prefix}hub/{lang}", self.revision)
            found = HubSet(self.dataset, hub_code(self.dataset, code, {}), revision)
            return read_hub(found, split, SCHEME, inputs.downloads).rows
        path = inputs.files.get(f"{prefix}{split}", {}).get(lang)
        path = path or self._path(split, code, inputs.pivot)
        return self._file(path, split, code, inputs.pivot)

    def _file(
        self, path: Path, split: Split, lang: str, pivot: str, report: Report = refuse
    ) -> list[Example]:
        alone = lang == pivot or differs_by_language(self._template(split))
        return list(ExampleFile(path, lang, split, alone, SCHEME).read(report).rows)

    def _template(self, split: Split) -> str:
        template: str = getattr(self.files, split)
        return template

    def _path(self, split: Split, lang: str, pivot: str) -> Path:
        return path_of(self._template(split), lang, pivot, {})


def _words(row: Example) -> Sentence:
    """Join the premise and the hypothesis of a row; the tokenizer alone divides text without
    spaces.
    """
    return Sentence.of_text(row.first if row.second is None else f"{row.first} {row.second}")


def _require_parallel(where: str, own: Sequence[Example], pivot: Sequence[Example]) -> None:
    """Raise `DataError` where two languages have other numbers of rows, or other labels."""
    if len(own) != len(pivot):
        raise DataError(
            where,
            f"{len(own)} rows, but the pivot has {len(pivot)}: they are not parallel",
            remedy="Give the files of one split, which have the same rows in every language",
        )
    for mine, other in zip(own, pivot, strict=True):
        if mine.label != other.label:
            raise DataError(
                where,
                f"labelled {mine.label}, but {other.label} in line {other.line} of the pivot:"
                " the rows are not parallel",
                line=mine.line,
                remedy="Give the files of one split, which have the same rows in every language",
            )
