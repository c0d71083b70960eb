"""What `ner`, `slots` and `pos` have in common: options, sources, training and evaluation."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from raxalign.config.params import BaseParams
from raxalign.config.sources import DataPath, LocalFile, RemoteData, Source, differs_by_language, expand_path
from raxalign.corpora.readers.hub import dataset_revision
from raxalign.tasks.base import Outcome, Reads, Task, TaskInputs
from raxalign.tasks.tagging.feature_layers import LAST_FOUR, FeatureLayers, feature_layers
from raxalign.tasks.transfer.selection import Selection, kept

if TYPE_CHECKING:
    from raxalign.corpora.readers.inspection import FileRead
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.vectors import Pooling
    from raxalign.train.runtime import Runtime

Tagger = Literal["bilstm_crf", "linear"]
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PROFILES: Mapping[str, Mapping[str, Any]] = {
    "paper": {"tagger": "bilstm_crf", "crf": "conditioned", "selection": "target-dev", "evaluate_every": 150},
    "sane": {"tagger": "linear", "crf": "conditioned", "selection": "pivot-dev"},
}
_TAGGERS: Mapping[str, Mapping[str, Any]] = {
    "bilstm_crf": {"learning_rate": 1e-4, "batch_size": 10, "epochs": 40, "max_length": 175, "dropout": 0.5},
    "linear": {"learning_rate": 2e-5, "batch_size": 32, "epochs": 10, "max_length": 128, "dropout": 0.1},
}
_OF_BILSTM = ("crf", "layers", "hidden", "lstm_layers", "input_dropout")


class TaggedFiles(BaseParams):
    """Files of tagged sentences; a split that is not given is not reported."""

    train: DataPath
    dev: DataPath | None = None
    test: DataPath | None = None


class PhrasebookSizes(BaseParams):
    """Sentences a language that the phrasebook makes."""

    train: int = Field(2000, ge=1, le=30_000)
    dev: int = Field(400, ge=1, le=10_000)
    test: int = Field(400, ge=1, le=10_000)


class TaggingParams(Task.Params):
    """The options that all taggers have; see the tasks for what they mean."""

    data: Literal["hub", "phrasebook"] | TaggedFiles
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
    readout: Literal["keep", "refit"] = "keep"
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
        """Lines and columns are found in bytes: `utf-8`, `latin-1` and the like will do, UTF-16 will not."""
        try:
            same = "a\n".encode(name) == b"a\n"
        except (LookupError, UnicodeError):
            raise ValueError(f"unknown encoding {name!r}; for example utf-8, latin-1, cp1252") from None
        if not same:
            raise ValueError(f"{name} is not read; convert the file to UTF-8")
        return codecs.lookup(name).name


@dataclass(frozen=True)
class TaggingSettings:
    """The options with every default filled in; `entities` says that tags are BIO and the score is the entities' F1."""

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


