"""The options of taggers, what profiles and taggers fill in, and the settings that follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from raxalign.config.params import LATER, BaseParams, Removed
from raxalign.encoders.models.vectors import layer_ends, parse_layers
from raxalign.tasks.transfer import params as shared
from raxalign.tasks.transfer.outcome import Selection
from raxalign.train.options import SCHEDULE, Betas, Clip, Epsilon, RateSchedule, WeightDecay

Tagger = Literal["bilstm_crf", "linear"]
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "tagger": "bilstm_crf",
        "selection": "target-dev",
    },
    "sane": {"tagger": "linear", "selection": "pivot-dev"},
}
EVALUATE_EVERY: Mapping[str, int | None] = {"paper": 150, "sane": None}
"""Steps between two evaluations of the development sets, by profile (None: one epoch)."""
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


class TaggingParams(shared.TransferParams):
    """The options that all taggers have. Options left at `none` take the value of the profile, or
    else of the tagger.
    """

    removed: ClassVar[Mapping[str, Removed]] = {
        "configs": Removed("write them in `codes`"),
        "encoding": Removed("convert files to UTF-8, for example with `iconv -f LATIN1 -t UTF-8`"),
        "columns": Removed("files have the word first and the tag last; `cut -f` picks columns"),
        "crf": Removed("the CRF is the conditioned one", keyed="conditioned"),
        "lstm_layers": Removed("the BiLSTM has 2 layers", keyed=2),
        "input_dropout": Removed("dropout before the BiLSTM is 0.5", keyed=0.5),
        "evaluate_every": Removed("weights are chosen after each epoch, or as the profile has it"),
    }
    mismatched: Annotated[Literal["refuse", "drop"], LATER] = "refuse"
    """Whether a row with other numbers of words and of tags, or a tag without a word, is an error
    (`refuse`), or is left out and counted (`drop`).
    """
    dataset: Annotated[str, shared.DATASET] = ""
    revision: Annotated[str, shared.REVISION] = "main"
    phrasebook: Annotated[SentenceCounts, shared.PHRASEBOOK] = SentenceCounts()
    profile: Literal["paper", "sane"] = "sane"
    """Set of values for the options that are not given: `paper` is that of Kulshreshtha et al.
    (2020), `sane` that of XTREME.
    """
    tagger: Tagger | None = None
    """A linear layer on the encoder, which is fine-tuned (`linear`), or a BiLSTM and a CRF, whose
    scores of transitions depend on the word, on features of the frozen encoder (`bilstm_crf`).
    """
    layers: FeatureLayers = LAST_FOUR
    """Layers of the frozen encoder whose sum is the features of `bilstm_crf`: `last-four`, `last`,
    one number or a range such as `9-12`.
    """
    hidden: int = Field(384, ge=1)
    """Width of the BiLSTM per direction."""
    dropout: float | None = Field(None, ge=0, lt=1)
    selection: Selection | None = None
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
