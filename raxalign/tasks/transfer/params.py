"""The options of transfer tasks, each declared once: data and its sources, the names that
data has for languages, readouts, and the training.

The `Params` of a room name all options of the training and give their defaults: ``learning_rate:
LearningRate[float] = 5e-5``. Those that are not declared here are in `raxalign.train.options`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field

from raxalign.config.params import LATER, BaseParams
from raxalign.config.sources import DataPath, RemoteData, expand_path
from raxalign.corpora.readers.codes import own_code
from raxalign.corpora.readers.hub import HubRows, load_rows
from raxalign.tasks.base import Task
from raxalign.tasks.transfer.few_shot import Averaged, Draws, ShotEpochs, ShotLearningRate, Shots
from raxalign.tasks.transfer.outcome import Selection
from raxalign.train.loop import TrainSettings
from raxalign.train.options import pair_of

if TYPE_CHECKING:
    from datasets import Dataset

Split = Literal["train", "dev", "test"]
LanguageNames = Mapping[str, str]
"""Language code -> the data set's own name of the language; codes that are missing are their own
name.
"""


def path_of(template: str, lang: str, pivot: str, names: LanguageNames) -> Path:
    """Return the file of one language: {lang} and {pivot} become the data set's names.

    >>> str(path_of("{lang}/train.txt", "sw", "en", {"sw": "swa"}))
    'swa/train.txt'
    """
    return expand_path(template, lang=own_code(lang, names), pivot=own_code(pivot, names))


class DataFiles(BaseParams):
    """Paths of local files, one per split; {lang} and {pivot} in a path stand for languages."""

    train: DataPath
    """Training file: of the pivot, or of each language trained on or drawn from."""
    dev: DataPath | None = None
    """Development file of each language (none: it is not reported)."""
    test: DataPath | None = None
    """Test file of each language (none: it is not reported)."""


@dataclass(frozen=True)
class HubSet:
    """A configuration of a data set of the hub, at a branch, tag or commit; `part` is what the ids
    of a language's rows begin with, where one configuration has several languages.
    """

    dataset: str
    config: str
    revision: str
    part: str = ""

    def source(self) -> RemoteData:
        """Return its name in keys and lock files, pinned where the revision is a commit."""
        pin = self.revision if re.fullmatch(r"[0-9a-f]{40}", self.revision) else None
        part = f"#{self.part}" if self.part else ""
        return RemoteData(f"hub:{self.dataset}/{self.config}@{self.revision}{part}", pin)

    def remotes(self) -> tuple[HubRows, ...]:
        """Return its files on the hub; none of a local copy."""
        if Path(self.dataset).is_dir():
            return ()
        return (HubRows(self.source().name, self.dataset, self.config, self.revision),)

    def at(self, revision: str | None) -> HubSet:
        """Return the set at a commit, where that is known."""
        return self if revision is None else replace(self, revision=revision)

    def read(self, split: str, cache: Path | None) -> tuple[str, Dataset]:
        """Return the name in messages and the rows of a split, where `dev` is `validation`; `cache`
        takes what is downloaded (None: the hub's own folder does). Raises `DataError` where it
        cannot be loaded, or does not have the split, and `TransientError` where the hub cannot be
        reached.
        """
        split = "validation" if split == "dev" else split
        rows = load_rows(self.dataset, self.config, split, self.revision, cache)
        return f"{self.dataset}/{self.config}:{split}", rows


DATA = Field(
    description=(
        "Where the rows come from: a data set of the hub, the phrasebook that raxalign carries, or"
        " local files."
    )
)
DATASET = Field(
    description=(
        "Data set of the hub, by its name there or as a local copy of its repository, for `data:"
        " hub`."
    )
)
REVISION = Field(description="Branch, tag or commit of the data set of the hub.")
PHRASEBOOK = Field(
    description=(
        "Rows per language of the phrasebook, for `data: phrasebook`; raxalign's own tasks have no"
        " more than by default."
    )
)
_OF_TRAINING = "Training rows, less those that another split has too."
TrainingRows = Annotated[int, Field(ge=1, description=_OF_TRAINING)]
DevelopmentRows = Annotated[int, Field(ge=1, description="Development rows.")]
TestRows = Annotated[int, Field(ge=1, description="Test rows.")]


class TransferParams(Task.Params):
    """Data, readouts, few examples of the target languages, and averages of weights."""

    data: Annotated[Literal["hub", "phrasebook"] | DataFiles, DATA] = "hub"
    codes: Annotated[dict[str, str], LATER] = Field(default_factory=dict)
    """The data's own codes for languages, by language (`{ha: hau}`), in paths, configurations of
    the hub and columns, where they differ from those of the grid.
    """
    readout: Literal["keep", "refit"] | None = None
    """Whether a method's readouts are fitted again on the encoder that this training left
    (`refit`), or kept as they were fitted before it (`keep`) (none: `refit` where the training
    changes the encoder and leaves the weights of one epoch, else `keep`).
    """
    shots: Annotated[Shots, LATER] = (0,)
    draws: Annotated[Draws, LATER] = 1
    shot_epochs: Annotated[ShotEpochs, LATER] = 50
    shot_learning_rate: Annotated[ShotLearningRate, LATER] = None
    average: Annotated[Averaged, LATER] = None


SETTING = Field(
    description=(
        "What is trained on: the pivot (`zero-shot`, and `g-xlt` where a task has it), or the"
        " translations of its training data into all languages (`translate-train`)."
    )
)
SELECTION = Field(
    description=(
        "What chooses the weights that are evaluated: the pivot's development set, the mean of all"
        " of them, each language's own (then the result is not zero-shot), or nothing (the `last`"
        " ones)."
    )
)
_T = TypeVar("_T", int, int | None, float, float | None)
LearningRate = Annotated[_T, Field(gt=0, description="Learning rate at the end of the warm-up.")]
Epochs = Annotated[_T, Field(ge=1, description="Passes over the training data.")]
BatchSize = Annotated[
    _T,
    Field(
        ge=1,
        description=(
            "Training rows per step: examples, sentences, or windows of a context; with"
            " code-switching the two mixes of an example or window count as one."
        ),
    ),
]
Warmup = Annotated[
    float,
    Field(
        ge=0,
        description=(
            "Steps over which the learning rate rises linearly: below 1 a share of all steps, from"
            " 1 on a number of steps."
        ),
    ),
]
_DROPOUT = "Dropout before the output layer, and after the layers of a BiLSTM."
Dropout = Annotated[_T, Field(ge=0, lt=1, description=_DROPOUT)]
MaxLength = Annotated[
    _T,
    Field(
        ge=8,
        description=(
            "Largest number of pieces per row, special ones included; longer rows are cut or"
            " divided, also where the encoder has fewer positions."
        ),
    ),
]
_MAX_TRAIN = (
    "Number of training rows of each language that are used, from the beginning (none: all)."
)
MaxTrain = Annotated[int | None, Field(ge=1, description=_MAX_TRAIN)]


class SettingParams(TransferParams):
    """Options on what is trained on and which epoch is evaluated; each task lists its settings."""

    setting: Annotated[str, SETTING]
    code_switching: Literal["none", "sentence"] = "none"
    """Whether each translated training example of two texts is replaced by two, one text of each in
    its own language and the other in the pivot (`sentence`).
    """
    selection: Annotated[Selection, SELECTION] = "pivot-dev"
    epochs: Epochs[int] = 3
    batch_size: BatchSize[int] = 32
    warmup: Warmup = 0.1
    max_train: MaxTrain = None


def settings_of(options: Any) -> TrainSettings:
    """Return the settings of a training with these options."""
    same = ("learning_rate", "batch_size", "epochs", "warmup", "schedule", "eps", "weight_decay")
    given = {name: getattr(options, name) for name in same}
    return TrainSettings(**given, betas=pair_of(options.betas), clip=options.clip or None)
