"""The evaluation of what a training left, in every language or pair of languages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from raxalign.errors import DataError
from raxalign.measured import after_shots, parted
from raxalign.tasks.base import Outcome, Score
from raxalign.tasks.transfer.head import Head, HeldOut
from raxalign.tasks.transfer.outcome import means, select
from raxalign.tasks.transfer.shots import FewShots
from raxalign.tasks.transfer.trained import Trained, TrainedModel

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime


def evaluate(
    head: Head,
    aligned: AlignedEncoder,
    languages: Sequence[str],
    folder: Path,
    runtime: Runtime,
) -> Outcome:
    """Score all languages, the pivot first, on all splits that are given, by the weights that
    `train` left in `folder`; return the scores, their means over languages, and one prediction per
    row. Languages that no method has aligned choose no weights but their own. Where `shots` are
    asked for, score all but the pivot again after training on them; the predictions then have the
    columns `shots` and `draw`. Raises `DataError` where a file cannot be read, or was trained on.
    """
    pivot, trained, unseen = head.pivot, Trained.read(folder), head.inputs.unseen
    head.labels = trained.labels
    held_out = head.crossed_sets(languages, trained.fingerprints)
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    tables, chosen, left_out = list[pa.Table](), dict[str, object](), dict[str, int]()
    for model, spoken in _languages_of(trained.models, languages, pivot, unseen):
        scorer = _Scorer(head, aligned, model)
        own = [held for held in held_out if held.owner(pivot) in spoken]
        points, chosen[model.name] = scorer.choose(own, unseen)
        for held in own:
            values = scorer.score(held, points[held.label], tables)
            for metric, value in values.items():
                found[held.label, metric, held.split].append(value)
        for lang in spoken if head.params.shots[-1] else ():
            if lang != pivot and (there := [held for held in own if held.label == lang]):
                few = FewShots(head, scorer.view, lang, runtime)
                left_out |= {lang: few.left_out} if few.left_out else {}
                for name, value in scorer.score_few(few, there, points[lang], tables):
                    found[name].append(value)
    # A pivot that moves differently for each language has the mean over its models, and several
    # draws of few examples have theirs.
    scores = [Score(*name, float(np.mean(values))) for name, values in found.items()]
    labels = list(dict.fromkeys(held.label for held in held_out))
    trained_on = next((held.label for held in held_out if held.langs == (pivot, pivot)), pivot)
    notes = {**head.notes(held_out, chosen), **_missing_splits(head, held_out, labels)}
    others = {held.label for held in held_out if {*held.langs} & {*unseen}}
    scores += _means(scores, labels, trained_on, others)
    notes |= {"not_drawn": left_out} if left_out else {}
    notes |= {"average": head.params.average} if head.params.average else {}
    return Outcome(scores, pa.concat_tables(tables), notes)


def _means(
    scores: Sequence[Score], labels: Sequence[str], pivot: str, unseen: set[str]
) -> list[Score]:
    """Form the means over languages; after few examples over those that have some, which the pivot
    has not.
    """
    few = [score for score in scores if parted(score.metric)[0]]
    plain = [score for score in scores if not parted(score.metric)[0]]
    others = [label for label in labels if label != pivot]
    return means(plain, labels, pivot, unseen=unseen) + means(few, others, unseen=unseen)


def _missing_splits(
    head: Head, held_out: Sequence[HeldOut], labels: Sequence[str]
) -> dict[str, object]:
    """The note that names each split that a language lacks, where there is one."""
    places = [f"{label}/{split}" for label in labels for split in head.splits()]
    missing = [place for place in places if place not in {held.place for held in held_out}]
    return {"missing_splits": missing} if missing else {}


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
        tables.append(self._table(held, point, predicted, (0, 0)))
        return self.head.measure(held, predicted)

    def score_few(
        self, few: FewShots, held_out: Sequence[HeldOut], point: int, tables: list[pa.Table]
    ) -> Iterator[tuple[tuple[str, str, str], float]]:
        """Yield the values of held-out rows of a language after training on few examples, with
        their labels, metrics and splits, and add one prediction per row and draw.
        """
        for shots, draw, held, predicted in few.evaluate(self.trained.files[point], held_out):
            tables.append(self._table(held, point, predicted, (shots, draw)))
            for metric, value in self.head.measure(held, predicted).items():
                yield (held.label, after_shots(shots, metric), held.split), value

    def _table(self, held: HeldOut, point: int, predicted: Any, drawn: tuple[int, int]) -> pa.Table:
        """One prediction per row; `drawn` are the number of shots and of the draw."""
        n = len(held.rows)
        common = {
            "lang": pa.array([held.label] * n, pa.string()),
            "split": pa.array([held.split] * n, pa.string()),
            "toward": pa.array([self.trained.toward] * n, pa.string()),
            self.head.point: pa.array([point] * n, pa.int64()),
        }
        if self.head.params.shots[-1]:
            names = zip(("shots", "draw"), drawn, strict=True)
            common |= {name: pa.array([value] * n, pa.int64()) for name, value in names}
        return pa.table({**common, **self.head.columns(held, predicted)})
