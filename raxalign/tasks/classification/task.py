"""What classification tasks have in common: labels, columns, training and evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from raxalign.corpora.readers.codes import hub_code
from raxalign.tasks.base import Outcome, SharedRows, TaskInputs
from raxalign.tasks.classification.metrics import MEASURED, METRICS, sample_of
from raxalign.tasks.classification.params import ClassificationParams
from raxalign.tasks.classification.scheme import Columns, LabelScheme, Made, Split
from raxalign.tasks.transfer.selection import kept
from raxalign.tasks.transfer.settings import SettingTask, split_faults
from raxalign.tasks.transfer.task import DataFiles, HubSet

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.corpora.readers.inspection import FileRead
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.sample import Sample
    from raxalign.train.runtime import Runtime


class ClassificationTask(SettingTask):
    """Transfer of a classifier of sentences or sentence pairs: a fine-tuned transformer, or a
    classifier over the frozen word vectors of a static encoder. A subclass gives the labels and the
    columns of its data.
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"transformer", "static"})

    columns: ClassVar[Columns]
    """The names of the columns of files and data sets."""
    labels: ClassVar[tuple[str, ...]] = ()
    """All labels in their order; data may have their numbers from 0 instead. Without them the
    labels are those of the training data.
    """
    aliases: ClassVar[Mapping[str, str]] = {}
    """Other spellings of labels, spelling -> label."""
    main_metric: ClassVar[str] = "accuracy"
    """`accuracy`, or `macro_f1`, which is then scored too; it chooses the epoch."""
    repeats: ClassVar[bool] = False
    """Whether honest data has the same texts in training and evaluation, as short requests are: up
    to half of the examples are then allowed to be, and are marked in the predictions.
    """
    predicts = frozenset({"id", "label", "predicted"})
    unit: ClassVar[str] = "group"
    """The column of predictions that numbers what is resampled together."""

    class Params(ClassificationParams):
        """`data` is `hub`, `phrasebook` or files, whose paths may hold {lang} and {pivot}."""

    params: ClassificationParams

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.main_metric not in METRICS:
            raise TypeError(f"main_metric is {cls.main_metric!r}; write {' or '.join(METRICS)}")
        if len(cls.labels) == 1 or len({*cls.labels}) < len(cls.labels):
            raise TypeError(f"labels are {cls.labels}; write two or more different ones, or none")
        if cls.labels and cls.main_metric == "accuracy" and "guessing" not in vars(cls):
            cls.guessing = 1 / len(cls.labels)
        if "metrics" not in vars(cls):
            cls.metrics = MEASURED if cls.main_metric == "macro_f1" else MEASURED[:1]

    def phrasebook(self, n: int, lang: str, split: Split, seed: int) -> Iterable[Made]:
        """Makes n examples of a language and split, where the phrasebook has any for this task."""
        raise NotImplementedError(f"{self.name} has no phrasebook")

    def has_phrasebook(self) -> bool:
        """Whether the class makes examples."""
        return type(self).phrasebook is not ClassificationTask.phrasebook

    def scheme(self) -> LabelScheme:
        """Returns what the class says about labels and data, as one value."""
        return LabelScheme(
            self.name,
            self.columns,
            labels=self.labels,
            aliases=self.aliases,
            languages=self.names,
            metric=self.main_metric,
            repeats=self.repeats,
            unit=self.unit,
            phrasebook=self.phrasebook if self.has_phrasebook() else None,
        )

    def canonical(self) -> dict[str, object]:
        """Returns the options without what names data (its own identity enters the key) and what
        other data would need.
        """
        idle = {"dataset", "revision"} | (
            set() if self.params.data == "phrasebook" else {"phrasebook"}
        )
        idle |= {"code_switching"} if self.params.setting == "zero-shot" else set()
        return {name: value for name, value in self.params.identity().items() if name not in idle}

    def training(self) -> Mapping[str, object]:
        """Returns all options but what is done with the epochs afterwards."""
        return {
            **{n: v for n, v in self.canonical().items() if n not in ("selection", "readout")},
            "kept": kept(self.params.selection),
        }

    def watches(self, metric: str) -> bool:
        """Whether it is a score of labels, the dev selections are made, and one model is for all
        languages.
        """
        selects = self.params.selection != "last" and self.params.models == "together"
        return selects and metric in ("accuracy", self.main_metric)

    def prepares(self, lang: str, pivot: str) -> SharedRows:
        """Returns what decides on the training examples of a language."""
        found, sources = self.canonical(), self.sources(lang, pivot)
        names = ("data", "codes", "phrasebook", "max_train")
        return SharedRows(
            {name: found[name] for name in names if name in found},
            {name: source for name, source in sources.items() if name not in ("dev", "test")},
        )

    def write_rows(
        self, lang: str, inputs: TaskInputs, tokenizer: Any, threads: int, folder: Path
    ) -> Mapping[str, object]:
        """Writes the training examples of a language for `TaskInputs.rows`."""
        from raxalign.tasks.classification.divided_examples import write_examples

        examples = self.data(inputs).examples("train", lang)
        return write_examples(examples, lang, tokenizer, threads, folder)

    def hub_sets(self, lang: str, pivot: str) -> Mapping[str, HubSet]:  # noqa: ARG002
        """Returns the data set, with the configuration of the language."""
        config = hub_code(self.params.dataset, lang, self.names)
        return {"hub": HubSet(self.params.dataset, config, self.params.revision)}

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Reports what all transfer tasks report, mixing where there is one text, one model per
        language without translations or with mixing, and selection or evaluation by files that are
        not given.
        """
        data, faults = self.params.data, super().check(languages, pivot)
        if self.params.models == "each":
            if self.params.setting != "translate-train":
                faults.append(
                    "models: each trains on the translations of each language: it needs `setting:"
                    " translate-train`"
                )
            if self.params.code_switching != "none":
                faults.append("code_switching mixes languages in one model: leave out models: each")
        if self.params.code_switching != "none" and not self.columns.second:
            faults.append("code_switching mixes the two texts of an example: this task has one")
        if isinstance(data, DataFiles):
            faults += split_faults(data.dev, data.test, self.params.selection, "data.dev")
        return faults

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Reads all splits, with their labels; evaluated rows that are trained on, and translations
        that are not parallel, are faults.
        """
        from raxalign.tasks.classification.data import read_files

        if isinstance(self.params.data, DataFiles):
            yield from read_files(
                self.data(TaskInputs(pivot)),
                self.languages(languages, pivot),
                self.training_languages(languages, pivot),
            )

    def data(self, inputs: TaskInputs) -> Any:
        """Returns the reader of the task's examples (`ExampleData`)."""
        from raxalign.tasks.classification.data import ExampleData

        return ExampleData(self.params, self.scheme(), inputs)

    def train(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,
        folder: Path,
    ) -> Mapping[str, object]:
        """Fine-tunes on the training data of `languages`: one model, or one per direction where the
        pivot's transforms differ by language.
        """
        from raxalign.tasks.classification.training import train

        return train(self.data(inputs), aligned, languages, runtime, folder)

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """Returns the sample of a score, with a unit per group of examples."""
        return sample_of(rows, metric)

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,
    ) -> Outcome:
        """Scores every language on the splits that are given, at the epoch that `selection`
        chooses.
        """
        from raxalign.tasks.classification.evaluation import evaluate

        assert trained is not None, "the plan makes the training first"
        return evaluate(self.data(inputs), aligned, languages, trained)
