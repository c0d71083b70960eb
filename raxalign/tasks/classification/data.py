"""Where the examples of a classification task come from, by its params."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign.config.sources import differs_by_language
from raxalign.corpora.readers.codes import hub_code
from raxalign.corpora.readers.inspection import Report
from raxalign.languages import spelled
from raxalign.tasks.classification.examples import Example, Examples
from raxalign.tasks.classification.files import ExampleFile
from raxalign.tasks.classification.hub import read_hub
from raxalign.tasks.classification.scheme import LabelScheme, Split
from raxalign.tasks.transfer.languages import path_of
from raxalign.tasks.transfer.selection import Selection, readers
from raxalign.tasks.transfer.task import HubSet

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
