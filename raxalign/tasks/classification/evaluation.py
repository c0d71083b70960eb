"""The evaluation of a trained classifier in every language.

The table of a classifier's predictions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raxalign.tasks.base import Outcome
from raxalign.tasks.classification.classifiers import new_classifier
from raxalign.tasks.classification.data import ExampleData
from raxalign.tasks.classification.examples import Examples, refuse_overlap
from raxalign.tasks.classification.metrics import METRICS
from raxalign.tasks.classification.scheme import LabelScheme, Split
from raxalign.tasks.transfer.outcome import (
    TARGET_DEV,
    languages_of,
    missing_splits,
    read_given,
    scores_of,
)
from raxalign.tasks.transfer.selection import select
from raxalign.tasks.transfer.trained import Trained, TrainedModel

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder


Probabilities = npt.NDArray[np.float32]


@dataclass(frozen=True)
class HeldOut:
    """What is evaluated of one language and split; `seen` marks the examples that were trained
    on.
    """

    lang: str
    split: Split
    examples: Examples
    seen: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Predictions:
    """The probabilities (examples, labels) of one model at one epoch, by the `labels` that it tells
    apart; `toward` is the language that the pivot's transforms lead to (None: nowhere).
    """

    toward: str | None
    epoch: int
    probabilities: Probabilities

    def predicted(self) -> npt.NDArray[np.int64]:
        """Returns the number of the most probable label of each example."""
        return np.asarray(self.probabilities.argmax(1), dtype=np.int64)


def table_of(
    scheme: LabelScheme, labels: tuple[str, ...], held_out: HeldOut, found: Predictions
) -> pa.Table:
    """Makes one row per example: its label, the predicted one, and a column of probabilities per
    label.

    The column `scheme.unit` numbers what is resampled together: the groups of the data set, or else
    the first texts.
    """
    n, number = len(held_out.examples), dict[str, int]()
    rows = held_out.examples.rows
    columns = {
        "lang": pa.array([held_out.lang] * n, pa.string()),
        "split": pa.array([held_out.split] * n, pa.string()),
        "toward": pa.array([found.toward] * n, pa.string()),
        "epoch": pa.array([found.epoch] * n, pa.int64()),
        "id": pa.array(range(n), pa.int64()),
        scheme.unit: pa.array(
            [number.setdefault(row.group or row.first, len(number)) for row in rows], pa.int64()
        ),
        "label": pa.array([row.label for row in rows], pa.string()),
        "predicted": pa.array([labels[i] for i in found.predicted()], pa.string()),
    }
    if scheme.repeats:
        columns["seen"] = pa.array(held_out.seen.tolist(), pa.bool_())
    for i, label in enumerate(labels):
        # A label may be called like one of the other columns.
        name = f"probability of {label}" if label in columns else label
        columns[name] = pa.array(found.probabilities[:, i], pa.float32())
    return pa.table(columns)


Place = tuple[str, "Split"]
"""(language, split)"""


def evaluate(
    data: ExampleData, aligned: AlignedEncoder, languages: Sequence[str], folder: Path
) -> Outcome:
    """Scores all languages on all splits that are given.

    Args:
        data: reads the examples.
        aligned: the encoder that is evaluated.
        languages: those that are evaluated, the pivot first.
        folder: the folder that `train` filled.

    Returns:
        the scores, their means over languages, and one prediction per example.

    Raises:
        DataError: a file cannot be read, or an example was trained on.
    """
    scheme, pivot = data.scheme, data.inputs.pivot
    trained = Trained.read(folder)
    held_out = _held_out(data, languages, trained.fingerprints)
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    tables, chosen = [], {}
    for model, spoken in languages_of(trained.models, languages, pivot):
        view = aligned if model.toward is None else aligned.toward(model.toward)
        scorer = _Scorer(data, view, model, tuple(trained.labels), held_out)
        epochs, by_epoch = scorer.select(spoken)
        chosen[model.name] = {"epochs": epochs, "dev_by_epoch": by_epoch}
        for (lang, split), place in held_out.items():
            if lang in spoken:
                for metric in dict.fromkeys(("accuracy", scheme.metric)):
                    value = scorer.score(place, epochs[lang], metric)
                    found[lang, metric, split].append(value)
                tables.append(scorer.table(place, epochs[lang]))
    scores = scores_of(found, languages, pivot)
    notes = _notes(data, held_out, trained.labels, chosen)
    missing = missing_splits(held_out, data.splits(), languages)
    return Outcome(scores, pa.concat_tables(tables), {**notes, **missing})


def _held_out(
    data: ExampleData, languages: Sequence[str], trained: npt.NDArray[np.int64]
) -> dict[Place, HeldOut]:
    """Reads what is evaluated; `trained` are the fingerprints of training examples."""
    found = read_given(data.examples, data.splits(), languages, data.choosing(languages))
    return {
        (lang, split): HeldOut(
            lang,
            split,
            examples,
            refuse_overlap(trained, examples, repeats=data.scheme.repeats),
        )
        for (lang, split), examples in found.items()
    }


@dataclass
class _Scorer:
    """Predictions of one model; the classifier is built once, and an epoch's weights are read when
    another epoch is asked for.
    """

    data: ExampleData
    aligned: AlignedEncoder
    model: TrainedModel
    labels: tuple[str, ...]
    held_out: Mapping[Place, HeldOut]
    _loaded: int | None = None
    _found: dict[tuple[str, str, int], Predictions] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_texts = 2 if self.data.scheme.columns.second else 1
        self.classifier = new_classifier(
            self.aligned, self.data.params, (n_texts, len(self.labels)), dropout=0.0, seed=0
        )

    def predictions(self, place: HeldOut, epoch: int) -> Predictions:
        """Predicts the labels of one language and split, and remembers them."""
        key = (place.lang, place.split, epoch)
        if key not in self._found:
            if self._loaded != epoch:
                self.classifier.load(self.model.files[epoch])
                self._loaded = epoch
            pieces: Sequence[Any] = self.classifier.rows(*place.examples.words(), place.lang)
            found = self.classifier.probabilities(pieces).numpy()
            self._found[key] = Predictions(self.model.toward, epoch, found)
        return self._found[key]

    def score(self, place: HeldOut, epoch: int, metric: str) -> float:
        """Returns a score of one language and split."""
        predicted = self.predictions(place, epoch).predicted()
        return METRICS[metric](place.examples.numbers(self.labels), predicted)

    def table(self, place: HeldOut, epoch: int) -> pa.Table:
        """Returns the table of the predictions on one language and split."""
        return table_of(self.data.scheme, self.labels, place, self.predictions(place, epoch))

    def select(self, languages: Sequence[str]) -> tuple[dict[str, int], dict[str, list[float]]]:
        """Chooses the epoch of each language by the development sets alone; returns it, and the
        scores that led to it.
        """
        epochs = sorted(self.model.files)
        if len(epochs) == 1:
            return dict.fromkeys(languages, epochs[0]), {}
        scores: dict[str, list[float]] = {lang: [] for lang in languages}
        for epoch in epochs:
            for lang in languages:
                dev = self.held_out[lang, "dev"]
                scores[lang].append(self.score(dev, epoch, self.data.scheme.metric))
        chosen = select(self.data.params.selection, scores)
        return {lang: epochs[index] for lang, index in chosen.items()}, scores


def _notes(
    data: ExampleData,
    held_out: Mapping[Place, HeldOut],
    labels: Sequence[str],
    models: Mapping[str, object],
) -> dict[str, object]:
    named = {f"{lang}/{split}": place for (lang, split), place in held_out.items()}
    notes: dict[str, object] = {
        "setting": data.params.setting,
        "selection": data.params.selection,
        "readout": data.params.readout,
        "models": models,
        "rows": {name: len(place.examples) for name, place in named.items()},
        "unlabelled": {
            name: place.examples.unlabelled
            for name, place in named.items()
            if place.examples.unlabelled
        },
    }
    if not data.scheme.labels:
        notes["labels"] = list(labels)
        notes["labels_not_in_training"] = {
            name: missing
            for name, place in named.items()
            if (missing := sorted({row.label for row in place.examples.rows} - {*labels}))
        }
    if data.scheme.repeats:
        notes["seen_in_training"] = {
            name: int(place.seen.sum()) for name, place in named.items() if place.seen.any()
        }
    if data.params.selection == "target-dev":
        notes["warning"] = TARGET_DEV.format("epoch was")
    return notes
