"""The frame of tasks that compare the vectors of a language and the pivot as they are."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from raxalign.config.params import Removed
from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.sentence_config import SentencePooling
from raxalign.encoders.models.vectors import parse_layers
from raxalign.errors import RaxalignError
from raxalign.lazy import pa
from raxalign.measured import Measured
from raxalign.sample import Sample, of_layers
from raxalign.similarity.measures import MEASURES, TEMPERATURE, idle_options
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs
from raxalign.tasks.transfer.outcome import means
from raxalign.tasks.vectors.one_pass import OnePass
from raxalign.train.runtime import Runtime

LAYERS = (
    "Layers whose vectors are read and added up: `last`, one number or a range such as `9-12` (0:"
    " the embeddings), or fractions of the depth such as `0.5` and `0.5-1.0`; of a list each is"
    " evaluated from one pass, with names such as `layer8-12_accuracy`, and metrics without such a"
    " name are of its last entry."
)
WORD_POOLING = (
    "How the vectors of a word's pieces become one: the `first`, the `last`, their `mean` or their"
    " `sum`."
)
SENTENCE_POOLING = (
    "What the vector of a sentence is: the `mean` of its pieces (of static vectors, of its words),"
    " that of its first piece (`cls`) or of its last one that is not special (`last`), a mean in"
    " which piece i weighs i + 1 (`weighted`), or what sentence-transformers keeps in the encoder's"
    " folder, prompt included (`own`)."
)
OwnPooling = SentencePooling | Literal["own"]
_EVERY = "; ".join(f"`{name}`, {entry.about}" for name, entry in MEASURES.items())
WORD_MEASURE = f"Measure by which the nearest words are found: {_EVERY}."
SENTENCE_MEASURE = f"Measure by which the nearest sentences are found: {_EVERY}."
*_FIRST, _LAST = (f"`{name}`" for name in MEASURES if "k" not in idle_options(name))
NEIGHBORS = (
    f"Number of nearest vectors in a hubness term, of {', '.join(_FIRST)} and {_LAST}; the other"
    " measures have none."
)
NO_TEMPERATURE = Removed(f"the temperature of exponentials is {TEMPERATURE}")

_FOLDERS = {"dev": "dev", "test": "data"}
"""Split -> its folder in an artifact of held-out data."""
_OF_ALL = {"lang": "string", "split": "string"}
_LISTED = re.compile(r"layer(\d+(?:-\d+)?)_(\w+)")


@dataclass(frozen=True)
class SplitResult:
    """What was found on one split of a language and the pivot: the values by metric, the columns of
    the predictions (of each direction, where there are two), and notes.
    """

    values: Mapping[str, float]
    columns: Sequence[Mapping[str, Any]]
    notes: Mapping[str, object]

    def at(self, label: str, *, last: bool) -> SplitResult:
        """Return the same as one of several layers; the `last` has the former names too."""
        values = {f"layer{label}_{name}": value for name, value in self.values.items()}
        columns = []
        for table in self.columns:
            n = len(next(iter(table.values())))
            columns.append({**table, "layers": [label] * n})
        return SplitResult({**values, **(self.values if last else {})}, columns, self.notes)


def single(layers: str | tuple[str, ...]) -> str:
    """Return `layers` where one entry is compared, as all comparing is."""
    assert isinstance(layers, str)
    return layers


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
        """Return `layers`, of all entries of a list."""
        entries = self._layer_list() or [self.resolved()["layers"]]
        return Reads(frozenset(n for entry in entries for n in parse_layers(entry, n_layers)))

    def pools_languages(self) -> bool:
        """Return whether the vectors of all languages are compared at once."""
        return False

    @classmethod
    def measured(cls, metric: str) -> Measured | None:
        """Return the declaration of a metric, at one of the layers of a list too."""
        found, listed = super().measured(metric), _LISTED.fullmatch(metric)
        entry = super().measured(listed[2]) if found is None and listed is not None else None
        if entry is None:
            return found
        about = f"{entry.about[:-1]}, at one of several layers."
        return replace(
            entry, name=metric, about=about, role="part" if entry.role == "score" else entry.role
        )

    @classmethod
    def samples(
        cls, predictions: pa.Table, wanted: Iterable[tuple[str, str, str]]
    ) -> dict[tuple[str, str, str], Sample | None]:
        """Return the samples of metrics, of each layer of a list by its own rows."""
        if "layers" not in predictions.column_names:
            return super().samples(predictions, wanted)
        found: dict[tuple[str, str, str], Sample | None] = {}
        parts: dict[str, dict[tuple[str, str, str], tuple[str, str, str]]] = {}
        for name in wanted:
            at = _LISTED.fullmatch(name[1])
            label, metric = (at[1], at[2]) if at is not None else ("", name[1])
            parts.setdefault(label, {})[name] = (name[0], metric, name[2])
        for label, names in parts.items():
            own = super().samples(of_layers(predictions, label), names.values())
            found |= {name: own[plain] for name, plain in names.items()}
        return found

    def more_columns(self) -> Mapping[str, str]:
        """Return the columns that the predictions have with these params, besides `columns`."""
        return {}

    def resolved(self) -> dict[str, Any]:
        """Return the params by name, those of a profile filled in."""
        return self.params.identity()

    def idle(self) -> set[str]:
        """Return the params that others' values make idle: what the measure does not read."""
        return idle_options(self.resolved()["measure"])

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
        for lang, split, found in self._of_each(aligned, languages, inputs):
            label = f"{lang}-{inputs.pivot}"
            scores += [Score(label, metric, split, value) for metric, value in found.values.items()]
            tables += [self._table(label, split, columns) for columns in found.columns]
            notes.setdefault(label, {}).update(found.notes)
        if len(languages) > 1:
            labels = [f"{lang}-{inputs.pivot}" for lang in languages]
            unseen = [f"{lang}-{inputs.pivot}" for lang in inputs.unseen]
            of_entries = [
                f"layer{label}_" for label in self._layer_labels(aligned.n_layers).values()
            ]
            averaged = self.averaged and tuple(
                f"{prefix}{name}" for prefix in ("", *of_entries) for name in self.averaged
            )
            scores += means(scores, labels, metrics=averaged, unseen=unseen)
        return Outcome(scores, pa.concat_tables(tables or [self._schema().empty_table()]), notes)

    def _layer_list(self) -> tuple[str, ...]:
        """The entries of `layers` where it is a list."""
        layers = self.resolved()["layers"]
        return () if isinstance(layers, str) else tuple(layers)

    def _layer_labels(self, n_layers: int) -> dict[str, str]:
        """The entries of a list with their layers in metric names. Raises `RaxalignError` where two
        are the same layers.
        """
        labels: dict[str, str] = {}
        for entry in self._layer_list():
            numbers = parse_layers(entry, n_layers)
            first, last = numbers[0], numbers[-1]
            label = str(first) if first == last else f"{first}-{last}"
            if label in labels.values():
                raise RaxalignError(
                    f"layers {entry!r} of the list are layer {label} of this encoder, which another"
                    " entry names; leave one out"
                )
            labels[entry] = label
        return labels

    def _of_each(
        self, aligned: AlignedEncoder, languages: tuple[str, ...], inputs: TaskInputs
    ) -> Iterator[tuple[str, str, SplitResult]]:
        """What is compared, for every entry of a list of layers."""
        labels = self._layer_labels(aligned.n_layers)
        if not labels:
            yield from self.compared(aligned, languages, inputs)
            return
        view = OnePass.of(aligned, tuple(labels))
        for some in [languages] if self.pools_languages() else [(lang,) for lang in languages]:
            view.kept.clear()  # the pivot's are under each language's view
            for place, (entry, label) in enumerate(labels.items(), 1):
                one = type(self)(self.params.model_copy(update={"layers": entry}))
                for lang, split, found in one.compared(view, some, inputs):
                    yield lang, split, found.at(label, last=place == len(labels))

    def _schema(self) -> pa.Schema:
        types = {**_OF_ALL, **self.columns, **self.more_columns()}
        types |= {"layers": "string"} if self._layer_list() else {}
        return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in types.items()])

    def _table(self, label: str, split: str, columns: Mapping[str, Any]) -> pa.Table:
        n = len(next(iter(columns.values())))
        return pa.table(
            {"lang": [label] * n, "split": [split] * n, **columns}, schema=self._schema()
        )


def heldout_splits(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each split of a held-out artifact that has rows, with its dataset folder. One that has
    none has a folder too.
    """
    for split, name in _FOLDERS.items():
        if len(read_table(folder / name)):
            yield split, folder / name
