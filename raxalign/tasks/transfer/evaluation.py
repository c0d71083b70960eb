"""The evaluation of what a training left, in every language or pair of languages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from raxalign.tasks.base import Outcome
from raxalign.tasks.transfer.head import Head, HeldOut
from raxalign.tasks.transfer.outcome import languages_of, missing_splits, scores_of, select
from raxalign.tasks.transfer.trained import Trained, TrainedModel

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder


def evaluate(
    head: Head, aligned: AlignedEncoder, languages: Sequence[str], folder: Path
) -> Outcome:
    """Score all languages on all splits that are given.

    Args:
        head: Reads and scores the rows.
        aligned: The encoder that is evaluated.
        languages: Those that are evaluated, the pivot first.
        folder: The folder that `train` filled.

    Returns:
        The scores, their means over languages, and one prediction per row.

    Raises:
        DataError: A file cannot be read, or was trained on.
    """
    pivot, trained = head.pivot, Trained.read(folder)
    held_out = head.crossed_sets(languages, trained.fingerprints)
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    tables, chosen = list[pa.Table](), dict[str, object]()
    for model, spoken in languages_of(trained.models, languages, pivot):
        view = aligned if model.toward is None else aligned.toward(model.toward)
        own = [held for held in held_out if held.owner(pivot) in spoken]
        scorer = _Scorer(head, view, model, trained.labels, own)
        points, chosen[model.name] = scorer.choose()
        for held in own:
            point = points[held.label]
            predicted = scorer.predictions(held, point)
            for metric, value in head.measure(held, predicted, trained.labels).items():
                found[held.label, metric, held.split].append(value)
            tables.append(scorer.table(held, point, predicted))
    labels = list(dict.fromkeys(held.label for held in held_out))
    trained_on = next((held.label for held in held_out if held.langs == (pivot, pivot)), pivot)
    there = {(held.label, held.split) for held in held_out}
    notes = head.notes(held_out, trained.labels, chosen)
    notes |= missing_splits(there, head.splits(), labels)
    return Outcome(scores_of(found, labels, trained_on), pa.concat_tables(tables), notes)


@dataclass
class _Scorer:
    """Predictions of one model, which is built once. Weights are read when others are asked for."""

    head: Head
    aligned: AlignedEncoder
    trained: TrainedModel
    labels: Sequence[str]
    held_out: Sequence[HeldOut]
    _loaded: int | None = None
    _inputs: dict[str, Any] = field(default_factory=dict)
    _found: dict[tuple[str, int], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.model = self.head.new_model(self.aligned, self.labels, 0, training=False)

    def choose(self) -> tuple[Mapping[str, int], object]:
        """Choose the weights that each language or pair takes, by the training's own choice or by
        the development sets alone. Return them, and a note on the choice.
        """
        points = sorted(self.trained.files)
        labels = list(dict.fromkeys(held.label for held in self.held_out))
        if self.trained.chosen is not None:
            own = {label: self.trained.choice(label) for label in labels}
            return own, own
        chosen, scores = dict.fromkeys(labels, points[0]), defaultdict[str, list[float]](list)
        dev = [held for held in self.held_out if held.split == "dev"] if len(points) > 1 else []
        for point in points if dev else ():
            for held in dev:
                values = self.head.measure(held, self.predictions(held, point), self.labels)
                scores[held.label].append(values[self.head.task.main_metric])
        if dev:
            places = select(self.head.options.selection, scores)
            chosen = {label: points[place] for label, place in places.items()}
        return chosen, {"epochs": chosen, "dev_by_epoch": dict(scores)}

    def predictions(self, held: HeldOut, point: int) -> Any:
        """Return the predictions on held-out rows, and remember them."""
        key = (held.place, point)
        if key not in self._found:
            if self._loaded != point:
                self.model.load(self.trained.files[point])
                self._loaded = point
            inputs = self._inputs.get(held.place) or self.head.inputs_of(self.model, held)
            if held.split == "dev" and len(self.trained.files) > 1:  # the others are read once
                self._inputs[held.place] = inputs
            self._found[key] = self.head.predict(self.model, inputs)
        return self._found[key]

    def table(self, held: HeldOut, point: int, predicted: Any) -> pa.Table:
        """Return one row per held-out row."""
        n = len(held.rows)
        common = {
            "lang": pa.array([held.label] * n, pa.string()),
            "split": pa.array([held.split] * n, pa.string()),
            "toward": pa.array([self.trained.toward] * n, pa.string()),
            self.head.point: pa.array([point] * n, pa.int64()),
        }
        return pa.table({**common, **self.head.columns(held, predicted, self.labels)})
