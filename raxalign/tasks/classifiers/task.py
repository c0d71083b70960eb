"""What classification tasks have in common: labels, columns, options and scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from raxalign.arrays import Ints
from raxalign.corpora.phrasebook import read
from raxalign.lazy import np
from raxalign.measured import share
from raxalign.options.params import LATER, Removed
from raxalign.sample import Sample
from raxalign.tasks.classifiers.scheme import Columns, LabelScheme
from raxalign.tasks.transfer import params as shared
from raxalign.tasks.transfer.params import Split
from raxalign.tasks.transfer.task import TransferTask
from raxalign.train.options import RateSchedule

if TYPE_CHECKING:
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.classifiers.head import LabelHead

MEASURED = (
    share("accuracy", "Share of the examples whose label is right.", sample=Sample.of_labels),
    share(
        "macro_f1",
        "Mean over labels of the harmonic mean of precision and recall.",
        sample=Sample.of_label_f1,
    ),
)
"""What classifiers report; the second one where it is the main metric."""


def macro_f1(gold: Ints, predicted: Ints) -> float:
    """Return the mean of 2 right / (given + predicted) over the labels that are given or
    predicted.

    >>> macro_f1(np.array([0, 0, 1]), np.array([0, 1, 1]))
    0.6666666666666666
    """
    values = []
    for label in np.union1d(gold, predicted):
        given, found = gold == label, predicted == label
        values.append(2 * float((given & found).sum()) / float(given.sum() + found.sum()))
    return float(np.mean(values))


METRICS: Mapping[str, Callable[[Ints, Ints], float]] = {
    "accuracy": lambda gold, predicted: float((predicted == gold).mean()),
    "macro_f1": macro_f1,
}
"""Scores by name: of the numbers of the right and of the predicted labels."""


_OPTIMIZER: Mapping[str, Any] = {**shared.ADAM, "betas": "0.9 0.98", "eps": 1e-9}


Made = tuple[Sequence[str], Sequence[str], str]
"""Words of the first and of the second text (none: one text), and the label."""


class ClassificationTask(TransferTask):
    """Transfer of a classifier of sentences or sentence pairs: a fine-tuned transformer, or a
    classifier over the frozen word vectors of a static encoder. A subclass gives the labels and the
    columns of its data.
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"transformer", "static"})
    also_watched = ("accuracy",)
    one_language_files: ClassVar[bool] = False

    columns: Columns
    """The names of the columns of files and data sets."""
    labels: tuple[str, ...] = ()
    """All labels in their order; data may have their numbers from 0 instead. Without them the
    labels are those of the training data.
    """
    aliases: Mapping[str, str] = MappingProxyType({})
    """Other spellings of labels, spelling -> label."""
    main_metric: str = "accuracy"
    """`accuracy`, or `macro_f1`, which is then scored too; it chooses the epoch."""
    repeats: ClassVar[bool] = False
    """Whether honest data has the same texts in training and evaluation, as short requests are: up
    to half of the examples are then allowed to be, and are marked in the predictions.
    """
    predicts = frozenset({"id", "label", "predicted"})
    unit: ClassVar[str] = "group"
    """The column of predictions that numbers what is resampled together."""

    class Params(shared.SettingParams):
        """`data` is `hub`, `phrasebook` or files, whose paths may hold {lang} and {pivot}. Files
        are tab-separated, with a header that names their columns in any order or with the columns
        in the task's own order, or hold one JSON object per line. The optimiser and its schedule
        are those of Cao et al. (2020, A.1) unless options say otherwise.
        """

        removed: ClassVar[Mapping[str, Removed]] = {
            "static_head": Removed(
                "leave it out: the classifier over word vectors is 300 wide and has the rate 1e-3",
                default={"hidden": 300, "learning_rate": 1e-3},
            ),
            **shared.of_papers({**_OPTIMIZER, "models": "together"}),
            **shared.of_phrasebook(train=3000, dev=600, test=600),
        }
        setting: Literal["zero-shot", "translate-train"] = "zero-shot"
        dataset: Annotated[str, shared.DATASET] = ""
        revision: Annotated[str, shared.REVISION] = "main"
        learning_rate: float = Field(5e-5, gt=0)
        max_length: int = Field(128, ge=8)
        schedule: Annotated[RateSchedule, LATER] = "constant"
        dropout: float = Field(0.1, ge=0, lt=1)

        @property
        def optimizer(self) -> Mapping[str, Any]:
            """That of Cao et al. (2020, A.1)."""
            return _OPTIMIZER

    params: Params

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

    def phrasebook(self, n: int, lang: str, split: Split, seed: int) -> Iterable[Made]:  # noqa: ARG002
        """Make n examples of a language and split: by default the phrasebook's of this name."""
        for ((*texts, label),) in read(self.name, split, (lang,), range(n)):
            first, second = [text.split(" ") for text in (*texts, "")][:2]
            yield first, second, label

    def scored(self, gold: Ints, predicted: Ints) -> dict[str, float]:
        """Return the accuracy and the main metric of the numbers of labels."""
        metrics = dict.fromkeys(("accuracy", self.main_metric))
        return {metric: METRICS[metric](gold, predicted) for metric in metrics}

    def scheme(self) -> LabelScheme:
        """Return what the class says about labels and data, as one value."""
        return LabelScheme(self.columns, self.labels, self.aliases, self.names)

    def head(self, inputs: TaskInputs) -> LabelHead:
        """Return the reader of the examples, and the maker and judge of classifiers."""
        from raxalign.tasks.classifiers.head import LabelHead

        return LabelHead(self, inputs)

    def idle(self) -> set[str]:
        """Return what names data too, whose identity is in the key, and mixing of nothing."""
        mixing = {"code_switching"} if self.params.setting == "zero-shot" else set()
        return super().idle() | {"dataset", "revision"} | mixing

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Report what all transfer tasks report, mixing where there is one text, and one model per
        language without translations or with mixing.
        """
        faults, mixes = super().check(languages, pivot), self.mixing != "none"
        if self.each and not self.translates():
            faults.append(
                "models: each trains on the translations of each language: it needs `setting:"
                " translate-train`"
            )
        if self.each and mixes:
            faults.append("code_switching mixes languages in one model: leave out models: each")
        if mixes and not self.columns.second:
            faults.append("code_switching mixes the two texts of an example: this task has one")
        return faults
