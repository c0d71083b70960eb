"""What `ner`, `slots` and `pos` have in common: options, sources, training and evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from raxalign.config.sources import differs_by_language
from raxalign.sample import Ratios, Sample, of_ratio
from raxalign.tasks.base import Outcome, Reads, TaskInputs
from raxalign.tasks.tagging.feature_layers import feature_layers
from raxalign.tasks.tagging.params import (
    OF_BILSTM,
    PROFILES,
    TAGGERS,
    TaggingParams,
    TaggingSettings,
)
from raxalign.tasks.transfer.selection import kept
from raxalign.tasks.transfer.task import DataFiles, HubSet, TransferTask

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.corpora.readers.inspection import FileRead
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.vectors import Pooling
    from raxalign.train.runtime import Runtime

_RATIOS: Ratios = {
    "f1": (("n_right", "n_right"), ("n_gold", "n_predicted")),
    "precision": (("n_right",), ("n_predicted",)),
    "recall": (("n_right",), ("n_gold",)),
    "accuracy": (("n_tokens_right",), ("n_tokens",)),
}


class TaggingTask(TransferTask):
    """Zero-shot transfer of a tagger that is trained on the pivot. Subclasses say what their tags
    are.
    """

    entities: ClassVar[bool]
    linear_epochs: ClassVar[int] = 10
    predicts = frozenset({"id", "label", "n_tokens", "n_tokens_right", "predicted", "words"})

    class Params(TaggingParams):
        """Those of `TaggingParams`."""

    params: TaggingParams

    def resolved(self) -> dict[str, Any]:
        """The params by their names, with the values of profile and tagger where none is given."""
        profile, given = PROFILES[self.params.profile], self.params.identity()
        tagger = given["tagger"] or profile["tagger"]
        defaults = {
            **TAGGERS[tagger],
            **({"epochs": self.linear_epochs} if tagger == "linear" else {}),
            **profile,
        }
        return {
            name: defaults.get(name) if value is None else value for name, value in given.items()
        }

    def settings(self) -> TaggingSettings:
        """The options of training and choice."""
        resolved = self.resolved()
        return TaggingSettings(
            self.entities, *(resolved[name] for name in list(TaggingSettings.__annotations__)[1:])
        )

    def canonical(self) -> dict[str, Any]:
        """The resolved options without the profile's name, without what names data (its own
        identity enters the key), and without idle ones.
        """
        resolved = self.resolved()
        idle = {"profile", "dataset", "revision", "configs"}
        idle |= set() if self.params.data == "phrasebook" else {"phrasebook"}
        idle |= set(OF_BILSTM) if resolved["tagger"] == "linear" else set()
        idle |= {"readout"} if resolved["readout"] == "keep" else set()
        idle |= (
            {"encoding"}
            if resolved["encoding"] == "utf-8" or isinstance(self.params.data, str)
            else set()
        )
        idle |= {"evaluate_every"} if resolved["selection"] == "last" else set()
        return {name: value for name, value in resolved.items() if name not in idle}

    def reads(self, n_layers: int) -> Reads:
        """The last layer, which `linear` trains with all below; of a frozen encoder `layers`."""
        if self.resolved()["tagger"] == "linear":
            return Reads(frozenset({n_layers}), tunes=True)
        return Reads(frozenset(feature_layers(self.params.layers, n_layers)))

    def training(self) -> Mapping[str, object]:
        """All options but what is done with the weights afterwards: the choice of weights is made
        while they are there.
        """
        return {name: value for name, value in self.canonical().items() if name != "readout"}

    def reads_words(self) -> Pooling:
        """The first piece, which both taggers label a word by."""
        return "first"

    def training_languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """The pivot, and all where their development sets choose."""
        alone = self.resolved()["selection"] in ("pivot-dev", "last")
        return (pivot,) if alone else self.languages(languages, pivot)

    # - the pivot's is as all are
    def hub_sets(self, lang: str, pivot: str) -> Mapping[str, HubSet]:  # noqa: ARG002
        """The data set, with the language's configuration."""
        return {
            "hub": HubSet(
                self.params.dataset, self.params.configs.get(lang, lang), self.params.revision
            )
        }

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """One training file per language, a choice by a development set that is not given,
        languages that the phrasebook or the hub's set lacks.
        """
        data, faults = self.params.data, super().check(languages, pivot)
        if isinstance(data, DataFiles):
            if differs_by_language(data.train):
                faults.append(
                    "data.train holds {lang}: zero-shot training reads the pivot alone; write"
                    " {pivot}"
                )
            if any(
                path is not None and not differs_by_language(path) for path in (data.dev, data.test)
            ):
                faults.append(
                    "data.dev and data.test: need one file per language: put {lang} in the path"
                )
            if data.dev is None and (selection := self.resolved()["selection"]) != "last":
                faults.append(
                    f"selection: {selection} needs data.dev; without one write `selection: last`"
                )
            if data.dev is None and data.test is None:
                faults.append("data has neither dev nor test: there is nothing to evaluate")
        resolved = self.resolved()
        if self.refit() is not None and (
            resolved["tagger"] != "linear" or kept(resolved["selection"]) == "every"
        ):
            faults.append(
                "readout: refit fits on the one encoder that a training keeps: it needs `tagger:"
                " linear` and `selection: pivot-dev` or `last`"
            )
        if data == "hub" and not self.params.dataset:
            faults.append("data: hub needs the name of a data set (dataset)")
        return faults

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Reads all splits, with their tags; a file that is evaluated and mostly trained on is a
        fault.
        """
        if isinstance(self.params.data, DataFiles):
            yield from self.data(TaskInputs(pivot)).read_files(self.languages(languages, pivot))

    def train(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,
        folder: Path,
    ) -> Mapping[str, object]:
        """Train on the pivot's data, one tagger, or one a direction where the pivot's transforms
        differ by language.
        """
        from raxalign.tasks.tagging.training import train

        return train(self.settings(), self.data(inputs), aligned, languages, runtime, folder)

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """Every metric, by counts per sentence."""
        return of_ratio(rows, metric, _RATIOS)

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,
    ) -> Outcome:
        """Scores of every language on the splits that are given, by the weights that `selection`
        chose.
        """
        from raxalign.tasks.tagging.evaluation import evaluate

        assert trained is not None, "the plan makes the training first"
        return evaluate(self.settings(), self.data(inputs), aligned, languages, trained)

    def data(self, inputs: TaskInputs) -> Any:
        """The reader of the task's sentences (`TaggingData`)."""
        from raxalign.tasks.tagging.data import TaggingData

        return TaggingData(self.params, type(self).__name__.lower(), inputs)