class TaggingTask(Task):
    """Zero-shot transfer of a tagger that is trained on the pivot. Subclasses say what their tags are."""

    entities: ClassVar[bool]
    linear_epochs: ClassVar[int] = 10

    class Params(TaggingParams):
        """Those of `TaggingParams`."""

    params: TaggingParams

    def resolved(self) -> dict[str, Any]:
        """The params by their names, with the values of profile and tagger where none is given."""
        profile, given = _PROFILES[self.params.profile], self.params.identity()
        tagger = given["tagger"] or profile["tagger"]
        defaults = {**_TAGGERS[tagger], **({"epochs": self.linear_epochs} if tagger == "linear" else {}), **profile}
        return {name: defaults.get(name) if value is None else value for name, value in given.items()}

    def settings(self) -> TaggingSettings:
        """The options of training and choice."""
        resolved = self.resolved()
        return TaggingSettings(self.entities, *(resolved[name] for name in list(TaggingSettings.__annotations__)[1:]))

    def canonical(self) -> dict[str, Any]:
        """The resolved options without the profile's name, without what names data (its own identity enters the key), and without idle ones."""
        resolved = self.resolved()
        idle = {"profile", "dataset", "revision", "configs"}
        idle |= set() if self.params.data == "phrasebook" else {"phrasebook"}
        idle |= set(_OF_BILSTM) if resolved["tagger"] == "linear" else set()
        idle |= {"readout"} if resolved["readout"] == "keep" else set()
        idle |= {"encoding"} if resolved["encoding"] == "utf-8" or isinstance(self.params.data, str) else set()
        idle |= {"evaluate_every"} if resolved["selection"] == "last" else set()
        return {name: value for name, value in resolved.items() if name not in idle}

    def reads(self, n_layers: int) -> Reads:
        """The last layer, which `linear` trains with all below; of a frozen encoder `layers`."""
        if self.resolved()["tagger"] == "linear":
            return Reads(frozenset({n_layers}), tunes=True)
        return Reads(frozenset(feature_layers(self.params.layers, n_layers)))

    def training(self) -> Mapping[str, object]:
        """All options but what is done with the weights afterwards: the choice of weights is made while they are there."""
        return {name: value for name, value in self.canonical().items() if name != "readout"}

    def refits(self) -> bool:
        """Where `readout: refit` is asked for."""
        return self.params.readout == "refit"

    def reads_words(self) -> Pooling:
        """The first piece, which both taggers label a word by."""
        return "first"

    def training_languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """The pivot, and all where their development sets choose."""
        alone = self.resolved()["selection"] in ("pivot-dev", "last")
        return (pivot,) if alone else self.languages(languages, pivot)

    def languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """The pivot first, then all."""
        return (pivot, *(lang for lang in languages if lang != pivot))

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Files of a language (training data of the pivot alone), or the hub's."""
        data = self.params.data
        if isinstance(data, TaggedFiles):
            paths = {"train": data.train if lang == pivot else None, "dev": data.dev, "test": data.test}
            return {split: LocalFile(expand_path(path, lang=lang, pivot=pivot)) for split, path in paths.items() if path}
        if data == "phrasebook":
            return {}
        revision = self.params.revision
        pin = revision if _COMMIT.fullmatch(revision) else None
        return {"hub": RemoteData(f"hub:{self.params.dataset}/{self.params.configs.get(lang, lang)}@{revision}", pin)}

    def fetch(self, lang: str, pivot: str, downloads: Path) -> Mapping[str, str]:  # noqa: ARG002
        """The commit that the hub's data set is at; the rows are fetched when they are read."""
        source = self.sources(lang, pivot).get("hub")
        if not isinstance(source, RemoteData):
            return {}
        return {source.name: source.pin or dataset_revision(self.params.dataset, self.params.revision)}

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """A training file a language, a choice by a development set that is not given, languages that the phrasebook or the hub's set lacks."""
        data, faults, covered = self.params.data, [], self.languages(languages, pivot)
        if data == "phrasebook":
            from raxalign.corpora.grammar import LANGS

            missing = [lang for lang in covered if lang not in LANGS]
            faults += [f"data: phrasebook has no {', '.join(missing)}; it has {', '.join(LANGS)}"] if missing else []
        if isinstance(data, TaggedFiles):
            if differs_by_language(data.train):
                faults.append("data.train holds {lang}: zero-shot training reads the pivot alone; write {pivot}")
            if any(path is not None and not differs_by_language(path) for path in (data.dev, data.test)):
                faults.append("data.dev and data.test are a file a language: write {lang} in their paths")
            if data.dev is None and (selection := self.resolved()["selection"]) != "last":
                faults.append(f"selection: {selection} needs data.dev; without one write `selection: last`")
            if data.dev is None and data.test is None:
                faults.append("data has neither dev nor test: there is nothing to evaluate")
        resolved = self.resolved()
        if self.refits() and (resolved["tagger"] != "linear" or kept(resolved["selection"]) == "every"):
            faults.append(
                "readout: refit fits on the one encoder that a training keeps: it needs `tagger: linear` and `selection: pivot-dev` or `last`"
            )
        if data == "hub" and not self.params.dataset:
            faults.append("data: hub needs the name of a data set (dataset)")
        return faults

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Reads all splits, with their tags; a file that is evaluated and mostly trained on is a fault."""
        if isinstance(self.params.data, TaggedFiles):
            yield from self.data(TaskInputs(pivot)).read_files(self.languages(languages, pivot))

    def train(self, aligned: AlignedEncoder, languages: tuple[str, ...], inputs: TaskInputs, runtime: Runtime, folder: Path) -> Mapping[str, object]:
        """Train on the pivot's data, one tagger, or one a direction where the pivot's transforms differ by language."""
        from raxalign.tasks.tagging.training import train

        return train(self.settings(), self.data(inputs), aligned, languages, runtime, folder)

    def evaluate(self, aligned: AlignedEncoder, languages: tuple[str, ...], inputs: TaskInputs, runtime: Runtime, trained: Path | None) -> Outcome:  # noqa: ARG002
        """Scores of every language on the splits that are given, by the weights that `selection` chose."""
        from raxalign.tasks.tagging.evaluation import evaluate

        assert trained is not None, "the plan makes the training first"
        return evaluate(self.settings(), self.data(inputs), aligned, languages, trained)

    def data(self, inputs: TaskInputs) -> Any:
        """The reader of the task's sentences (`TaggingData`)."""
        from raxalign.tasks.tagging.data import TaggingData

        return TaggingData(self.params, type(self).__name__.lower(), inputs)
