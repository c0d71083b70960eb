"""The options of transfer tasks, each declared once: data and its sources, the names that
data has for languages, readouts, and the training.

The `Params` of a room give the options of the training their defaults: ``learning_rate: float =
Field(5e-5, gt=0)``. Those that are not declared here are in `raxalign.train.options`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from raxalign.corpora.readers.hub import HubRows, dataset_revision, load_rows
from raxalign.options.params import LATER, BaseParams, Removed
from raxalign.options.sources import HubMarker, LocalFile, RemoteData, Source, TaskPath
from raxalign.store.key import digest
from raxalign.tasks.base import Task
from raxalign.train.options import TrainSettings, pair_of

if TYPE_CHECKING:
    from datasets import Dataset

Selection = Literal["pivot-dev", "mean-dev", "target-dev", "last"]


Split = Literal["train", "dev", "test"]
LanguageNames = Mapping[str, str]
"""Language code -> the data set's own name of the language; codes that are missing are their own
name.
"""


class DataFiles(BaseParams):
    """Paths of local files, one per split; {lang}, {pivot} and {source} in a path are languages."""

    train: TaskPath
    """Training file: of the pivot, or of each language trained on or drawn from."""
    dev: TaskPath | None = None
    """Development file of each language (none: it is not reported)."""
    test: TaskPath | None = None
    """Test file of each language (none: it is not reported)."""


@dataclass(frozen=True)
class HubSet:
    """A configuration of a data set of the hub, at a branch, tag or commit, or of a local copy (an
    absolute path); `part` is what the ids of a language's rows begin with, where one configuration
    has several languages.
    """

    dataset: str
    config: str
    revision: str
    part: str = ""

    def sources(self, name: str) -> dict[str, Source]:
        """Return what is read of it, called `name`: the set, whose rows are fetched when they are
        read, or each file of a local copy, which has no revision. Keys have the configuration too,
        since the files do not say which one is read.
        """
        dataset, revision, part = self.dataset, self.revision, f"#{self.part}" if self.part else ""
        if Path(dataset).is_absolute():
            return {**LocalFile.within(Path(dataset), f"{name}/{self.config}{part}")}
        remote = f"hub:{dataset}/{self.config}@{revision}{part}"
        parts = (HubRows(remote, dataset, self.config, revision),)
        return {
            name: RemoteData(remote, revision, lambda _: dataset_revision(dataset, revision), parts)
        }

    def at(self, digests: Mapping[str, str], name: str, lang: str) -> HubSet:
        """Return the set in the state that was planned, by the digests of its `sources` in a
        language: at a commit, or at one digest of the files of a local copy.
        """
        if not Path(self.dataset).is_absolute():
            return replace(self, revision=digests.get(f"{name}/{lang}", self.revision))
        end = f"/{lang}"
        files = {n.removesuffix(end): d for n, d in digests.items() if n.endswith(end)}
        own = {n: d for n, d in files.items() if n.startswith(f"{name}/")}
        return replace(self, revision=digest(own)) if own else self

    def read(self, split: str, cache: Path | None) -> tuple[str, Dataset]:
        """Return the name in messages and the rows of a split, where `dev` is `validation`; `cache`
        takes what is downloaded (None: the hub's own folder does). Raises `DataError` where it
        cannot be loaded, or does not have the split, and `TransientError` where the hub cannot be
        reached.
        """
        split = "validation" if split == "dev" else split
        rows = load_rows(self.dataset, self.config, split, self.revision, cache)
        return f"{self.dataset}/{self.config}:{split}", rows


CodeSwitching = Annotated[
    Literal["none", "sentence"],
    Field(
        description=(
            "Whether each translated training example of two texts is replaced by two, one text of"
            " each in its own language and the other in the pivot (`sentence`)."
        )
    ),
]
DATASET = Field(
    description=(
        "Data set of the hub, by its name there or as the folder of a local copy of its"
        " repository, for `data: hub`."
    )
)
REVISION = Field(
    description="Branch, tag or commit of the data set of the hub; a local copy has none."
)
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


_FURTHER = (
    "leave it out: no model is trained further on few examples of a language; `raxalign export`"
    " gives the encoder for a program of your own that does it"
)


OF_PAPERS = (
    "leave it out: the task trains as its paper does; `xnli` and `mlqa` have options where papers"
    " differ, and a plug-in may declare them for data of its own"
)


def of_phrasebook(train: int, dev: int, test: int) -> dict[str, Removed]:
    """Return the numbers of rows of the phrasebook, as an option that only tasks declare whose rows
    it has, by those that the others have.
    """
    sizes = {"train": train, "dev": dev, "test": test}
    told = "leave it out: the phrasebook has no rows of this task; a plug-in that makes rows may"
    return {"phrasebook": Removed(f"{told} declare it", keyed=sizes)}


def of_papers(options: Mapping[str, object]) -> dict[str, Removed]:
    """Return options that only tasks of papers declare, by the value that the others have; it is in
    no key.
    """
    return {name: Removed(OF_PAPERS, default=value) for name, value in options.items()}


ADAM: Mapping[str, Any] = {"weight_decay": 0.0, "betas": "0.9 0.999", "eps": 1e-8, "clip": 0.0}
"""The optimiser of a training whose task does not say otherwise."""


class TransferParams(Task.Params):
    """Data, readouts, and what the training has of both."""

    removed: ClassVar[Mapping[str, Removed]] = {
        "shots": Removed(_FURTHER, default=[0]),
        "draws": Removed(_FURTHER, default=1),
        "shot_epochs": Removed(_FURTHER, default=50),
        "shot_learning_rate": Removed(_FURTHER, default=None),
        "average": Removed(
            "leave it out: weights are those of one epoch, which `selection` chooses", default=None
        ),
    }
    data: Literal["hub", "phrasebook"] | DataFiles = "hub"
    """Where the rows come from: a data set of the hub, the phrasebook that raxalign carries, or
    local files.
    """
    codes: Annotated[dict[str, str], LATER] = Field(default_factory=dict)
    """The data's own codes for languages, by language (`{ha: hau}`), in paths, configurations of
    the hub and columns, where they differ from those of the grid.
    """
    readout: Literal["keep", "refit"] | None = None
    """Whether a method's post-hoc maps are fitted again on the encoder that this training run left
    (`refit`), or kept as they were fitted before it (`keep`) (none: `refit` where the training run
    changes the encoder and leaves the weights of one epoch, else `keep`).
    """
    selection: Selection | None
    """What chooses the weights that are evaluated: the pivot's development set, the mean of all of
    them, each language's own (then the result is not zero-shot), or nothing (the `last` ones).
    """
    learning_rate: float | None = Field(gt=0)
    """Learning rate at the end of the warm-up."""
    epochs: int | None = Field(ge=1)
    """Passes over the training data."""
    batch_size: int | None = Field(ge=1)
    """Training rows per step: examples, sentences, or windows of a context; with code-switching the
    two mixes of an example or window count as one.
    """
    max_length: int | None = Field(ge=8)
    """Largest number of subword tokens per row, special ones included; longer rows are cut or
    divided, also where the encoder has fewer positions.
    """
    warmup: float = Field(ge=0)
    """Steps over which the learning rate rises linearly: below 1 a share of all steps, from 1 on a
    number of steps.
    """
    dropout: float | None = Field(ge=0, lt=1)
    """Dropout before the output layer, and after the layers of a BiLSTM."""
    max_train: int | None = Field(None, ge=1)
    """Number of training rows of each language that are used, from the beginning (none: all)."""

    @field_validator("dataset", check_fields=False)
    @classmethod
    def _place(cls, name: str, info: ValidationInfo) -> str:
        """A `dataset`, which each task declares with a default of its own, may be a local copy."""
        folder = (info.context or {}).get("folder")
        return HubMarker().resolve(name, folder) if folder and name else name

    @property
    def optimizer(self) -> Mapping[str, Any]:
        """What the training has where the task does not declare an option of that name."""
        return ADAM

    def settings(self) -> TrainSettings:
        """Return the settings of a training with these options, of which none is None."""
        same = ("learning_rate", "batch_size", "epochs", "warmup", "schedule")
        given = {name: getattr(self, name) for name in same}
        adam = {name: getattr(self, name, value) for name, value in self.optimizer.items()}
        adam |= {"betas": pair_of(adam["betas"]), "clip": adam["clip"] or None}
        return TrainSettings(**given, **adam)


class SettingParams(TransferParams):
    """Options on what is trained on and which epoch is evaluated; each task lists its settings."""

    removed: ClassVar[Mapping[str, Removed]] = {
        "code_switching": Removed(OF_PAPERS, keyed="none"),
    }
    setting: str
    """What is trained on: the pivot (`zero-shot`, and `g-xlt` where a task has it), or the
    translations of its training data into all languages (`translate-train`).
    """
    selection: Selection = "pivot-dev"
    epochs: int = Field(3, ge=1)
    batch_size: int = Field(32, ge=1)
    warmup: float = Field(0.1, ge=0)
