"""The contract of a task: it takes an aligned encoder and returns metrics per language and
per-example predictions.

What a task is to a feature of the plan it says by one value: `TaskNeeds`, `Reads`, `Training`,
`Unseen`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from raxalign.corpora.readers.inspection import FileRead
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import Pooling
from raxalign.lazy import np, pa
from raxalign.measured import Measured
from raxalign.options.params import BaseParams, PlugIn
from raxalign.options.sources import Source
from raxalign.train.runtime import Runtime


@dataclass(frozen=True)
class TaskNeeds:
    """What `evaluate` reads of the grid's own corpus.

    Attributes:
        heldout: word pairs of the dev and test sides.
        bitext: sentence pairs of the dev and test sides, without links by a word aligner.
        seen: the word types linked in training.
        unseen_in: the number of training sentences of the word aligner's run for `seen` (None: the
            grid's largest).
        text: monolingual text of the languages and the pivot; where it is from training sets, from
            the grid's largest.
        head: the encoder's masked-LM head, which predicts words.
        dev: the option that cannot do without the dev side, with its value, such as ``measure:
            qb_norm`` (empty: there is none).
        pooling: the option that says how vectors of sentences are made of an encoder's pieces, with
            its value, such as ``pooling: own`` (empty: none are).
    """

    heldout: bool = False
    bitext: bool = False
    seen: bool = False
    unseen_in: int | None = None
    text: bool = False
    head: bool = False
    dev: str = ""
    pooling: str = ""

    @property
    def corpus(self) -> bool:
        """Whether the grid's corpus is read."""
        return self.heldout or self.bitext or self.seen or self.text


@dataclass(frozen=True)
class Reads:
    """What a result depends on in an encoder.

    Attributes:
        layers: the layers whose vectors are read, so that readouts apply.
        stream: the highest layer that is read in the stream, past all readouts (None: it is not
            read).
        tunes: whether the task's training changes the encoder.
    """

    layers: frozenset[int] = frozenset()
    stream: int | None = None
    tunes: bool = False


@dataclass(frozen=True)
class TaskInputs:
    """The inputs that `TaskNeeds` and `sources` name.

    Attributes:
        pivot: the pivot's code; for a task with `train_on` that of the language trained on.
        heldout: the folder of held-out word pairs of each language, with two datasets: ``data/``,
            the test side, and ``dev/``.
        seen: the folder of seen word types of each language (``types.arrow``, columns src and tgt).
        files: name -> language -> path; the pivot's are under its own code.
        digests: ``name/language`` -> digest or revision.
        downloads: the folder of fetched data.
        text: a dataset (column ``words``) of each language and the pivot.
        bitext: as `heldout`, sentence pairs without links.
        rows: the folders of training rows that `write_rows` wrote, by language.
        unseen: those of the evaluated languages that no method has aligned.
    """

    pivot: str
    heldout: Mapping[str, Path] = field(default_factory=dict)
    seen: Mapping[str, Path] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    downloads: Path | None = None
    text: Mapping[str, Path] = field(default_factory=dict)
    bitext: Mapping[str, Path] = field(default_factory=dict)
    rows: Mapping[str, Path] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Score:
    """One value: `lang` as in metric names (``de``, ``de-en``), `metric` (``accuracy``), `split`
    (``dev`` or ``test``).
    """

    lang: str
    metric: str
    split: str
    value: float

    def __str__(self) -> str:
        return f"{self.metric} of {self.lang} ({self.split})"


@dataclass(frozen=True)
class Outcome:
    """What an evaluation found: all scores, per-example predictions (one table, with columns
    `lang`, `split` and the task's own; None: there are none, and nothing has an interval), and
    notes for the record (counts, the epoch that was selected, what was dropped). A note `warning`,
    of the whole or of a part, is printed with the results, and so are those of `Caveats.TOLD`.
    """

    scores: Sequence[Score]
    predictions: pa.Table | None
    notes: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rows: Mapping[tuple[str, str], Mapping[str, Sequence[Any]]], *metrics: str
    ) -> Outcome:
        """Return the outcome whose scores are the means of the columns `metrics` of predictions:
        `rows` are their columns by language and split.
        """
        scores, tables = list[Score](), list[pa.Table]()
        for (lang, split), columns in rows.items():
            n = len(columns[metrics[0]])
            values = {name: sum(columns[name]) / n for name in metrics}
            scores += [Score(lang, name, split, value) for name, value in values.items()]
            tables.append(pa.table({"lang": [lang] * n, "split": [split] * n, **columns}))
        return cls(scores, pa.concat_tables(tables))

    def faults(self, labels: Collection[str], main_metric: str) -> Iterator[str]:
        """Yield what no reader of results would find, or could tell apart: `labels` are those of
        the languages, their pairs and means.
        """
        seen = set[str]()
        for score in self.scores:
            if not math.isfinite(score.value):
                yield f"{score} is {score.value}, which is not a result"
            if str(score) in seen:
                yield f"{score} is there twice"
            if score.lang not in labels or score.split not in ("dev", "test"):
                yield f"{score} is not of a language of the evaluation on dev or test"
            seen.add(str(score))
        if not any((score.metric, score.split) == (main_metric, "test") for score in self.scores):
            yield f"its main metric {main_metric} has no value on test"
        table = self.predictions
        if table is not None and not {"lang", "split"} <= {*table.column_names}:
            yield "its predictions lack the columns lang and split"


