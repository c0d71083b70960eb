"""The evaluation of what a training left, in every language or pair of languages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import DataError
from raxalign.lazy import np, pa
from raxalign.tasks.base import Outcome, Score, means
from raxalign.tasks.transfer.head import Head, HeldOut, noted
from raxalign.tasks.transfer.params import select
from raxalign.tasks.transfer.training import Trained, TrainedModel


def evaluate(
    head: Head, aligned: AlignedEncoder, languages: Sequence[str], folder: Path
) -> Outcome:
    """Score all languages, the pivot first, on all splits that are given, by the weights that
    `train` left in `folder`; return the scores, their means over languages, and one prediction per
    row. Languages that no method has aligned choose no weights but their own. Raises
    `DataError` where a file cannot be read, or was trained on.
    """
    trained = Trained.read(folder)
    head.labels = trained.labels
    held_out = head.evaluated(languages, trained.fingerprints)
    found = _Found()
    for model, spoken in _languages_of(trained.models, languages, head.pivot, head.inputs.unseen):
        scorer = _Scorer(head, aligned, model)
        found.add(scorer, [held for held in held_out if held.owner(head.pivot) in spoken])
    labels = list(dict.fromkeys(held.label for held in held_out))
    notes = {**head.notes(held_out, found.chosen), **noted(held_out, lambda held: held.rows.note)}
    if head.options.selection == "target-dev":
        which = "epoch was" if head.point == "epoch" else "weights were"
        what = f"the {which} chosen on each language's own development set"
        notes["warning"] = f"{what}: this is not a zero-shot result"
    places = [f"{label}/{split}" for label in labels for split in head.data.names()]
    missing = [place for place in places if place not in {held.place for held in held_out}]
    notes |= {"missing_splits": missing} if missing else {}
    # a pivot that moves for each language has a value per model
    scores = [Score(*name, float(np.mean(values))) for name, values in found.values.items()]
    return Outcome(scores + _means(scores, held_out, head), pa.concat_tables(found.tables), notes)


@dataclass
class _Found:
    """What all models of an evaluation found: values by label, metric and split, predictions, and
    the weights that were chosen.
    """

    values: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    tables: list[pa.Table] = field(default_factory=list)
    chosen: dict[str, object] = field(default_factory=dict)

    def add(self, scorer: _Scorer, held_out: Sequence[HeldOut]) -> None:
        """Add what one model finds in its held-out rows."""
        unseen = scorer.head.inputs.unseen
        points, self.chosen[scorer.trained.name] = scorer.choose(held_out, unseen)
        for held in held_out:
            values = scorer.score(held, points[held.label], self.tables)
            for metric, value in values.items():
                self.values.setdefault((held.label, metric, held.split), []).append(value)


def _means(scores: Sequence[Score], held_out: Sequence[HeldOut], head: Head) -> list[Score]:
    """Form the means over languages."""
    pivot, unseen = head.pivot, {*head.inputs.unseen}
    labels = list(dict.fromkeys(held.label for held in held_out))
    trained_on = next((held.label for held in held_out if held.langs == (pivot, pivot)), pivot)
    others = {held.label for held in held_out if {*held.langs} & unseen}
    return means(scores, labels, trained_on, unseen=others)


def _languages_of(
    models: Sequence[TrainedModel], languages: Sequence[str], pivot: str, unseen: Sequence[str]
) -> list[tuple[TrainedModel, list[str]]]:
    """The languages that each model is for: all, the one that it was trained on, or that of its
    transforms and the pivot. Raises `DataError` where a language has no model, unless it is unseen
    and each model is of transforms toward another one.
    """
    pairs = []
    if all(model.toward is not None for model in models):
        languages = [lang for lang in languages if lang not in unseen]
    for model in models:
        if model.toward is None or model.toward in languages:
            own = [lang for lang in languages if model.lang in (None, lang)]
            pairs.append((model, [o for o in own if model.toward in (None, o) or o == pivot]))
    missing = set(languages) - {lang for _, spoken in pairs for lang in spoken}
    if missing:
        told = f"there is no model for {', '.join(sorted(missing))}"
        raise DataError("trained model", f"{told}: the training was for other languages")
    return [(model, spoken) for model, spoken in pairs if spoken]


class _Scorer:
    """Predictions of one model, which is built once. Weights are read when others are asked for."""

    def __init__(self, head: Head, aligned: AlignedEncoder, trained: TrainedModel) -> None:
        self.head, self.trained, self.loaded = head, trained, -1
        self.view = aligned if trained.toward is None else aligned.toward(trained.toward)
        self.model = head.new_model(self.view, 0, training=False)
        self.inputs: dict[str, Any] = {}
        self.found: dict[tuple[str, int], Any] = {}

    def choose(
        self, held_out: Sequence[HeldOut], unseen: Sequence[str]
    ) -> tuple[Mapping[str, int], object]:
        """Choose the weights that each language or pair takes, by the training's own choice or by
        the development sets alone. Return them, and a note on the choice.
        """
        points = sorted(self.trained.files)
        labels = list(dict.fromkeys(held.label for held in held_out))
        if self.trained.chosen is not None:
            own = {label: self.trained.choice(label) for label in labels}
            return own, own
        chosen, scores = dict.fromkeys(labels, points[0]), defaultdict[str, list[float]](list)
        dev = [held for held in held_out if held.split == "dev"] if len(points) > 1 else []
        dev = [held for held in dev if not {*held.langs} & {*unseen}]
        for point in points if dev else ():
            for held in dev:
                values = self.head.measure(held, self.predictions(held, point))
                scores[held.label].append(values[self.head.task.main_metric])
        if dev:
            places = select(self.head.options.selection, scores)
            chosen = dict.fromkeys(labels, points[next(iter(places.values()))])
            chosen |= {label: points[place] for label, place in places.items()}
        return chosen, {"epochs": chosen, "dev_by_epoch": dict(scores)}

    def predictions(self, held: HeldOut, point: int) -> Any:
        """Return the predictions on held-out rows, and remember them."""
        key = (held.place, point)
        if key not in self.found:
            if self.loaded != point:
                self.model.load(self.trained.files[point])
                self.loaded = point
            inputs = self.inputs.get(held.place) or self.head.inputs_of(self.model, held)
            if held.split == "dev" and len(self.trained.files) > 1:  # the others are read once
                self.inputs[held.place] = inputs
            self.found[key] = self.head.predict(self.model, inputs)
        return self.found[key]

    def score(self, held: HeldOut, point: int, tables: list[pa.Table]) -> Mapping[str, float]:
        """Return the values of held-out rows by metric, and add one prediction per row."""
        predicted = self.predictions(held, point)
        tables.append(self._table(held, point, predicted))
        return self.head.measure(held, predicted)

    def _table(self, held: HeldOut, point: int, predicted: Any) -> pa.Table:
        """One prediction per row."""
        n = len(held.rows)
        common = {
            "lang": pa.array([held.label] * n, pa.string()),
            "split": pa.array([held.split] * n, pa.string()),
            "toward": pa.array([self.trained.toward] * n, pa.string()),
            self.head.point: pa.array([point] * n, pa.int64()),
        }
        return pa.table({**common, **self.head.columns(held, predicted)})
