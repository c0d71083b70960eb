"""Where the sentences of a tagging task come from, by its params."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raxalign.corpora.readers.inspection import FileRead, Remark, Report, read_through, refuse
from raxalign.languages import spelled
from raxalign.tasks.tagging.columns import read_conll, read_conllu
from raxalign.tasks.tagging.hub import read_hub
from raxalign.tasks.tagging.multiatis import is_atis, read_atis
from raxalign.tasks.tagging.params import TaggingParams, config_of
from raxalign.tasks.tagging.scheme import Split, TagScheme
from raxalign.tasks.tagging.sentences import Sentences, Tagged, left_out, refuse_overlap
from raxalign.tasks.transfer.task import HubSet, path_of

if TYPE_CHECKING:
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.tagging.divided_sentences import DividedSentences

_PHRASEBOOK_SEED = 0
"""The examples are data: they do not change with the seed of a trial."""


@dataclass(frozen=True)
class TaggingData:
    """Reads one split of one language."""

    params: TaggingParams
    scheme: TagScheme
    inputs: TaskInputs

    @property
    def pivot(self) -> str:
        """The language that is trained on."""
        return self.inputs.pivot

    def splits(self) -> list[Split]:
        """Returns the splits that are evaluated."""
        both: tuple[Split, ...] = ("dev", "test")
        data = self.params.data
        return [
            split for split in both if isinstance(data, str) or getattr(data, split) is not None
        ]

    def sentences(self, split: Split, lang: str) -> Sentences:
        """Reads the sentences; training sentences are the pivot's, at most `max_train`. Raises
        `DataError` with file and line.
        """
        found = self._read(split, lang)
        if split == "train" and self.params.data == "phrasebook":
            # Different sentences may look the same.
            found = found.without([self._read(other, lang) for other in self.splits()])
        return found.first(self.params.max_train) if split == "train" else found

    def training(self) -> Sentences | DividedSentences:
        """Reads the training sentences: those that were divided into pieces before, where there are
        such. Raises `DataError` with file and line.
        """
        if self.pivot not in self.inputs.rows:
            return self.sentences("train", self.pivot)
        from raxalign.tasks.tagging.divided_sentences import read_sentences

        named = None if isinstance(self.params.data, str) else str(self.path("train", self.pivot))
        return read_sentences(self.inputs.rows[self.pivot], self.pivot, named)

    def _read(self, split: Split, lang: str) -> Sentences:
        if self.params.data == "hub":
            revision = self.inputs.digests.get(f"hub/{lang}", self.params.revision)
            config = config_of(self.params, self.scheme.languages, lang)
            found = HubSet(self.params.dataset, config, revision)
            return read_hub(found, split, self.scheme, self.inputs.downloads)
        if self.params.data == "phrasebook":
            return self._phrasebook(split, lang)
        return self.local(split, lang)

    def _phrasebook(self, split: Split, lang: str) -> Sentences:
        from raxalign.corpora.phrases.rows import LANGS

        assert self.scheme.phrasebook is not None, "the task's check asks for it"
        n: int = getattr(self.params.phrasebook, split)
        spoken = spelled(lang, LANGS) or lang
        made = self.scheme.phrasebook(n, spoken, split, _PHRASEBOOK_SEED)
        rows = [Tagged(tuple(words), tuple(tags), i) for i, (words, tags) in enumerate(made, 1)]
        return Sentences(f"phrasebook/{lang}:{split}", rows)

    def path(self, split: Split, lang: str) -> Path:
        """Returns the local file of one split and language."""
        template: str = getattr(self.params.data, split)
        return self.inputs.files.get(split, {}).get(lang) or path_of(
            template, lang, self.inputs.pivot, self.scheme.languages
        )

    def local(self, split: Split, lang: str, report: Report = refuse) -> Sentences:
        """Reads all sentences of a local file, with its faults going to `report`."""
        path, encoding, scheme = self.path(split, lang), self.params.encoding, self.scheme
        if scheme.columns.layout == "conllu":
            return read_conllu(path, encoding, report, scheme)
        read = read_atis if is_atis(path, encoding, scheme) else read_conll
        return read(path, encoding, report, scheme)

    def read_files(self, languages: Sequence[str]) -> Iterator[FileRead]:
        """Reads the local files of all splits, before anything is trained; evaluated sentences that
        are mostly trained on are a fault.
        """
        trained = np.empty(0, dtype=np.int64)

        def remark(report: Report, found: Sentences) -> None:
            for note in left_out(found.left_out, "").values():
                report(Remark(found.source, str(note["warning"])))

        def training(report: Report) -> int:
            nonlocal trained
            found = self.local("train", self.pivot, report)
            trained = found.first(self.params.max_train).fingerprints()
            remark(report, found)
            return len(found)

        def evaluated(report: Report, split: Split, lang: str) -> int:
            found = self.local(split, lang, report)
            refuse_overlap(trained, found)
            remark(report, found)
            return len(found)

        yield read_through(self.path("train", self.pivot), training)
        for split in self.splits():
            for lang in languages:
                yield read_through(
                    self.path(split, lang), partial(evaluated, split=split, lang=lang)
                )