def means(
    scores: Sequence[Score],
    languages: Collection[str] | None = None,
    pivot: str | None = None,
    metrics: Collection[str] | None = None,
    unseen: Collection[str] = (),
) -> list[Score]:
    """Form the means of scores over languages, by metric and split: `avg` over all, and where a
    pivot is given, `avg_zero_shot` over the others; `avg_unseen` over those that neither counts,
    which no method has aligned. `languages` are names of languages, or of pairs or directions of
    languages, as scores have them (None: all that have a score), `metrics` those that have means
    (None: all).

    A split that one of them lacks has no such mean: over fewer languages it would be another
    quantity under the same name. No scores have no mean.
    """
    named = list(dict.fromkeys(score.lang for score in scores) if languages is None else languages)
    aligned = [lang for lang in named if lang not in unseen]
    alone = bool(unseen) and aligned == [pivot]  # the pivot by itself is not a mean over languages
    several = {
        "avg": [] if alone else aligned,
        "avg_unseen": [lang for lang in named if lang in unseen],
    }
    if pivot is not None:
        several["avg_zero_shot"] = [lang for lang in aligned if lang != pivot]
    values: dict[tuple[str, str], dict[str, float]] = {}
    for score in scores:
        if metrics is None or score.metric in metrics:
            values.setdefault((score.metric, score.split), {})[score.lang] = score.value
    return [
        Score(name, metric, split, float(np.mean([value[lang] for lang in over])))
        for (metric, split), value in values.items()
        for name, over in several.items()
        if over and all(lang in value for lang in over)
    ]


@dataclass(frozen=True)
class Refit:
    """How readouts are fitted again after a task's own training, which leaves one encoder
    (`trained_encoder` of transfer tasks).

    Attributes:
        pooling: how the task joins the pieces of the words that it reads. None where it reads
            something other than words: readouts are then fitted on words as the method has them.
        keeping: the same task with `readout: keep`, run where there is no readout to fit again.
        insists: whether the file itself asks for it, so that it is a fault where it cannot be done.
    """

    pooling: Pooling | None
    keeping: Task
    insists: bool


@dataclass(frozen=True)
class Training:
    """A task's own training.

    Attributes:
        options: the part of `Task.canonical` that it depends on.
        translations: whether the training rows of all languages are read, not the pivot's alone.
        dev_sets: whether the development sets of all languages choose in it.
        rows: the part of `Task.canonical` that decides which training rows a language has, in its
            source `train`, or else `hub`: `write_rows` then divides them into pieces, once
            for all trials (None: it does not).
        alone: why it cannot be part of a method's (`with_task`), and what to do; empty where it
            can. `Task.train` then takes a `companion` too.
        watched: the metrics that it measures of any language's development set at its dev
            selections, where `Runtime.watch` asks for one. A search may then end it early.
        refit: what is asked for fitting a method's readouts again on the encoder that it left; None
            where they stay as they are.
        outdated: why readouts stay as they were fitted before it, though it changes the encoder
            and reads none of them; empty where that is not so.
    """

    options: Mapping[str, Any]
    translations: bool = False
    dev_sets: bool = False
    rows: Mapping[str, Any] | None = None
    alone: tuple[str, ...] = (
        "its training run cannot be combined with another",
        "name another task, or leave `with_task` out",
    )
    watched: frozenset[str] = frozenset()
    refit: Refit | None = None
    outdated: str = ""

    def languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """Return the languages whose data is read, development sets that choose included."""
        every = self.translations or self.dev_sets
        return (pivot, *(lang for lang in languages if every and lang != pivot))


