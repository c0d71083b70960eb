"""Reading all files of a classification task before anything is trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from raxalign.corpora.readers.inspection import FileRead, Report, read_through
from raxalign.tasks.classification.data import ExampleData
from raxalign.tasks.classification.examples import Examples, fingerprints, refuse_overlap
from raxalign.tasks.classification.mixing import counterparts
from raxalign.tasks.classification.scheme import Split


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
