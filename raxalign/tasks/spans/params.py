"""The options of a task that answers questions by spans of a context."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from raxalign.config.params import BaseParams
from raxalign.tasks.spans.metrics import Rules
from raxalign.tasks.transfer.pairs import PairParams


class HubSets(BaseParams):
    """Data sets of the hub in SQuAD's columns: `dataset` is evaluated, `train_dataset` is the
    pivot's training set, and `translated_config` of `dataset` those of the other languages for
    translate-train. For XQuAD write `google/xquad`, `xquad.{lang}`, dev null, test validation,
    revision main and, beside `hub`, `rules: squad`. MLQA's own files need code that is not run: the
    default is the branch where the hub keeps what they are converted to.
    """

    dataset: str = "facebook/mlqa"
    config: str = "mlqa.{lang}.{lang}"
    dev: str | None = "validation"
    test: str | None = "test"
    revision: str = "refs/convert/parquet"
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


class SpanParams(PairParams):
    """What is trained on and how; see `mlqa` for what the options mean."""

    setting: Literal["zero-shot", "g-xlt", "translate-train"] = "zero-shot"
    rules: Rules = "mlqa"
    hub: HubSets = HubSets()
    phrasebook: PhrasebookSizes = PhrasebookSizes()
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
