"""The contract of a task: an aligned encoder in, metrics a language and per-example predictions
out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from raxalign.config.params import BaseParams
from raxalign.config.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.corpora.readers.inspection import FileRead
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.vectors import Pooling
    from raxalign.sample import Sample
    from raxalign.train.runtime import Runtime


@dataclass(frozen=True)
class TaskNeeds:
    """What `evaluate` reads of the grid's own corpus: `heldout`, word pairs of the dev and test
    sides, or `bitext`, their sentence pairs alone (which no word aligner has a part in), `seen`,
    the word types linked in training, and `text`, monolingual text of the languages and the pivot
    (of the grid's largest training set, where the text is from those). `unseen_in` is the number of
    training sentences of that run of the word aligner (None: the grid's largest).
    """

    heldout: bool = False
    bitext: bool = False
    seen: bool = False
    unseen_in: int | None = None
    text: bool = False


@dataclass(frozen=True)
class Reads:
    """What of an encoder decides a result: `layers` are those whose vectors are read (so that
    readouts apply), `stream` the highest layer of the stream that is read past all readouts (None:
    it is not); `tunes` says that the task's training changes the encoder.
    """

    layers: frozenset[int] = frozenset()
    stream: int | None = None
    tunes: bool = False


@dataclass(frozen=True)
class TaskInputs:
    """What was asked for: for each language the folder of held-out word pairs (``data/``, the test
    side, and ``dev/`` inside, each a dataset), or of sentence pairs (`bitext`, laid out likewise,
    without links), and the folder of seen word types (``types.arrow``, columns src and tgt);
    `text`, a dataset (column ``words``) of a language or the pivot; `files`, name -> language ->
    path, the pivot's under its own code; `digests`, ``name/language`` -> digest or revision;
    `downloads`, a folder for fetched data.
    """

    pivot: str
    heldout: Mapping[str, Path] = field(default_factory=dict)
    seen: Mapping[str, Path] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    downloads: Path | None = None
    text: Mapping[str, Path] = field(default_factory=dict)
    bitext: Mapping[str, Path] = field(default_factory=dict)


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


class Refit(Protocol):
    """The capability of a task that readouts can be fitted again on: its training leaves one
    encoder (`trained_encoder` of transfer tasks).
    """

    def reads_words(self) -> Pooling | None:
        """How the task joins the pieces of the words that it reads, so that readouts are fitted on
        these; None where it reads something other than words ([CLS], or every piece), and readouts
        are fitted on words as the method has them.
        """

    def keeping(self) -> Task:
        """The same task with `readout: keep`: what is done where there is no readout to fit
        again.
        """


class Task(ABC):
    """An evaluation. Subclasses are final, one a file, and import torch only inside functions or
    lazily.
    """

    VERSION: ClassVar[int]
    accepts: ClassVar[frozenset[str]] = frozenset({"transformer"})
    main_metric: ClassVar[str]
    competes: ClassVar[bool] = True
    """Whether more of a metric is better, so that a table may call a larger value better."""
    guessing: ClassVar[float | None] = None
    """What guessing gets of the main metric: 1 over the labels of a classifier. None where there is
    no such level.
    """

    class Params(BaseParams):
        """The options of the task."""

    predicts: ClassVar[frozenset[str] | None] = None
    """Columns of the predictions that added metrics may read; None where this is known only after
    an evaluation.
    """

    def __init__(self, params: Params) -> None:
        self.params = params

    def needs(self) -> TaskNeeds:
        """What `evaluate` reads of the grid's corpus."""
        return TaskNeeds()

    def canonical(self) -> dict[str, Any]:
        """The params (YAML names, defaults filled in) without idle ones and without paths."""
        return self.params.identity()

    def reads(self, n_layers: int) -> Reads:
        """What of an encoder of so many blocks is read: everything, unless a task says less.

        Where a method changes nothing of this, its evaluation is that of the encoder itself, and is
        not run. Raises `RaxalignError` where the params name layers that the encoder does not have.
        """
        return Reads(frozenset(range(n_layers + 1)), n_layers, tunes=True)

    def training(self) -> Mapping[str, object] | None:
        """The part of `canonical` that the task's own training depends on, or None where it has
        none.
        """
        return None

    def training_languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """The languages whose data the training reads (selection on target development sets reads
        theirs).
        """
        return (pivot,)

    def refit(self) -> Refit | None:
        """What is asked for fitting a method's readouts again on the encoder that the task's own
        training left; None where they stay as they are.
        """
        return None

    def has_chance(self) -> bool:
        """Whether the seed can change the result."""
        return self.training() is not None

    def languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """The languages that one evaluation covers: transfer tasks add the pivot."""
        return languages

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Outside data that is read for one language (the pivot included), name -> source."""
        return {}

    def fetch(self, lang: str, pivot: str, downloads: Path) -> Mapping[str, str]:
        """Resolve remote data of one language: source name -> revision or digest."""
        return {}

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Faults that only the languages show (a training path with ``{lang}`` in a zero-shot
        setting), as messages.
        """
        return []

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Reads the local files of all `languages` that `train` and `evaluate` will read, with the
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
        """Train on what `training` says, from the weights of `aligned`, and leave the result in
        `folder`; returns notes.
        """
        raise NotImplementedError(f"{type(self).__name__} has no training of its own")

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:  # noqa: ARG003
        """What the predictions of one language and split say about a metric; None where they cannot
        be taken apart into independent units.
        """
        return None

    @classmethod
    def samples(
        cls, predictions: pa.Table, wanted: Iterable[tuple[str, str, str]]
    ) -> dict[tuple[str, str, str], Sample | None]:
        """The samples of several (lang, metric, split) of an evaluation's predictions; each
        language's rows are looked up once.
        """
        import pyarrow.compute as pc

        found: dict[tuple[str, str, str], Sample | None] = dict.fromkeys(wanted)
        for lang, split in dict.fromkeys((lang, split) for lang, _, split in found):
            rows = predictions.filter(
                pc.and_(pc.equal(predictions["lang"], lang), pc.equal(predictions["split"], split))
            )
            if len(rows):
                found |= {
                    (a, metric, c): cls.sample(rows, metric)
                    for a, metric, c in found
                    if (a, c) == (lang, split)
                }
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
        """Scores of every language; `trained` is the folder that `train` filled."""
