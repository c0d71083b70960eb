"""The frame of tasks that compare the vectors of a language and the pivot as they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from raxalign.encoders.models.vectors import parse_layers
from raxalign.lazy import pa
from raxalign.similarity import NEIGHBORS_ABOUT, measure_about, uses_neighbors
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs
from raxalign.tasks.transfer.outcome import means

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime

LAYERS = (
    "Layers whose vectors are read and added up: `last`, one number or a range such as `9-12` (0:"
    " the embeddings), or fractions of the depth such as `0.5` and `0.5-1.0`."
)
WORD_POOLING = (
    "How the vectors of a word's pieces become one: the `first`, the `last`, their `mean` or their"
    " `sum`."
)
WORD_MEASURE = measure_about("Measure by which the nearest words are found")
SENTENCE_MEASURE = measure_about("Measure by which the nearest sentences are found")
NEIGHBORS = NEIGHBORS_ABOUT

_FOLDERS = {"dev": "dev", "test": "data"}
"""Split -> its folder in an artifact of held-out data."""
_OF_ALL = {"lang": "string", "split": "string"}


@dataclass(frozen=True)
class SplitResult:
    """What was found on one split of a language and the pivot: the values by metric, the columns of
    the predictions (of each direction, where there are two), and notes.
    """

    values: Mapping[str, float]
    columns: Sequence[Mapping[str, Any]]
    notes: Mapping[str, object]


class VectorTask(Task):
    """A task that compares vectors of each language with those of the pivot, without a training of
    its own. A subclass has the params `layers`, and `measure` and `k` where it has a measure.
    """

    accepts = frozenset({"transformer", "static"})
    columns: ClassVar[Mapping[str, str]]
    """Name -> Arrow type of the columns of the predictions, besides `lang` and `split`."""
    averaged: ClassVar[tuple[str, ...] | None] = None
    """The metrics that have means over languages (None: all)."""

    def reads(self, n_layers: int) -> Reads:
        """Return `layers`."""
        return Reads(frozenset(parse_layers(self.resolved()["layers"], n_layers)))

    def more_columns(self) -> Mapping[str, str]:
        """Return the columns that the predictions have with these params, besides `columns`."""
        return {}

    def resolved(self) -> dict[str, Any]:
        """Return the params by name, those of a profile filled in."""
        return self.params.identity()

    def idle(self) -> set[str]:
        """Return the params that others' values make idle: `k` without neighbourhoods."""
        return set() if uses_neighbors(self.resolved()["measure"]) else {"k"}

    def canonical(self) -> dict[str, Any]:
        """Return the params without idle ones."""
        idle = self.idle()
        return {name: value for name, value in self.resolved().items() if name not in idle}

    @abstractmethod
    def compare(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs
    ) -> Iterator[tuple[str, SplitResult]]:
        """Yield what is found for a language on each split that there is."""

    def compared(
        self, aligned: AlignedEncoder, languages: tuple[str, ...], inputs: TaskInputs
    ) -> Iterator[tuple[str, str, SplitResult]]:
        """Yield (language, split, what is found) for each language on each split that there is."""
        for lang in languages:
            for split, found in self.compare(aligned.toward(lang), lang, inputs):
                yield lang, split, found

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,  # noqa: ARG002
    ) -> Outcome:
        """Compare every language with the pivot; scores have the names of both."""
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, dict[str, object]] = {}
        for lang, split, found in self.compared(aligned, languages, inputs):
            label = f"{lang}-{inputs.pivot}"
            scores += [Score(label, metric, split, value) for metric, value in found.values.items()]
            tables += [self._table(label, split, columns) for columns in found.columns]
            notes.setdefault(label, {}).update(found.notes)
        if len(languages) > 1:
            labels = [f"{lang}-{inputs.pivot}" for lang in languages]
            unseen = [f"{lang}-{inputs.pivot}" for lang in inputs.unseen]
            scores += means(scores, labels, metrics=self.averaged, unseen=unseen)
        return Outcome(scores, pa.concat_tables(tables or [self._schema().empty_table()]), notes)

    def _schema(self) -> pa.Schema:
        types = {**_OF_ALL, **self.columns, **self.more_columns()}
        return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in types.items()])

    def _table(self, label: str, split: str, columns: Mapping[str, Any]) -> pa.Table:
        n = len(next(iter(columns.values())))
        return pa.table(
            {"lang": [label] * n, "split": [split] * n, **columns}, schema=self._schema()
        )


def heldout_splits(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each split of a held-out artifact that is there, with its dataset folder."""
    for split, name in _FOLDERS.items():
        if (folder / name).is_dir():
            yield split, folder / name
