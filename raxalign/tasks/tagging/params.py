"""The options of taggers, what profiles and taggers fill in, and the settings that follow."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, field_validator

from raxalign.config.params import BaseParams
from raxalign.tasks.tagging.feature_layers import LAST_FOUR, FeatureLayers
from raxalign.tasks.transfer.selection import Selection
from raxalign.tasks.transfer.task import TransferParams

Tagger = Literal["bilstm_crf", "linear"]
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "tagger": "bilstm_crf",
        "crf": "conditioned",
        "selection": "target-dev",
        "evaluate_every": 150,
    },
    "sane": {"tagger": "linear", "crf": "conditioned", "selection": "pivot-dev"},
}
TAGGERS: Mapping[str, Mapping[str, Any]] = {
    "bilstm_crf": {
        "learning_rate": 1e-4,
        "batch_size": 10,
        "epochs": 40,
        "max_length": 175,
        "dropout": 0.5,
    },
    "linear": {
        "learning_rate": 2e-5,
        "batch_size": 32,
        "epochs": 10,
        "max_length": 128,
        "dropout": 0.1,
    },
}
OF_BILSTM = ("crf", "layers", "hidden", "lstm_layers", "input_dropout")


class PhrasebookSizes(BaseParams):
    """Sentences a language that the phrasebook makes."""

    train: int = Field(2000, ge=1, le=30_000)
    dev: int = Field(400, ge=1, le=10_000)
    test: int = Field(400, ge=1, le=10_000)


class TaggingParams(TransferParams):
    """The options that all taggers have; see the tasks for what they mean."""

    encoding: str = "utf-8"
    dataset: str = ""
    revision: str = "main"
    configs: dict[str, str] = Field(default_factory=dict)
    phrasebook: PhrasebookSizes = PhrasebookSizes()
    profile: Literal["paper", "sane"] = "sane"
    tagger: Tagger | None = None
    crf: Literal["static", "conditioned"] | None = None
    layers: FeatureLayers = LAST_FOUR
    hidden: int = Field(384, ge=1)
    lstm_layers: int = Field(2, ge=1)
    input_dropout: float = Field(0.5, ge=0, lt=1)
    dropout: float | None = Field(None, ge=0, lt=1)
    selection: Selection | None = None
    evaluate_every: int | None = Field(None, ge=1)
    learning_rate: float | None = Field(None, gt=0)
    epochs: int | None = Field(None, ge=1)
    batch_size: int | None = Field(None, ge=1)
    max_length: int | None = Field(None, ge=8)
    warmup: float = Field(0.0, ge=0, le=1)
    max_train: int | None = Field(None, ge=1)

    @field_validator("encoding")
    @classmethod
    def _one_that_extends_ascii(cls, name: str) -> str:
        """Lines and columns are found in bytes: `utf-8`, `latin-1` and the like will do, UTF-16
        will not.
        """
        try:
            same = "a\n".encode(name) == b"a\n"
        except (LookupError, UnicodeError):
            raise ValueError(
                f"unknown encoding {name!r}; for example utf-8, latin-1, cp1252"
            ) from None
        if not same:
            raise ValueError(f"{name} is not read; convert the file to UTF-8")
        return codecs.lookup(name).name


@dataclass(frozen=True)
class TaggingSettings:
    """The options with every default filled in; `entities` says that tags are BIO and the score is
    the entities' F1.
    """

    entities: bool
    tagger: Tagger
    crf: Literal["static", "conditioned"]
    layers: str
    hidden: int
    lstm_layers: int
    input_dropout: float
    dropout: float
    selection: Selection
    evaluate_every: int | None
    learning_rate: float
    epochs: int
    batch_size: int
    max_length: int
    warmup: float

    @property
    def main_metric(self) -> str:
        """What the choice of weights goes by."""
        return "f1" if self.entities else "accuracy"
