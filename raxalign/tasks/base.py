"""The contract of a task: it takes an aligned encoder and returns metrics per language and
per-example predictions.

What training rows depend on that trials share: they are read and divided into pieces once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from raxalign.config.params import BaseParams, PlugIn
from raxalign.config.sources import Source
from raxalign.corpora.readers.inspection import FileRead
from raxalign.corpora.readers.remote import Remote
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import Pooling
from raxalign.lazy import pa, pc
from raxalign.measured import Measured
from raxalign.sample import Sample
from raxalign.train.runtime import Runtime


@dataclass(frozen=True)
class SharedRows:
    """The training rows of one language.

    Attributes:
        options: The part of a task's `canonical` that decides which rows there are.
        sources: The outside data that they are read from, name -> source.
    """

    options: Mapping[str, Any]
    sources: Mapping[str, Source] = field(default_factory=dict)


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
    """

    heldout: bool = False
    bitext: bool = False
    seen: bool = False
    unseen_in: int | None = None
    text: bool = False
    head: bool = False
    dev: str = ""


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
        pivot: the pivot's code.
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


@dataclass(frozen=True)
class Outcome:
    """What an evaluation found: all scores, per-example predictions (one table, with columns
    `lang`, `split` and the task's own), and notes for the record (counts, the epoch that was
    selected, what was dropped).
    """

    scores: Sequence[Score]
    predictions: pa.Table
    notes: Mapping[str, object] = field(default_factory=dict)


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


class Task(PlugIn):
    """An evaluation. Subclasses are final, one per file, and import torch lazily."""

    accepts: ClassVar[frozenset[str]] = frozenset({"transformer"})
    metrics: ClassVar[tuple[Measured, ...]] = ()
    """Every metric that an evaluation reports, the main one included: tables, tests and choices go
    by what is declared. An evaluation that reports a value outside a metric's limits fails.
    """
    main_metric: str
    called: ClassVar[str] = ""
    """What sentences call the task, where that is not its own name."""
    guessing: float | None = None
    """The main metric of a guesser: 1 over the number of labels of a classifier. None where there
    is no such level.
    """

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

    def training(self) -> Mapping[str, object] | None:
        """Return the part of `canonical` that the task's own training depends on; else None."""
        return None

    def not_joint(self) -> tuple[str, str] | None:
        """Return why the training cannot be part of a method's (`with_task`), and what to do; None
        where it can. `train` then takes a `companion` too.
        """
        if self.training() is None:
            return "it is not trained", "name a task that is: a classifier, a tagger, answers"
        return "its training is its own", "name another task, or leave `with_task` out"

    def training_languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """Return the languages whose data the training reads, dev sets that select included."""
        return (pivot,)

    def prepares(self, lang: str, pivot: str) -> SharedRows | None:
        """Return what decides on a language's training rows, if `write_rows` can write them."""
        return None

    def watches(self, metric: str) -> bool:
        """Return whether the task's own training measures a metric of any language's development
        set at its dev selections, where `Runtime.watch` asks for it. A search may then end it
        early.
        """
        return False

    def refit(self) -> Refit | None:
        """What is asked for fitting a method's readouts again on the encoder that the task's own
        training left; None where they stay as they are.
        """
        return None

    def keeps_outdated(self) -> str:
        """Return why readouts stay as they were fitted before the task's own training, though it
        changes the encoder and reads none of them; empty where that is not so.
        """
        return ""

    def has_chance(self) -> bool:
        """Whether the seed can change the result."""
        return self.training() is not None

    def languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """Return the languages that one evaluation covers; transfer tasks add the pivot."""
        return languages

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the outside data of one language (the pivot included), name -> source."""
        return {}

    def fetch(self, lang: str, pivot: str, downloads: Path) -> Mapping[str, str]:
        """Resolve remote data of one language: source name -> revision or digest."""
        return {}

    def remotes(self, lang: str, pivot: str) -> Iterable[Remote]:
        """Return what is read from outside for one language, to be fetched before there is no
        network.
        """
        return ()

    def refuses_unseen(self) -> tuple[str, str] | None:
        """Return why languages that no method aligns are refused, and what to do; else None."""
        return None

    def reads_corpus(self) -> bool:
        """Return whether `evaluate` reads the grid's corpus."""
        needs = self.needs()
        return needs.heldout or needs.bitext or needs.seen or needs.text

    def ignores_unseen(self) -> bool:
        """Return whether the values of an encoder that no method has changed are the same whichever
        of the languages are called unseen: where these choose nothing and train nothing.
        """
        return self.training() is None

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
        raise NotImplementedError(f"{type(self).__name__} has no training of its own")

    @classmethod
    def measured(cls, metric: str) -> Measured | None:
        """Return the declaration of a metric, or None for one that the task does not declare."""
        return next((entry for entry in cls.metrics if entry.names(metric)), None)

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:  # noqa: ARG003
        """Return the predictions of one language and split as a sample of a metric, or None where
        they do not divide into independent units.
        """
        return None

    @classmethod
    def samples(
        cls, predictions: pa.Table, wanted: Iterable[tuple[str, str, str]]
    ) -> dict[tuple[str, str, str], Sample | None]:
        """Return the samples of several (lang, metric, split) of an evaluation's predictions; each
        language's rows are looked up once.
        """
        found: dict[tuple[str, str, str], Sample | None] = dict.fromkeys(wanted)
        for lang, split in dict.fromkeys((lang, split) for lang, _, split in found):
            of_lang = pc.equal(predictions["lang"], lang)
            rows = predictions.filter(pc.and_(of_lang, pc.equal(predictions["split"], split)))
            for name in found:
                if len(rows) and (name[0], name[2]) == (lang, split):
                    found[name] = cls.sample(rows, name[1])
        return found

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
