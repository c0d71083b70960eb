"""Where the rows of an XNLI evaluation come from, by its params."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from raxalign.config.sources import differs_by_language, expand_path
from raxalign.corpora.readers.inspection import Report
from raxalign.tasks.classification.files import examples, read_file
from raxalign.tasks.classification.rows import LABELS, Row, Rows, read_hub

if TYPE_CHECKING:
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.classification.params import ClassificationParams

Split = Literal["train", "dev", "test"]
_PHRASEBOOK_SEED = 0
"""The examples are data: they do not change with the seed of a trial."""


@dataclass(frozen=True)
class NliData:
    """Reads one split of one language."""

    params: ClassificationParams
    inputs: TaskInputs

    def has(self, split: Split) -> bool:
        """Whether the split is given."""
        data = self.params.data
        return isinstance(data, str) or getattr(data, split) is not None

    def splits(self) -> list[Split]:
        """The splits that are evaluated."""
        both: tuple[Split, ...] = ("dev", "test")
        return [split for split in both if self.has(split)]

    def rows(self, split: Split, lang: str) -> Rows:
        """The examples; raises `DataError` with file and line. Training rows are at most
        `max_train`.
        """
        rows = self._read(split, lang)
        if (
            split == "train" and self.params.data == "phrasebook"
        ):  # a small grammar makes some examples twice
            rows = rows.without([self._read(other, lang) for other in self.splits()])
        return rows.first(self.params.max_train) if split == "train" else rows

    def _read(self, split: Split, lang: str) -> Rows:
        data = self.params.data
        if data == "hub":
            revision = self.inputs.digests.get(f"hub/{lang}", self.params.revision)
            return read_hub(self.params.dataset, lang, split, revision, self.inputs.downloads)
        if data == "phrasebook":
            return self._phrasebook(split, lang)
        return read_file(self.path(split, lang), lang, one_language=self._one_language(split, lang))

    def path(self, split: Split, lang: str) -> Path:
        """The local file of one split and language."""
        template: str = getattr(self.params.data, split)
        return self.inputs.files.get(split, {}).get(lang) or expand_path(
            template, lang=lang, pivot=self.inputs.pivot
        )

    def stream(self, split: Split, lang: str, report: Report) -> Iterator[Row]:
        """The labelled rows of a local file, all of them, with its faults going to `report`."""
        found = examples(
            self.path(split, lang),
            lang,
            one_language=self._one_language(split, lang),
            report=report,
        )
        return (row for row in found if row is not None)

    def _one_language(self, split: Split, lang: str) -> bool:
        """Whether a file is given for one language alone."""
        return differs_by_language(getattr(self.params.data, split)) or lang == self.inputs.pivot

    def _phrasebook(self, split: Split, lang: str) -> Rows:
        from raxalign.corpora.grammar import entailment

        n: int = getattr(self.params.phrasebook, split)
        examples = entailment(n, lang, split, _PHRASEBOOK_SEED)
        rows = [
            Row(" ".join(e.premise), " ".join(e.hypothesis), LABELS.index(e.label), None, i)
            for i, e in enumerate(examples, 1)
        ]
        return Rows(f"phrasebook/{lang}:{split}", rows)
