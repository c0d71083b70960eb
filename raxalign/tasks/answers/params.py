"""The options of a task that answers questions by spans of a context."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from raxalign.config.params import LATER, BaseParams
from raxalign.corpora.readers.codes import hub_code
from raxalign.tasks.answers.metrics import Rules
from raxalign.tasks.transfer import params as shared
from raxalign.train.options import Betas, Clip, Epsilon, RateSchedule, WeightDecay


class HubSets(BaseParams):
    """Data sets of the hub in SQuAD's columns: `dataset` is evaluated, `train_dataset` is the
    pivot's training set, and `translated_config` of `dataset` those of the other languages for
    translate-train.

    MLQA's own files need code that is not run: the default is the branch where the hub keeps the
    converted files. `xquad` is a preset of `spans`, and `tydiqa` a task of its own.
    """

    dataset: Annotated[str, shared.DATASET] = "facebook/mlqa"
    config: str = "mlqa.{lang}.{lang}"
    """Configuration of a language in `dataset`."""
    dev: str | None = "validation"
    """Split of `dataset` for development (none: there is none)."""
    test: str | None = "test"
    """Split of `dataset` that is the test set (none: there is none)."""
    revision: Annotated[str, shared.REVISION] = "refs/convert/parquet"
    train_dataset: str = "rajpurkar/squad"
    """Data set of the hub with the pivot's training questions."""
    train_config: str = "plain_text"
    """Configuration of `train_dataset`."""
    train_revision: str = "main"
    """Branch, tag or commit of `train_dataset`."""
    translated_config: str = "mlqa-translate-train.{lang}"
    """Configuration of `dataset` with the training questions of another language, for
    `setting: translate-train`.
    """
    ids: Annotated[str, LATER] = ""
    """What the ids of a language's questions begin with, where a configuration of `dataset` has
    several languages (empty: it has one).
    """

    def at(self, split: str, lang: str, pivot: str, names: shared.LanguageNames) -> shared.HubSet:
        """Return what has the rows of a split of a language."""
        own = hub_code(self.dataset, lang, names)
        part = self.ids.replace("{lang}", own)
        if split == "train" and lang == pivot:
            same = part if self.train_dataset == self.dataset else ""
            return shared.HubSet(self.train_dataset, self.train_config, self.train_revision, same)
        config = self.translated_config if split == "train" else self.config
        return shared.HubSet(self.dataset, config.replace("{lang}", own), self.revision, part)


class QuestionCounts(BaseParams):
    """Questions per language of the phrasebook."""

    train: shared.TrainingRows = 2000
    dev: shared.DevelopmentRows = 300
    test: shared.TestRows = 300


class SpanParams(shared.SettingParams):
    """Options on what is trained on and how; see `mlqa` for what they mean together."""

    setting: Literal["zero-shot", "g-xlt", "translate-train"] = "zero-shot"
    rules: Rules = "mlqa"
    """How answers are compared: by MLQA's rules for each language, or SQuAD's."""
    hub: HubSets = HubSets()
    """Data sets of the hub, for `data: hub`."""
    phrasebook: Annotated[QuestionCounts, shared.PHRASEBOOK] = QuestionCounts()
    learning_rate: float = Field(3e-5, gt=0)
    schedule: Annotated[RateSchedule, LATER] = "linear"
    weight_decay: WeightDecay = 1e-4
    betas: Annotated[Betas, LATER] = "0.9 0.999"
    eps: Annotated[Epsilon[float], LATER] = 1e-8
    clip: Annotated[Clip[float], LATER] = 1.0
    dropout: float = Field(0.0, ge=0, lt=1)
    max_length: int = Field(384, ge=16)
    max_question_length: int = Field(64, ge=1)
    """Largest number of pieces of a question; a longer one is cut."""
    doc_stride: int = Field(128, ge=1)
    """Pieces from the start of one window of a context to the start of the next one."""
    max_answer_length: int = Field(30, ge=1)
    """Largest number of pieces of an answer that is predicted."""
