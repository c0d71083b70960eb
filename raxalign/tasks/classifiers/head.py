"""The head of labels: how examples are read, which classifier reads them, and its scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from raxalign.arrays import offsets_of
from raxalign.config.sources import differs_by_language
from raxalign.corpora.readers.inspection import FileRead, Report, read_through, refuse
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.static import StaticEncoder
from raxalign.errors import DataError
from raxalign.lazy import np, pa
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classifiers.examples import (
    Example,
    Examples,
    ExampleTable,
    counterparts,
    read_examples,
    training_parts,
    write_examples,
)
from raxalign.tasks.classifiers.model import Classifier, SentenceClassifier, WordClassifier
from raxalign.tasks.classifiers.reading import ExampleFile, read_hub
from raxalign.tasks.classifiers.scheme import METRICS
from raxalign.tasks.transfer.head import Batches, Head, HeldOut, noted
from raxalign.tasks.transfer.lazy_lists import chained
from raxalign.tasks.transfer.outcome import readers
from raxalign.tasks.transfer.params import HubSet, Split
from raxalign.train.loop import TrainSettings

_PHRASEBOOK_SEED = 0
"""The examples are data: they do not change with the seed of a trial."""

_SHOWN = 5
"""So many labels are shown in a message."""


class LabelHead(Head):
    """Examples, a classifier, and its probabilities (examples, labels)."""

    model: ClassVar[Any] = SentenceClassifier
    static_hidden: ClassVar[int] = 300
    """Width of the hidden layer of the classifier over word vectors."""
    static_rate: ClassVar[float] = 1e-3
    """Its learning rate at the end of the warm-up: the task's own is that of fine-tuning."""

    def __init__(self, task: Any, inputs: TaskInputs) -> None:
        super().__init__(task, inputs)
        self.scheme = task.scheme()
        self.allowed = 0.5 if task.repeats else 0.0
        self.known = set[str]()

    def read_local(self, split: Split, lang: str, report: Report = refuse) -> Examples:
        """Read a local file."""
        alone = differs_by_language(getattr(self.params.data, split)) or lang == self.pivot
        file = ExampleFile(self.path(split, lang), lang, split, self.scheme, alone=alone)
        return file.read(report)

    def read_hub(self, found: HubSet, split: Split) -> Examples:
        """Read a split of a data set of the hub."""
        return read_hub(found, split, self.scheme, self.inputs.downloads)

    def read_phrasebook(self, split: Split, lang: str, source: str) -> Examples:
        """Read examples of the phrasebook."""
        n: int = getattr(self.params.phrasebook, split)
        paired = bool(self.scheme.columns.second)
        made = enumerate(self.task.phrasebook(n, lang, split, _PHRASEBOOK_SEED), 1)
        rows = (
            Example(" ".join(first), " ".join(second) if paired else None, label, i)
            for i, (first, second, label) in made
        )
        return Examples(source, ExampleTable.of(rows))

    read_prepared = staticmethod(read_examples)
    write_prepared = staticmethod(write_examples)

    def check_trained(self, rows: Examples) -> Examples:
        """Return the examples, and remember their labels."""
        self.known |= {*rows.label_names()}
        return rows

    def check_evaluated(self, rows: Examples) -> Examples:
        """Return the examples. Raises `DataError` where none has a label of the training data, by
        which the task's labels are known.
        """
        known, found = {*self.labels} or self.known, rows.label_names()
        if known and not self.scheme.labels and not known & {*found}:
            own, others = (", ".join(sorted(names)[:_SHOWN]) for names in (found, known))
            told = f"has the labels {own}, but the training data has {others}"
            remedy = "Labels are the same in all languages: write the training data's names"
            line = int(rows.table["line"][0].as_py())
            raise DataError(rows.source, told, line=line, remedy=remedy)
        return rows

    def choosing(self, languages: Sequence[str]) -> Sequence[str]:
        """Return those of the languages whose development sets choose the weights."""
        each = self.params.models == "each" and self.params.selection != "last"
        return readers("target-dev" if each else self.params.selection, languages, self.pivot)

    def compare_trained(self, languages: Sequence[str]) -> Iterator[FileRead]:
        """Compare training files with the pivot's, line by line, where languages are mixed."""
        if self.params.code_switching != "sentence":
            return
        pivot = self.training_rows(self.pivot)
        for lang in languages:
            if lang != self.pivot:

                def read(_: Report, lang: str = lang) -> int:
                    counterparts(self.training_rows(lang), pivot, whole=True)
                    return 0

                yield read_through(self.path("train", lang), read)

    def new_model(self, aligned: AlignedEncoder, seed: int, *, training: bool = True) -> Classifier:
        """Make a classifier that fits the encoder: fine-tuned, or over static word vectors."""
        if not isinstance(aligned.encoder, StaticEncoder):
            made: Classifier = super().new_model(aligned, seed, training=training)
            return made
        dropout, texts = self.params.dropout if training else 0.0, self.scheme.columns.texts
        shape = (len(texts), self.static_hidden, len(self.labels))
        return WordClassifier(aligned, shape, dropout=dropout, seed=seed)

    def settings(self, model: Classifier) -> TrainSettings:
        """Return the settings of the training; over word vectors the rate is that of their head."""
        settings = super().settings(model)
        if isinstance(model, WordClassifier):
            return replace(settings, learning_rate=self.static_rate)
        return settings

    def labels_of(self, rows: Sequence[Examples]) -> tuple[str, ...]:
        """Return the labels of the task, or else those of the training examples, sorted. Raises
        `DataError` where there are fewer than two.
        """
        found = self.scheme.labels or tuple(
            sorted({label for examples in rows for label in examples.label_names()})
        )
        if len(found) < 2:
            source = ", ".join(examples.source for examples in rows)
            told = f"has the label {', '.join(found)} alone"
            raise DataError(source, told, remedy="A classifier needs two labels at least")
        return found

    def groups(
        self, given: Mapping[str, Examples]
    ) -> list[tuple[str | None, Mapping[str, Examples]]]:
        """Return what each model is trained on, and the one language it is for (None: all)."""
        if self.params.models == "together":
            return [(None, given)]
        return [(lang, {lang: examples}) for lang, examples in given.items()]

    def batches(self, model: Classifier, given: Mapping[str, Examples]) -> Batches:
        """Return the training examples as the classifier reads them, by units of one example or,
        where languages are mixed, two.
        """
        # The phrasebook's examples that are evaluated too were left out, and those without a text:
        # others in each language.
        whole = self.params.data != "phrasebook" and not any(r.remarks for r in given.values())
        mixing = self.params.code_switching
        parts = training_parts(given, self.labels, self.pivot, mixing, whole=whole)
        pieces = [model.rows(part.texts, part.langs) for part in parts]
        units, numbers = (
            np.concatenate(found)
            for found in zip(*((part.units, part.numbers) for part in parts), strict=True)
        )
        members, offsets = np.argsort(units, kind="stable"), offsets_of(np.bincount(units))
        counted = {"examples": len(numbers)}
        return Batches(model, chained(pieces), numbers, members, offsets, counted)

    def notes_of_training(
        self, given: Mapping[str, Examples], counts: Sequence[Mapping[str, int]]
    ) -> dict[str, object]:
        """Return the numbers of examples."""
        rows = {lang: len(examples) for lang, examples in given.items()}
        unlabelled = sum(examples.left_out for examples in given.values())
        notes: dict[str, object] = {"rows": sum(rows.values()), "unlabelled": unlabelled}
        if [*given] == [self.pivot]:
            return notes
        examples = sum(count["examples"] for count in counts)
        return {**notes, "rows_by_language": rows, "examples": examples}

    def inputs_of(self, model: Classifier, held: HeldOut) -> Sequence[Any]:
        """Return held-out examples as the classifier reads them."""
        texts = [held.rows.texts(name) for name in held.rows.text_names]
        rows: Sequence[Any] = model.rows(texts, held.langs)
        return rows

    def predict(self, model: Classifier, inputs: Sequence[Any]) -> np.ndarray:
        """Return the probabilities of labels."""
        found: np.ndarray = model.probabilities(inputs).numpy()
        return found

    def measure(self, held: HeldOut, predicted: np.ndarray) -> dict[str, float]:
        """Return the accuracy, and the main metric."""
        gold, found = held.rows.numbers(self.labels), predicted.argmax(1)
        metrics = dict.fromkeys(("accuracy", self.task.main_metric))
        return {metric: METRICS[metric](gold, found) for metric in metrics}

    def columns(self, held: HeldOut, predicted: np.ndarray) -> dict[str, Any]:
        """Return labels, predicted ones, and a column of probabilities per label. The column of
        the task's `unit` numbers what is resampled together: the groups of the data set, or else
        the first texts.
        """
        number, rows = dict[str, int](), list(held.rows.rows)
        units = [number.setdefault(row.group or row.first, len(number)) for row in rows]
        columns = {
            "id": pa.array(range(len(rows)), pa.int64()),
            self.task.unit: pa.array(units, pa.int64()),
            "label": pa.array([row.label for row in rows], pa.string()),
            "predicted": pa.array([self.labels[i] for i in predicted.argmax(1)], pa.string()),
        }
        if self.task.repeats:
            columns["seen"] = pa.array(held.seen.tolist(), pa.bool_())
        taken = {"lang", "split", "toward", self.point, *columns}
        for i, label in enumerate(self.labels):
            name = f"probability of {label}" if label in taken else label
            columns[name] = pa.array(predicted[:, i], pa.float32())
            taken.add(name)
        return columns

    def notes(self, held_out: Sequence[HeldOut], chosen: Mapping[str, object]) -> dict[str, object]:
        """Return the notes of an evaluation."""
        notes, known = super().notes(held_out, chosen), {*self.labels}
        notes["unlabelled"] = noted(held_out, lambda held: held.rows.left_out)
        if not self.scheme.labels:
            notes["labels"] = list(self.labels)
            notes["labels_not_in_training"] = noted(
                held_out, lambda held: sorted({*held.rows.label_names()} - known)
            )
        if self.task.repeats:
            notes["seen_in_training"] = noted(held_out, lambda held: int(held.seen.sum()))
        return notes
