"""The options of a task that classifies pairs of sentences."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from raxalign.config.params import BaseParams
from raxalign.tasks.transfer.pairs import PairParams


class PhrasebookSizes(BaseParams):
    """Examples a language that the phrasebook makes."""

    train: int = Field(3000, ge=1)
    dev: int = Field(600, ge=1)
    test: int = Field(600, ge=1)


class ClassificationParams(PairParams):
    """What is trained on and how; see `xnli` for what the options mean. A task says the name of its
    data set.
    """

    setting: Literal["zero-shot", "translate-train"] = "zero-shot"
    dataset: str
    revision: str = "main"
    phrasebook: PhrasebookSizes = PhrasebookSizes()
    learning_rate: float = Field(5e-5, gt=0)
    epochs: int = Field(3, ge=1)
    batch_size: int = Field(32, ge=1)
    max_length: int = Field(128, ge=8)
    warmup: float = Field(0.1, ge=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    max_train: int | None = Field(None, ge=1)
