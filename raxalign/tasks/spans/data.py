"""Where the questions of an MLQA evaluation come from, by its params."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from raxalign.corpora.readers.inspection import FileRead, Report, read_through
from raxalign.languages import spelled
from raxalign.tasks.spans.rows import (
    Questions,
    answered,
    crossed,
    read_hub,
    read_phrasebook,
    read_squad,
    refuse_overlap,
    scored,
)
from raxalign.tasks.transfer.outcome import read_given
from raxalign.tasks.transfer.selection import readers
from raxalign.tasks.transfer.task import path_of

if TYPE_CHECKING:
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.spans.divided_questions import DividedQuestions
    from raxalign.tasks.spans.params import SpanParams

Split = Literal["train", "dev", "test"]


@dataclass(frozen=True)
class EvaluationSet:
    """Questions of one split under the name that their scores have; both languages are the same but
    in G-XLT.
    """

    label: str
    split: Split
    question_lang: str
    context_lang: str
    questions: Questions


@dataclass(frozen=True)
class QaData:
    """Reads one split of one language; `name` is the task's."""

    name: str
    params: SpanParams
    inputs: TaskInputs

    def splits(self) -> list[Split]:
        """The splits that are evaluated."""
        both: tuple[Split, ...] = ("dev", "test")
        data = self.params.data
        return [
            split
            for split in both
            if data == "phrasebook" or getattr(self.params.hub if data == "hub" else data, split)
        ]

    def questions(self, split: Split, lang: str) -> Questions:
        """The questions, at most `max_train` of a training set. Raises `DataError`."""
        found = self._read(split, lang)
        return found.first(self.params.max_train) if split == "train" else scored(found)

    def _named(self, split: Split) -> bool:
        """Whether each question has to have an id of its own: training needs none but to find a
        question in another language.
        """
        return split != "train" or self.params.code_switching != "none"

    def training(self, lang: str) -> Questions | DividedQuestions:
        """The training questions of a language: those that were divided into pieces before, where
        there are such. Raises `DataError`.
        """
        if lang not in self.inputs.rows:
            return self.questions("train", lang)
        from raxalign.tasks.spans.divided_questions import read_questions

        named = None if isinstance(self.params.data, str) else str(self.path("train", lang))
        return read_questions(self.inputs.rows[lang], lang, named)

    def evaluation_sets(self, languages: tuple[str, ...]) -> list[EvaluationSet]:
        """What is evaluated: each language, or with `g-xlt` each pair of languages (named question,
        then context).
        """
        found = read_given(
            self.questions,
            self.splits(),
            languages,
            readers(self.params.selection, languages, self.inputs.pivot),
        )
        sets = []
        for split in self.splits():
            there = [lang for lang in languages if (lang, split) in found]
            if self.params.setting == "g-xlt":
                pairs = [(asked, told) for asked in there for told in there]
                sets += [
                    EvaluationSet(
                        f"{a}-{t}", split, a, t, crossed(found[a, split], found[t, split])
                    )
                    for a, t in pairs
                ]
            else:
                sets += [
                    EvaluationSet(lang, split, lang, lang, found[lang, split]) for lang in there
                ]
        return sets

    def _read(self, split: Split, lang: str) -> Questions:
        data, pivot = self.params.data, self.inputs.pivot
        if data == "phrasebook":
            from raxalign.corpora.phrases.rows import LANGS

            spoken = spelled(lang, LANGS) or lang
            return read_phrasebook(getattr(self.params.phrasebook, split), spoken, split)
        if data == "hub":
            name, config, hub_split = self.params.hub.place(split, lang, pivot, self.params.codes)
            revision = self.inputs.digests.get(
                f"{'train' if split == 'train' else 'hub'}/{lang}",
                self.params.hub.revision_of(split, lang, pivot),
            )
            downloads = self.inputs.downloads
            return read_hub(name, config, hub_split, revision, downloads, named=self._named(split))
        return read_squad(self.path(split, lang), named=self._named(split))

    def path(self, split: Split, lang: str) -> Path:
        """The local file of one split and language."""
        return self.inputs.files.get(split, {}).get(lang) or path_of(
            getattr(self.params.data, split), lang, self.inputs.pivot, self.params.codes
        )

    def read_files(self, languages: Sequence[str], trained: Sequence[str]) -> Iterator[FileRead]:
        """Reads the local files of all splits, before anything is trained; evaluated questions that
        are trained on, and G-XLT between files without a common id, are faults.
        """
        known: list[npt.NDArray[np.int64]] = []
        light: dict[tuple[str, str], Questions] = {}

        def training(report: Report, lang: str) -> int:
            found = read_squad(self.path("train", lang), report, named=self._named("train"))
            trained = found.first(self.params.max_train)
            known.append(trained.fingerprints())
            answered(trained)
            return len(found)

        def evaluated(report: Report, split: Split, lang: str) -> int:
            found = scored(read_squad(self.path(split, lang), report))
            refuse_overlap(np.concatenate([np.empty(0, dtype=np.int64), *known]), found)
            light[lang, split] = replace(
                found, rows=[replace(row, context="", answers=()) for row in found.rows]
            )
            return len(found)

        def shared(_: Report, split: Split, lang: str) -> int:
            for other in languages:
                if (lang, split) in light and (other, split) in light:
                    crossed(light[lang, split], light[other, split])
            return 0

        for lang in trained:
            yield read_through(self.path("train", lang), partial(training, lang=lang))
        places = [(split, lang) for split in self.splits() for lang in languages]
        for split, lang in places:
            yield read_through(self.path(split, lang), partial(evaluated, split=split, lang=lang))
        for split, lang in places if self.params.setting == "g-xlt" else ():
            yield read_through(self.path(split, lang), partial(shared, split=split, lang=lang))
