"""What classification tasks have in common: labels, columns, options and scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from raxalign.arrays import Ints
from raxalign.corpora.phrasebook import read
from raxalign.lazy import np
from raxalign.measured import share
from raxalign.options.params import LATER, Removed
from raxalign.sample import Sample
from raxalign.tasks.transfer import params as shared
from raxalign.tasks.transfer.params import LanguageNames, Split
from raxalign.tasks.transfer.task import TransferTask
from raxalign.train.options import RateSchedule

if TYPE_CHECKING:
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.classifiers.head import LabelHead

Names = str | tuple[str, ...]
Role = Literal["first", "second", "label", "language", "id", "group", "split"]
ROLES: tuple[Role, ...] = ("first", "second", "label", "language", "id", "group", "split")
TEXTS: tuple[Role, ...] = ("first", "second")
_SPLITS: Mapping[Split, frozenset[str]] = {
    "train": frozenset({"train"}),
    "dev": frozenset({"dev", "validation", "valid"}),
    "test": frozenset({"test"}),
}


@dataclass(frozen=True)
class Columns:
    """The names of a data set's columns by what they hold, in any case of letters; several names of
    one column are tried in their order, and messages use the last one.

    `first` and `second` are the texts; no `second` means one text per example. The name of a text
    may also end in ``_`` and the name of a language. `language` picks the rows of a language and
    `split` those of a split (train, dev or validation, test), in files that have such a column.
    `id` names an example in the whole data set: rows of one id are neither trained on and evaluated
    nor translations of different examples, so numbers that begin again in each split are not ids.
    Rows with the same value of `group`, or else the same first text, are resampled together.
    `order` names the columns of files without a header (none: the texts, then the label). Rows are
    left out of which a text is blank, or `no_text`.
    """

    first: Names
    second: Names = ()
    label: Names = "label"
    language: Names = "language"
    id: Names = ()
    group: Names = ()
    split: Names = ()
    order: tuple[str, ...] = ()
    no_text: str = ""

    def names(self, role: Role) -> tuple[str, ...]:
        """The names of a column, the first one first; none where there is no such column."""
        given: Names = getattr(self, role)
        return (given,) if isinstance(given, str) else given

    def shown(self, role: Role) -> str:
        """The name of a column in messages."""
        return self.names(role)[-1]

    @property
    def texts(self) -> tuple[Role, ...]:
        """The columns of an example's texts: one or two."""
        return TEXTS if self.second else ("first",)

    @property
    def needed(self) -> tuple[Role, ...]:
        """The columns that every file has."""
        return (*self.texts, "label")


Made = tuple[Sequence[str], Sequence[str], str]
"""Words of the first and of the second text (none: one text), and the label."""


@dataclass(frozen=True)
class LabelScheme:
    """What the data of a classification task is, for its readers: the columns of files and data
    sets; all labels in their order, which also are numbers from 0 (none: those of the training
    data, sorted); other spellings of labels; and the data set's own names of languages.
    """

    columns: Columns
    labels: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    languages: LanguageNames = field(default_factory=dict)

    @cached_property
    def _spellings(self) -> Mapping[str, str]:
        numbers = {str(i): label for i, label in enumerate(self.labels)}
        # Labels that are numbers themselves mean these, and not their places.
        numbered = any(label.lstrip("-").isdigit() for label in self.labels)
        lowered = {label.lower(): label for label in (*self.aliases, *self.labels)}
        known = ({} if numbered else numbers) | lowered | {label: label for label in self.labels}
        return {text: self.aliases.get(label, label) for text, label in known.items()}

    @cached_property
    def _unlabelled(self) -> frozenset[str]:
        return frozenset({"", "-", *(("-1",) if self.labels else ())}) - self._spellings.keys()

    def is_unlabelled(self, text: str) -> bool:
        """Whether a cell says that there is no label: it is empty, ``-`` or ``-1``."""
        return text.strip() in self._unlabelled

    def label(self, text: str) -> str | None:
        """The label that a cell names; None where there is no such label."""
        text = text.strip()
        if not self.labels:
            return text
        return self._spellings.get(text) or self._spellings.get(text.lower())

    def known(self) -> str:
        """All labels as messages list them."""
        numbers = [str(i) for i in range(len(self.labels)) if str(i) in self._spellings]
        either = f", or {', '.join(numbers)}" if numbers and not {*numbers} & {*self.labels} else ""
        return f"{', '.join(self.labels)}{either}"

    def of_split(self, text: str, split: Split) -> bool:
        """Whether a cell of the column `split` names a split."""
        return text.strip().lower() in _SPLITS[split]


XNLI = "facebook/xnli"
"""The data set of the hub."""
LABELS = ("entailment", "neutral", "contradiction")  # numbered as in the hub's data sets
ALIASES: Mapping[str, str] = {"contradictory": "contradiction"}
COLUMNS = Columns(
    first=("sentence1", "premise"),
    second=("sentence2", "hypo", "hypothesis"),
    label=("gold_label", "label"),
    id="pairID",
    group="promptID",
)

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


class ClassificationParams(shared.SettingParams):
    """`data` is `hub`, `phrasebook` or files, whose paths may hold {lang} and {pivot}. Files are
    tab-separated, with a header that names their columns in any order or with the columns in the
    task's own order, or hold one JSON object per line. The optimiser and its schedule are those of
    Cao et al. (2020, A.1) unless options say otherwise.
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

    def phrasebook(self, n: int, lang: str, split: Split, seed: int) -> Iterable[Made]:  # noqa: ARG002
        """Make n examples of a language and split: by default the phrasebook's of this name."""
        for ((*texts, label),) in read(self.name, split, (lang,), range(n)):
            first, second = [text.split(" ") for text in (*texts, "")][:2]
            yield first, second, label

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
