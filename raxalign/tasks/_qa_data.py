"""Where the questions of an MLQA evaluation come from, by its params."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from raxalign.config.sources import expand_path
from raxalign.tasks._selection import readers
from raxalign.tasks._squad import Questions, crossed, read_hub, read_phrasebook, read_squad
from raxalign.tasks._transfer import read_given

if TYPE_CHECKING:
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.mlqa import Mlqa

Split = Literal["train", "dev", "test"]
_PHRASEBOOK_SEED = 0
"""The questions are data: they do not change with the seed of a trial."""


@dataclass(frozen=True)
class EvaluationSet:
    """Questions of one split under the name that their scores have; both languages are the same but in G-XLT."""

    label: str
    split: Split
    question_lang: str
    context_lang: str
    questions: Questions


@dataclass(frozen=True)
class QaData:
    """Reads one split of one language."""

    params: Mlqa.Params
    inputs: TaskInputs

    def splits(self) -> list[Split]:
        """The splits that are evaluated."""
        both: tuple[Split, ...] = ("dev", "test")
        data = self.params.data
        return [split for split in both if data == "phrasebook" or getattr(self.params.hub if data == "hub" else data, split)]

    def questions(self, split: Split, lang: str) -> Questions:
        """The questions, at most `max_train` of a training set. Raises `DataError`."""
        found = self._read(split, lang)
        return found.first(self.params.max_train) if split == "train" else found

    def evaluation_sets(self, languages: tuple[str, ...]) -> list[EvaluationSet]:
        """What is evaluated: each language, or with `g-xlt` each pair of languages (named question, then context)."""
        found = read_given(self.questions, self.splits(), languages, readers(self.params.selection, languages, self.inputs.pivot))
        sets = []
        for split in self.splits():
            there = [lang for lang in languages if (lang, split) in found]
            if self.params.setting == "g-xlt":
                pairs = [(asked, told) for asked in there for told in there]
                sets += [EvaluationSet(f"{a}-{t}", split, a, t, crossed(found[a, split], found[t, split])) for a, t in pairs]
            else:
                sets += [EvaluationSet(lang, split, lang, lang, found[lang, split]) for lang in there]
        return sets

    def _read(self, split: Split, lang: str) -> Questions:
        data, pivot = self.params.data, self.inputs.pivot
        if data == "phrasebook":
            return read_phrasebook(getattr(self.params.phrasebook, split), lang, split, _PHRASEBOOK_SEED)
        if data == "hub":
            name, config, hub_split = self.params.hub.place(split, lang, pivot)
            revision = self.inputs.digests.get(f"{'train' if split == 'train' else 'hub'}/{lang}", self.params.hub.revision_of(split, lang, pivot))
            return read_hub(name, config, hub_split, revision, self.inputs.downloads)
        path = self.inputs.files.get(split, {}).get(lang) or expand_path(getattr(data, split), lang=lang, pivot=pivot)
        return read_squad(path)
