"""What tagging tasks have in common: tags, columns, options, training and evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from raxalign.config.sources import differs_by_language
from raxalign.sample import Ratios, Sample, of_ratio
from raxalign.tasks.base import Outcome, Reads, SharedRows, TaskInputs
from raxalign.tasks.tagging.feature_layers import feature_layers
from raxalign.tasks.tagging.metrics import ENTITIES_MEASURED, WORDS_MEASURED
from raxalign.tasks.tagging.params import (
    OF_BILSTM,
    PROFILES,
    TAGGERS,
    TaggingParams,
    TaggingSettings,
    config_of,
)
from raxalign.tasks.tagging.scheme import Made, Split, TagColumns, TagScheme
from raxalign.tasks.transfer.selection import Selection
from raxalign.tasks.transfer.settings import split_faults
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
METRICS = tuple(_RATIOS)
"""The scores of entities, the usual main one first; other tags have `accuracy` alone."""


class TaggingTask(TransferTask):
    """Zero-shot transfer of a tagger that is trained on the pivot. A subclass gives its tags and
    where its data has them.
    """

    entities: ClassVar[bool] = True
    """Whether tags are O, B-type and I-type, and mark entities."""
    labels: ClassVar[tuple[str, ...]] = ()
    """All types of entities, or all tags. Without them they are those of the data."""
    columns: ClassVar[TagColumns] = TagColumns()
    """Where files and data sets have words and tags."""
    linear_epochs: ClassVar[int] = 10
    """Epochs of the tagger `linear` where none are given."""
    predicts = frozenset({"id", "label", "n_tokens", "n_tokens_right", "predicted", "words"})

    class Params(TaggingParams):
        """`data` is `hub`, `phrasebook` or files, whose paths may hold {lang} and {pivot}."""

    params: TaggingParams

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known = METRICS if cls.entities else ("accuracy",)
        if "main_metric" not in vars(cls):
            cls.main_metric = known[0]
        if cls.main_metric not in known:
            raise TypeError(f"main_metric is {cls.main_metric!r}; write {' or '.join(known)}")
        if "metrics" not in vars(cls):
            cls.metrics = ENTITIES_MEASURED if cls.entities else WORDS_MEASURED

    def phrasebook(self, n: int, lang: str, split: Split, seed: int) -> Iterable[Made]:
        """Makes n sentences of a language and split, where the phrasebook has any for this task."""
        raise NotImplementedError(f"{self.name} has no phrasebook")

    def has_phrasebook(self) -> bool:
        """Whether the class makes sentences."""
        return type(self).phrasebook is not TaggingTask.phrasebook

    def scheme(self) -> TagScheme:
        """Returns what the class says about tags and data, as one value."""
        columns, named = self.columns, self.params.columns
        if named is not None:
            columns = replace(columns, word=named.word, tag=named.tag, given=True)
        return TagScheme(
            self.name,
            entities=self.entities,
            labels=self.labels,
            columns=columns,
            mismatched=self.params.mismatched,
            languages=self.names,
            metric=self.main_metric,
            phrasebook=self.phrasebook if self.has_phrasebook() else None,
        )

    def resolved(self) -> dict[str, Any]:
        """Returns the params by their names; those that are not given have the value of the profile
        or the tagger.
        """
        defaults = self._defaults()
        given = {**self.params.later(), **self.params.identity()}
        return {
            name: defaults.get(name) if value is None else value for name, value in given.items()
        }

    def _defaults(self) -> dict[str, Any]:
        """The values of the profile, and of the tagger that it or the options name."""
        profile = PROFILES[self.params.profile]
        tagger = self.params.tagger or profile["tagger"]
        epochs = {"epochs": self.linear_epochs} if tagger == "linear" else {}
        return {**TAGGERS[tagger], **epochs, **profile}

    def settings(self) -> TaggingSettings:
        """Returns the options of training and choice."""
        resolved = self.resolved()
        return TaggingSettings(**{name: resolved[name] for name in TaggingSettings.__annotations__})

    def canonical(self) -> dict[str, Any]:
        """Returns the resolved options without the profile's name, without what names data (its own
        identity enters the key), without idle ones, and without `LATER` ones at their default.
        """
        resolved, usual = self.resolved(), {**self.params.later(), **self._defaults()}
        idle = {"profile", "dataset", "revision", "configs"}
        idle |= {name for name in self.params.later() if resolved[name] == usual[name]}
        idle |= set() if self.params.data == "phrasebook" else {"phrasebook"}
        idle |= set(OF_BILSTM) if resolved["tagger"] == "linear" else set()
        idle |= {"readout"} if resolved["readout"] == "keep" else set()
        idle |= (
            {"encoding"}
            if resolved["encoding"] == "utf-8" or isinstance(self.params.data, str)
            else set()
        )
        idle |= {"evaluate_every"} if resolved["selection"] == "last" else set()
        idle |= {"columns"} if isinstance(self.params.data, str) else set()
        idle |= {"mismatched"} if self.params.data == "phrasebook" else set()
        return {name: value for name, value in resolved.items() if name not in idle}

    def outdates(self) -> bool:
        """Whether the tagger is `linear`; the other one reads a frozen encoder."""
        return (self.params.tagger or PROFILES[self.params.profile]["tagger"]) == "linear"

    def selection(self) -> Selection:
        """What chooses the weights."""
        chosen: Selection = self.params.selection or PROFILES[self.params.profile]["selection"]
        return chosen

    def reads(self, n_layers: int) -> Reads:
        """Returns the last layer, which `linear` trains with all below, or the `layers` of a frozen
        encoder.
        """
        if self.resolved()["tagger"] == "linear":
            return Reads(frozenset({n_layers}), tunes=True)
        return Reads(frozenset(feature_layers(self.params.layers, n_layers)))

    def training(self) -> Mapping[str, object]:
        """Returns all options but what is done with the weights afterwards: the choice of weights
        is made while they are there.
        """
        return {name: value for name, value in self.canonical().items() if name != "readout"}

    def watches(self, metric: str) -> bool:
        """Whether it is the score that chooses the weights, and the dev selections are made."""
        return self.resolved()["selection"] != "last" and metric == self.main_metric

    def reads_words(self) -> Pooling:
        """Returns the first piece, which both taggers label a word by."""
        return "first"

    def training_languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """Returns the pivot, and all languages where their development sets choose."""
        alone = self.resolved()["selection"] in ("pivot-dev", "last")
        return (pivot,) if alone else self.languages(languages, pivot)

    def prepares(self, lang: str, pivot: str) -> SharedRows | None:
        """Returns what decides on the training sentences, which are the pivot's."""
        if lang != pivot:
            return None
        found, sources = self.canonical(), self.sources(lang, pivot)
        names = ("data", "codes", "encoding", "phrasebook", "max_train", "columns", "mismatched")
        return SharedRows(
            {name: found[name] for name in names if name in found},
            {name: source for name, source in sources.items() if name not in ("dev", "test")},
        )

    def write_rows(
        self, lang: str, inputs: TaskInputs, tokenizer: Any, threads: int, folder: Path
    ) -> Mapping[str, object]:
        """Writes the training sentences for `TaskInputs.rows`."""
        from raxalign.tasks.tagging.divided_sentences import write_sentences

        sentences = self.data(inputs).sentences("train", lang)
        return write_sentences(sentences, lang, tokenizer, threads, folder)

    def hub_sets(self, lang: str, pivot: str) -> Mapping[str, HubSet]:  # noqa: ARG002
        """Returns the data set, with the configuration of the language."""
        config = config_of(self.params, self.names, lang)
        return {"hub": HubSet(self.params.dataset, config, self.params.revision)}

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Reports one training file per language, a choice by a development set that is not given,
        and languages that the phrasebook lacks.
        """
        data, faults = self.params.data, super().check(languages, pivot)
        resolved = self.resolved()
        if self.params.columns is not None and self.columns.layout == "conllu":
            faults.append("columns: those of CoNLL-U are what they are; leave them out")
        if isinstance(data, DataFiles):
            if differs_by_language(data.train):
                faults.append(
                    "data.train holds {lang}: zero-shot training reads the pivot alone; write"
                    " {pivot}"
                )
            if any(path and not differs_by_language(path) for path in (data.dev, data.test)):
                faults.append(
                    "data.dev and data.test: need one file per language: put {lang} in the path"
                )
            faults += split_faults(data.dev, data.test, resolved["selection"], "data.dev")
        if self.refit() is not None and not self.leaves_one_encoder():
            faults.append(
                "readout: refit fits on the one encoder that a training keeps: it needs `tagger:"
                " linear` and `selection: pivot-dev` or `last`"
            )
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
        """Trains on the pivot's data: one tagger, or one per direction where the pivot's transforms
        differ by language.
        """
        from raxalign.tasks.tagging.training import train

        return train(self.settings(), self.data(inputs), aligned, languages, runtime, folder)

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """Returns the sample of a score, by counts per sentence."""
        return of_ratio(rows, metric, _RATIOS)

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,
    ) -> Outcome:
        """Scores every language on the splits that are given, by the weights that `selection`
        chose.
        """
        from raxalign.tasks.tagging.evaluation import evaluate

        assert trained is not None, "the plan makes the training first"
        return evaluate(self.settings(), self.data(inputs), aligned, languages, trained)

    def data(self, inputs: TaskInputs) -> Any:
        """Returns the reader of the task's sentences (`TaggingData`)."""
        from raxalign.tasks.tagging.data import TaggingData

        return TaggingData(self.params, self.scheme(), inputs)
