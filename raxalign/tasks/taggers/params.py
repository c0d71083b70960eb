"""The options of taggers, what profiles and taggers fill in, and the settings that follow."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from raxalign.config.params import LATER, BaseParams
from raxalign.encoders.models.vectors import layer_ends, parse_layers
from raxalign.tasks.transfer import params as shared
from raxalign.tasks.transfer.outcome import Selection
from raxalign.train.options import SCHEDULE, Betas, Clip, Epsilon, RateSchedule, WeightDecay

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
        "schedule": "constant",
        "clip": 0.0,
    },
    "linear": {
        "learning_rate": 2e-5,
        "batch_size": 32,
        "epochs": 10,
        "max_length": 128,
        "dropout": 0.1,
        "schedule": "linear",
        "clip": 1.0,
    },
}
OF_BILSTM = ("crf", "layers", "hidden", "lstm_layers", "input_dropout")


LAST_FOUR = "last-four"


def feature_layers(layers: str, n_layers: int) -> tuple[int, ...]:
    """The layers that are added up: ``last-four`` (fewer where there are fewer blocks), or as
    `parse_layers` has them.

    >>> feature_layers("last-four", 12), feature_layers("last-four", 2), feature_layers("9-10", 12)
    ((9, 10, 11, 12), (1, 2), (9, 10))
    """
    if layers == LAST_FOUR:
        return tuple(range(max(1, n_layers - 3), n_layers + 1))
    return parse_layers(layers, n_layers)


def _named(layers: str) -> str:
    if layers != LAST_FOUR:
        try:
            layer_ends(layers)
        except ValueError as error:
            raise ValueError(f"{error} (or `{LAST_FOUR}`)") from None
    return layers


FeatureLayers = Annotated[str, AfterValidator(_named)]
"""A param that `feature_layers` reads."""


class SentenceCounts(BaseParams):
    """Sentences per language of the phrasebook."""

    train: shared.TrainingRows = 2000
    dev: shared.DevelopmentRows = 400
    test: shared.TestRows = 400


class FileColumns(BaseParams):
    """Columns of a file with one word per line, from 0; negative ones count from the end."""

    word: int
    """Column of the word."""
    tag: int
    """Column of its tag."""


class TaggingParams(shared.TransferParams):
    """The options that all taggers have. Options left at `none` take the value of the profile, or
    else of the tagger.
    """

    encoding: str = "utf-8"
    """Encoding of local files, for example latin-1."""
    columns: Annotated[FileColumns | None, LATER] = None
    """Columns of word and tag in local files with one word per line (none: the first and the last;
    the second and the third where the first has the number of each word).
    """
    mismatched: Annotated[Literal["refuse", "drop"], LATER] = "refuse"
    """Whether a row with other numbers of words and of tags, or a tag without a word, is an error
    (`refuse`), or is left out and counted (`drop`).
    """
    dataset: Annotated[str, shared.DATASET] = ""
    revision: Annotated[str, shared.REVISION] = "main"
    configs: dict[str, str] = Field(default_factory=dict)
    """Configuration of the hub's data set by language, where it is not the code."""
    phrasebook: Annotated[SentenceCounts, shared.PHRASEBOOK] = SentenceCounts()
    profile: Literal["paper", "sane"] = "sane"
    """Set of values for the options that are not given: `paper` is that of Kulshreshtha et al.
    (2020), `sane` that of XTREME.
    """
    tagger: Tagger | None = None
    """A linear layer on the encoder, which is fine-tuned (`linear`), or a BiLSTM and a CRF on
    features of the frozen encoder (`bilstm_crf`).
    """
    crf: Literal["static", "conditioned"] | None = None
    """Whether the CRF's scores of transitions are the same everywhere (`static`) or depend on the
    word (`conditioned`).
    """
    layers: FeatureLayers = LAST_FOUR
    """Layers of the frozen encoder whose sum is the features of `bilstm_crf`: `last-four`, `last`,
    one number or a range such as `9-12`.
    """
    hidden: int = Field(384, ge=1)
    """Width of the BiLSTM per direction."""
    lstm_layers: int = Field(2, ge=1)
    """Number of layers of the BiLSTM."""
    input_dropout: float = Field(0.5, ge=0, lt=1)
    """Dropout before the BiLSTM."""
    dropout: float | None = Field(None, ge=0, lt=1)
    selection: Selection | None = None
    evaluate_every: int | None = Field(None, ge=1)
    """Steps between two evaluations of the development sets (none: one epoch, or what the profile
    sets).
    """
    learning_rate: float | None = Field(None, gt=0)
    epochs: int | None = Field(None, ge=1)
    batch_size: int | None = Field(None, ge=1)
    max_length: int | None = Field(None, ge=8)
    warmup: float = Field(0.0, ge=0)
    schedule: Annotated[RateSchedule | None, SCHEDULE, LATER] = None
    weight_decay: Annotated[WeightDecay, LATER] = 0.0
    betas: Annotated[Betas, LATER] = "0.9 0.999"
    eps: Annotated[Epsilon[float], LATER] = 1e-8
    clip: Annotated[Clip[float | None], LATER] = None

    @field_validator("encoding")
    @classmethod
    def _one_that_extends_ascii(cls, name: str) -> str:
        """Refuses UTF-16 and the like: lines and columns are found in bytes."""
        try:
            same = "a\n".encode(name) == b"a\n"
        except (LookupError, UnicodeError):
            raise ValueError(
                f"unknown encoding {name!r}; for example utf-8, latin-1, cp1252"
            ) from None
        if not same:
            raise ValueError(f"{name} is not read; convert the file to UTF-8")
        return codecs.lookup(name).name
