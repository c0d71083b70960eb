"""Extractive question answering across languages: MLQA, XQuAD and what else is in SQuAD's format (Lewis et al. 2020, Artetxe et al. 2020)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

from pydantic import Field

from raxalign.config.params import BaseParams
from raxalign.config.sources import DataPath, LocalFile, RemoteData, Source, expand_path
from raxalign.corpora._hub import dataset_revision
from raxalign.tasks._selection import Selection, kept
from raxalign.tasks.base import Outcome, Task, TaskInputs

if TYPE_CHECKING:
    from raxalign.encoders._aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime

_COMMIT = re.compile(r"[0-9a-f]{40}")


class DataFiles(BaseParams):
    """JSON files in SQuAD's format; a split that is not given is not reported."""

    train: DataPath
    dev: DataPath | None = None
    test: DataPath | None = None


class HubSets(BaseParams):
    """Data sets of the hub in SQuAD's columns: `dataset` is evaluated (for XQuAD `google/xquad`, `xquad.{lang}`, dev null, test validation),
    `train_dataset` is the pivot's training set, and `translated_config` of `dataset` those of the other languages for translate-train.
    """

    dataset: str = "facebook/mlqa"
    config: str = "mlqa.{lang}.{lang}"
    dev: str | None = "validation"
    test: str | None = "test"
    revision: str = "main"
    train_dataset: str = "rajpurkar/squad"
    train_config: str = "plain_text"
    train_revision: str = "main"
    translated_config: str = "mlqa-translate-train.{lang}"

    def place(self, split: str, lang: str, pivot: str) -> tuple[str, str, str]:
        """(data set, configuration, split) of the hub."""
        if split != "train":
            return self.dataset, self.config.replace("{lang}", lang), getattr(self, split)
        if lang == pivot:
            return self.train_dataset, self.train_config, "train"
        return self.dataset, self.translated_config.replace("{lang}", lang), "train"

    def revision_of(self, split: str, lang: str, pivot: str) -> str:
        """The branch, tag or commit that is asked for."""
        return self.train_revision if split == "train" and lang == pivot else self.revision


class PhrasebookSizes(BaseParams):
    """Questions a language that the phrasebook makes."""

    train: int = Field(2000, ge=1)
    dev: int = Field(300, ge=1)
    test: int = Field(300, ge=1)