class Unseen(NamedTuple):
    """What a task does with languages that no method aligns: they are `refused`, for a reason and
    with what to do; or it makes no difference to an encoder that no method has changed which of the
    languages these are, since they choose nothing and train nothing (`ignored`); or it does.
    """

    use: Literal["refused", "ignored", "used"] = "ignored"
    why: str = ""
    remedy: str = ""


_GONE = {
    "sample": "`Measured(..., sample=...)` for each metric",
    **dict.fromkeys(("fetch", "remotes"), "`RemoteData(..., look_up=..., parts=...)` in `sources`"),
    **dict.fromkeys(("refuses_unseen", "ignores_unseen"), "`unseen`, which returns `Unseen`"),
    **dict.fromkeys(
        ("training_languages", "prepares", "watches", "refit", "not_joint", "keeps_outdated"),
        "`training`, which returns `Training`",
    ),
}
"""Functions of tasks that went, and what to write instead."""


class Task(PlugIn):
    """An evaluation. Subclasses are final, one per file, and import torch lazily."""

    accepts: ClassVar[frozenset[str]] = frozenset({"transformer"})
    DEEP: ClassVar = 10_000
    """A number of blocks with which any task can be asked whether it trains the encoder (`reads`):
    it has all layers that params may name.
    """
    metrics: ClassVar[tuple[Measured, ...]] = ()
    """Every metric that an evaluation reports, the main one included: tables, tests and choices go
    by what is declared, intervals by the `sample` of each. An evaluation that reports a value
    outside a metric's limits fails.
    """
    main_metric: str
    called: ClassVar[str] = ""
    """What sentences call the task, where that is not its own name."""
    guessing: float | None = None
    """The main metric of a guesser: 1 over the number of labels of a classifier. None where there
    is no such level.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a function that an older raxalign called: without it results would lack something.
        Raises TypeError.
        """
        super().__init_subclass__(**kwargs)
        if gone := next(iter(_GONE.keys() & vars(cls).keys()), None):
            raise TypeError(f"{cls.__name__}.{gone} is not called any more; write {_GONE[gone]}")

    class Params(BaseParams):
        """The options of the task."""

    predicts: ClassVar[frozenset[str] | None] = None
    """Columns of the predictions that added metrics may read; None where this is known only after
    an evaluation.
    """

    def needs(self) -> TaskNeeds:
        """Return what `evaluate` reads of the grid's corpus."""
        return TaskNeeds()

    def canonical(self) -> dict[str, Any]:
        """Return the params (YAML names, defaults filled in) without idle ones and paths."""
        return self.params.identity()

    def reads(self, n_layers: int) -> Reads:
        """Return what is read of an encoder with `n_layers` blocks: everything, unless a task
        declares less.

        Where a method changes nothing of this, its evaluation is that of the encoder itself, and is
        not run. Raises `RaxalignError` where the params name layers that the encoder does not have.
        """
        return Reads(frozenset(range(n_layers + 1)), n_layers, tunes=True)

    def training(self) -> Training | None:
        """Return what the plan knows of the task's own training; None where it has none."""
        return None

    def unseen(self) -> Unseen:
        """Return what is done with languages that no method aligns."""
        return Unseen("ignored" if self.training() is None else "used")

    def has_chance(self) -> bool:
        """Whether the seed can change the result."""
        return self.training() is not None

    def languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """Return the languages that one evaluation covers; transfer tasks add the pivot."""
        return languages

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the outside data of one language (the pivot included), name -> source. Remote data
        says how it is looked up and fetched.
        """
        return {}

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Return messages on faults that depend on the languages, such as a training path with
        ``{lang}`` in a zero-shot setting.
        """
        return []

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Read the local files of all `languages` that `train` and `evaluate` will read, with the
        same readers, before anything is trained.

        Yields what was found in each, faults included; what the files must not have in common is a
        fault too. Remote data is not fetched.
        """
        return iter(())

    def train(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,
        folder: Path,
    ) -> Mapping[str, object]:
        """Train as `training` describes, from the weights of `aligned`, write the result into
        `folder`, and return notes.
        """
        raise NotImplementedError(f"{type(self).__name__} has no training run of its own")

    @abstractmethod
    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,
        trained: Path | None,
    ) -> Outcome:
        """Return scores of every language; `trained` is the folder that `train` filled."""
