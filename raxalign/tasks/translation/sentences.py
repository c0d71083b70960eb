"""XNLI's sentences as sentence pairs that are translated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from raxalign.config.params import BaseParams
from raxalign.config.sources import DataPath, Source
from raxalign.corpora.readers.inspection import FileRead, Report, read_through
from raxalign.corpora.readers.remote import Remote
from raxalign.errors import DataError
from raxalign.lazy import np
from raxalign.running import Sentence
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classifiers.examples import Example
from raxalign.tasks.classifiers.scheme import ALIASES, COLUMNS, LABELS
from raxalign.tasks.classifiers.task import ClassificationTask
from raxalign.tasks.transfer.params import DataFiles
from raxalign.tasks.transfer.rows import unit
from raxalign.tasks.vectors.pairs import SentencePairs

Split = Literal["dev", "test"]
PIVOT = "pivot_"
"""What the name of a source begins with that is the pivot's and not the language's own."""


class XnliFiles(BaseParams):
    """Paths of XNLI's files, or of others that the task `xnli` can read; {lang} and {pivot} in a
    path stand for languages.
    """

    dev: DataPath | None = None
    """Development file of each language (none: nothing is chosen on dev)."""
    test: DataPath
    """Test file of each language."""


class _XnliRows(ClassificationTask):
    """The rows, which are read and not classified."""

    labels = LABELS
    aliases = ALIASES
    columns = COLUMNS


class XnliSentences:
    """Reads premise and hypothesis of XNLI as one sentence (Liu et al. 2020, Table 1)."""

    def __init__(self, files: XnliFiles | None, dataset: str, revision: str) -> None:
        """Read local files, or without them the data set of the hub at a branch, tag or commit."""
        data = "hub" if files is None else DataFiles(train="", dev=files.dev, test=files.test)
        given = {"data": data, "dataset": dataset, "revision": revision}
        self.task = _XnliRows(_XnliRows.Params.model_validate(given))

    def splits(self) -> tuple[Split, ...]:
        """Return the splits that are given."""
        data = self.task.params.data
        return ("test",) if isinstance(data, DataFiles) and data.dev is None else ("dev", "test")

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the files, or sets of the hub, that a language is read from, and the pivot's."""
        return {
            f"{prefix}{name}": source
            for prefix, code in (("", lang), (PIVOT, pivot))
            for name, source in self.task.sources(code, pivot).items()
            if name != "train"
        }

    def commits(self, lang: str, pivot: str) -> Mapping[str, str]:
        """Return the commits that the hub's data sets are at, by the names of their sources."""
        own, others = (self.task.fetch(code, pivot, Path()) for code in (lang, pivot))
        return {**own, **others}

    def remotes(self, lang: str, pivot: str) -> list[Remote]:
        """Return the configurations of the hub's data sets."""
        return [*self.task.remotes(lang, pivot), *self.task.remotes(pivot, pivot)]

    def read(self, split: Split, lang: str, inputs: TaskInputs) -> SentencePairs:
        """Read a split of a language and the pivot. Raises `DataError` where a file cannot be read,
        or the two are not parallel.
        """

        def rows(prefix: str, code: str) -> list[Example]:
            """The rows of the language, or of the pivot, as a source of the language."""
            file = inputs.files.get(f"{prefix}{split}", {}).get(lang)
            commit = inputs.digests.get(f"{prefix}hub/{lang}")
            files: dict[str, dict[str, Path]] = {split: {code: file}} if file else {}
            digests = {f"hub/{code}": commit} if commit else {}
            head = self.task.head(replace(inputs, files=files, digests=digests))
            return list(head.rows(split, code).rows)

        own, pivot = rows("", lang), rows(PIVOT, inputs.pivot)
        _require_parallel(f"xnli/{lang}:{split}", own, pivot)
        # The tokenizer alone divides text without spaces.
        src, tgt = (
            [
                Sentence.of_text(" ".join(t for t in (row.first, row.second) if t is not None))
                for row in side
            ]
            for side in (own, pivot)
        )
        lines = np.array([row.line for row in pivot], dtype=np.int64)
        premises = np.array([unit(row.first.split()) for row in pivot], dtype=np.int64)
        return SentencePairs(lines, src, tgt, premises)

    def read_files(self, languages: Sequence[str], pivot: str) -> Iterator[FileRead]:
        """Read all local files, the pivot's first; those not parallel to it are faulty."""
        head = self.task.head(TaskInputs(pivot))
        for split in self.splits():
            known = list[Example]()

            def read(report: Report, split: Split, lang: str, known: list[Example] = known) -> int:
                rows = list(head.read_local(split, lang, report).rows)
                if lang == pivot:
                    known.extend(rows)
                elif known:
                    _require_parallel(str(head.path(split, lang)), rows, known)
                return len(rows)

            for lang in dict.fromkeys((pivot, *languages)):
                yield read_through(head.path(split, lang), partial(read, split=split, lang=lang))


def _require_parallel(where: str, own: Sequence[Example], pivot: Sequence[Example]) -> None:
    """Raise `DataError` where two languages have other numbers of rows, or other labels."""
    remedy = "Give the files of one split, which have the same rows in every language"
    if len(own) != len(pivot):
        told = f"{len(own)} rows, but the pivot has {len(pivot)}: they are not parallel"
        raise DataError(where, told, remedy=remedy)
    for mine, other in zip(own, pivot, strict=True):
        if mine.label != other.label:
            told = f"labelled {mine.label}, but {other.label} in line {other.line} of the pivot"
            raise DataError(
                where, f"{told}: the rows are not parallel", line=mine.line, remedy=remedy
            )