@final
class Mlqa(Task):
    """Answers as spans of the context, by two logits a piece of the last layer, trained on SQuAD's questions in the pivot.

    `setting` is `zero-shot` (XLT: question and context in one language), `g-xlt` (the same training, and each language's questions on each
    language's contexts, by the questions' ids; labels are ``de-es`` for German questions on Spanish contexts) or `translate-train` (trained
    on all languages together; Pan et al. 2021), there also with `code_switching: sentence`: each (q_xx, c_xx) of another language is used as
    (q_xx, c_pivot) and (q_pivot, c_xx), both in one batch. The answer is the span of at most `max_answer_length` pieces with the largest
    sum of start and end logit over all windows, returned as the context's characters. Metrics are `f1` and `exact_match` as shares, answers
    compared by MLQA's rules for the context's language (other languages: no articles; Thai, Japanese, Lao, Burmese and Khmer by character),
    the larger value of several gold answers; `avg` and `avg_zero_shot` (all but the pivot's own) are means. Transforms apply to each piece
    by its language (`readout: keep`: they are not fitted again after the training). Training follows XTREME (Hu et al. 2020) but for the
    warm-up, a share here, since 500 steps are longer than a small training.
    """

    VERSION = 1
    main_metric = "f1"

    class Params(Task.Params):
        """`data` is `hub` (sets named under `hub`), `phrasebook`, or files, whose paths may hold {lang} and {pivot}. `max_length`,
        `max_question_length`, `doc_stride` (from the start of one window to the next) and `max_answer_length` are in pieces; the first three
        shrink to fit the encoder's positions. `batch_size` counts windows (with code-switching the two mixes of a window as one), `max_train`
        questions a language. `warmup` below 1 is a share of all steps, from 1 on a number of steps. `selection` chooses the epoch by F1.
        """

        setting: Literal["zero-shot", "g-xlt", "translate-train"] = "zero-shot"
        code_switching: Literal["none", "sentence"] = "none"
        data: Literal["hub", "phrasebook"] | DataFiles = "hub"
        hub: HubSets = HubSets()
        phrasebook: PhrasebookSizes = PhrasebookSizes()
        selection: Selection = "pivot-dev"
        readout: Literal["keep"] = "keep"
        learning_rate: float = Field(3e-5, gt=0)
        epochs: int = Field(3, ge=1)
        batch_size: int = Field(32, ge=1)
        warmup: float = Field(0.1, ge=0)
        weight_decay: float = Field(1e-4, ge=0)
        dropout: float = Field(0.0, ge=0, lt=1)
        max_length: int = Field(384, ge=16)
        max_question_length: int = Field(64, ge=1)
        doc_stride: int = Field(128, ge=1)
        max_answer_length: int = Field(30, ge=1)
        max_train: int | None = Field(None, ge=1)

    params: Params

    def canonical(self) -> dict[str, object]:
        """Without what other data would need, and without the mixing that other settings do not have."""
        idle = {name for name in ("hub", "phrasebook") if name != self.params.data}
        idle |= {"code_switching"} if self.params.setting != "translate-train" else set()
        return {name: value for name, value in self.params.identity().items() if name not in idle}

    def training(self) -> Mapping[str, object]:
        """All options but what is done with the epochs afterwards: XLT and G-XLT share a training."""
        setting = "translate-train" if self.params.setting == "translate-train" else "zero-shot"
        options = {name: value for name, value in self.canonical().items() if name not in ("selection", "readout")}
        return {**options, "setting": setting, "kept": kept(self.params.selection)}

    def training_languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """The pivot, and all where their translations are trained on."""
        return self.languages(languages, pivot) if self.params.setting == "translate-train" else (pivot,)

    def languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """The pivot first, then all."""
        return (pivot, *(lang for lang in languages if lang != pivot))

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Files of a language (training data of the pivot alone, but in translate-train), or the hub's sets."""
        data, trains = self.params.data, lang in self.training_languages((lang,), pivot)
        if isinstance(data, DataFiles):
            paths = {"train": data.train if trains else None, "dev": data.dev, "test": data.test}
            return {split: LocalFile(expand_path(path, lang=lang, pivot=pivot)) for split, path in paths.items() if path}
        if data == "phrasebook":
            return {}
        return {"hub": self._remote("test", lang, pivot)} | ({"train": self._remote("train", lang, pivot)} if trains else {})

    def _remote(self, split: str, lang: str, pivot: str) -> RemoteData:
        (name, config, _), revision = self.params.hub.place(split, lang, pivot), self.params.hub.revision_of(split, lang, pivot)
        return RemoteData(f"hub:{name}/{config}@{revision}", revision if _COMMIT.fullmatch(revision) else None)

    def fetch(self, lang: str, pivot: str, downloads: Path) -> Mapping[str, str]:  # noqa: ARG002
        """The commits that the hub's data sets are at; the rows are fetched when they are read."""
        found = {}
        for name, source in self.sources(lang, pivot).items():
            if isinstance(source, RemoteData):
                split = "train" if name == "train" else "test"
                dataset = self.params.hub.place(split, lang, pivot)[0]
                found[source.name] = source.pin or dataset_revision(dataset, self.params.hub.revision_of(split, lang, pivot))
        return found

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """A training file a language in a zero-shot setting or none in translate-train, selection or evaluation without its data, a language
        that the phrasebook does not have.
        """
        data, faults, translated = self.params.data, [], self.params.setting == "translate-train"
        if self.params.code_switching != "none" and not translated:
            faults.append("code_switching mixes languages that are trained on: it needs `setting: translate-train`")
        if data == "phrasebook":
            from raxalign.corpora._phrasebook import LANGS

            missing = [lang for lang in self.languages(languages, pivot) if lang not in LANGS]
            return [*faults, f"data: phrasebook has no {', '.join(missing)}; it has {', '.join(LANGS)}"] if missing else faults
        sets = self.params.hub if isinstance(data, str) else data
        if isinstance(data, DataFiles) and "{lang}" in data.train and not translated:
            faults.append(f"data.train holds {{lang}}: {self.params.setting} training reads the pivot alone; write {{pivot}}")
        if isinstance(data, DataFiles) and "{lang}" not in data.train and translated:
            faults.append("data.train has no {lang}: translate-train reads a file a language; write {lang} in the path")
        if sets.dev is None and self.params.selection != "last":
            faults.append(f"selection: {self.params.selection} needs a dev set; without one write `selection: last`")
        if sets.dev is None and sets.test is None:
            faults.append("data has neither dev nor test: there is nothing to evaluate")
        return faults

    def train(self, aligned: AlignedEncoder, languages: tuple[str, ...], inputs: TaskInputs, runtime: Runtime, folder: Path) -> Mapping[str, object]:
        """Fine-tune on the training questions of `languages`, one model, or one a direction where the pivot's transforms differ by language."""
        from raxalign.tasks._qa_training import train

        return train(self.params, aligned, languages, inputs, runtime, folder)

    def evaluate(self, aligned: AlignedEncoder, languages: tuple[str, ...], inputs: TaskInputs, runtime: Runtime, trained: Path | None) -> Outcome:  # noqa: ARG002
        """F1 and exact match of every language or pair on the splits that are given, at the epoch that `selection` chooses."""
        from raxalign.tasks._qa_evaluation import evaluate

        assert trained is not None, "the plan makes the training first"
        return evaluate(self.params, aligned, languages, inputs, trained)
