"""Where the examples of a classification task come from, by its params.

Reading all files of a classification task before anything is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from raxalign.config.sources import differs_by_language
from raxalign.corpora.readers.codes import hub_code
from raxalign.corpora.readers.inspection import FileRead, Report, read_through
from raxalign.languages import spelled
from raxalign.tasks.classification.examples import Example, Examples, fingerprints, refuse_overlap
from raxalign.tasks.classification.files import ExampleFile
from raxalign.tasks.classification.hub import read_hub
from raxalign.tasks.classification.mixing import counterparts
from raxalign.tasks.classification.scheme import LabelScheme, Split
from raxalign.tasks.transfer.selection import Selection, readers
from raxalign.tasks.transfer.task import HubSet, path_of

if TYPE_CHECKING:
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.classification.params import ClassificationParams


_PHRASEBOOK_SEED = 0
"""The examples are data: they do not change with the seed of a trial."""


@dataclass(frozen=True)
class ExampleData:
    """Reads one split of one language."""

    params: ClassificationParams
    scheme: LabelScheme
    inputs: TaskInputs

    def has(self, split: Split) -> bool:
        """Whether the split is given."""
        data = self.params.data
        return isinstance(data, str) or getattr(data, split) is not None

    def splits(self) -> list[Split]:
        """Returns the splits that are evaluated."""
        both: tuple[Split, ...] = ("dev", "test")
        return [split for split in both if self.has(split)]

    def choosing(self, languages: Sequence[str]) -> Sequence[str]:
        """Returns those of the languages whose development sets choose the weights."""
        selection, each = self.params.selection, self.params.models == "each"
        rule: Selection = "target-dev" if each and selection != "last" else selection
        return readers(rule, languages, self.inputs.pivot)

    def examples(self, split: Split, lang: str) -> Examples:
        """Reads the examples, at most `max_train` of a training set: those that were divided into
        pieces before, where there are such. Raises `DataError` with file and line.
        """
        if split == "train" and lang in self.inputs.rows:
            from raxalign.tasks.classification.divided_examples import read_examples

            named = None if isinstance(self.params.data, str) else str(self.path(split, lang))
            return read_examples(self.inputs.rows[lang], lang, named)
        found = self._read(split, lang)
        if split == "train" and self.params.data == "phrasebook":
            # Different examples may look the same.
            found = found.without([self._read(other, lang) for other in self.splits()])
        return found.first(self.params.max_train) if split == "train" else found

    def _read(self, split: Split, lang: str) -> Examples:
        if self.params.data == "hub":
            revision = self.inputs.digests.get(f"hub/{lang}", self.params.revision)
            config = hub_code(self.params.dataset, lang, self.scheme.languages)
            found = HubSet(self.params.dataset, config, revision)
            return read_hub(found, split, self.scheme, self.inputs.downloads)
        if self.params.data == "phrasebook":
            return self._phrasebook(split, lang)
        return self._file(split, lang).read()

    def path(self, split: Split, lang: str) -> Path:
        """Returns the local file of one split and language."""
        template: str = getattr(self.params.data, split)
        return self.inputs.files.get(split, {}).get(lang) or path_of(
            template, lang, self.inputs.pivot, self.scheme.languages
        )

    def stream(self, split: Split, lang: str, report: Report) -> Iterator[Example]:
        """Streams the labelled examples of a local file, all of them, with its faults going to
        `report`.
        """
        return (row for row in self._file(split, lang).stream(report) if row is not None)

    def _file(self, split: Split, lang: str) -> ExampleFile:
        template: str = getattr(self.params.data, split)
        alone = differs_by_language(template) or lang == self.inputs.pivot
        return ExampleFile(self.path(split, lang), lang, split, alone, self.scheme)

    def _phrasebook(self, split: Split, lang: str) -> Examples:
        from raxalign.corpora.phrases.rows import LANGS

        assert self.scheme.phrasebook is not None, "the task's check asks for it"
        n: int = getattr(self.params.phrasebook, split)
        spoken = spelled(lang, LANGS) or lang
        made = self.scheme.phrasebook(n, spoken, split, _PHRASEBOOK_SEED)
        rows = [
            Example(
                " ".join(first), " ".join(second) if self.scheme.columns.second else None, label, i
            )
            for i, (first, second, label) in enumerate(made, 1)
        ]
        return Examples(f"phrasebook/{lang}:{split}", rows)


def read_files(
    data: ExampleData, languages: Sequence[str], trained: Sequence[str]
) -> Iterator[FileRead]:
    """Reads the training files of the languages that are `trained` on, streamed, then what is
    evaluated, against their rows.
    """
    reader, pivot = _Reader(data), data.inputs.pivot
    found = [reader.training(lang) for lang in trained]
    yield from found
    if data.params.code_switching == "sentence" and not any(entry.faults for entry in found):
        yield from (reader.parallel(lang) for lang in trained if lang != pivot)
    yield from (reader.evaluated(split, lang) for split in data.splits() for lang in languages)


class _Reader:
    """Keeps the fingerprints of training rows, and nothing else of them."""

    def __init__(self, data: ExampleData) -> None:
        self.data = data
        self.known: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def training(self, lang: str) -> FileRead:
        """Reads a training file to its end; what `max_train` leaves out is not trained on."""

        def read(report: Report) -> int:
            rows = self.data.stream("train", lang, report)
            texts, ids = fingerprints(islice(rows, self.data.params.max_train))
            self.known = np.concatenate([self.known, texts, ids])
            return len(texts) + sum(1 for _ in rows)

        return read_through(self.data.path("train", lang), read)

    def parallel(self, lang: str) -> FileRead:
        """Compares a training file with the pivot's, line by line."""

        def read(_: Report) -> int:
            own, pivot = (
                self.data.examples("train", code) for code in (lang, self.data.inputs.pivot)
            )
            counterparts(own, pivot, whole=True)
            return 0

        return read_through(self.data.path("train", lang), read)

    def evaluated(self, split: Split, lang: str) -> FileRead:
        """Reads a file that is evaluated, and looks for training rows in it."""
        path = self.data.path(split, lang)

        def read(report: Report) -> int:
            found = Examples(str(path), list(self.data.stream(split, lang, report)))
            refuse_overlap(self.known, found, repeats=self.data.scheme.repeats)
            return len(found)

        return read_through(path, read)
