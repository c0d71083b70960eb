"""What the training of a tagger leaves: weights, which of them each language takes, and labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from raxalign.errors import DataError
from raxalign.tasks.transfer.trained import Trained, TrainedModel

ALL = "*"
"""Stands for every language where one choice is made for all."""


@dataclass(frozen=True)
class TrainedTagger:
    """One tagger of a training: the language that the pivot's transforms lead to (None: nowhere),
    the files of the weights that were chosen, by the number of steps, and which of them each
    language takes.
    """

    toward: str | None
    files: Mapping[int, Path]
    chosen: Mapping[str, int]

    def step(self, lang: str) -> int:
        """Returns the step whose weights a language takes. Raises `DataError` where no choice was
        made for it.
        """
        if lang not in self.chosen and ALL not in self.chosen:
            raise DataError(
                "trained tagger",
                f"no weights were chosen for {lang}: the training did not read its development set",
            )
        return self.chosen.get(lang, self.chosen.get(ALL, 0))


@dataclass(frozen=True)
class TrainedTaggers:
    """The taggers of a training, the labels that they tell apart, and the fingerprints of what they
    were trained on.
    """

    models: Sequence[TrainedModel]
    taggers: Mapping[str | None, TrainedTagger]
    labels: Sequence[str]
    fingerprints: np.ndarray


def read_trained(folder: Path) -> TrainedTaggers:
    """Reads a folder that a training filled. Raises `DataError` where it has no record of one."""
    trained = Trained.read(folder)
    try:
        record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        chosen = {
            model["toward"]: {str(lang): int(step) for lang, step in model["chosen"].items()}
            for model in record["models"]
        }
        taggers = {
            model.toward: TrainedTagger(model.toward, model.files, chosen[model.toward])
            for model in trained.models
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            folder / "training.json", f"is not the record of a tagger's training ({error})"
        ) from error
    return TrainedTaggers(trained.models, taggers, trained.labels, trained.fingerprints)


def names_of(labels: Sequence[str], found: Sequence[np.ndarray], missing: str) -> list[list[str]]:
    """Returns labels by name; `missing` stands where none was predicted."""
    return [[labels[label] if label >= 0 else missing for label in row] for row in found]


def choose(selection: str, curves: Mapping[str, Mapping[str, float]]) -> dict[str, int]:
    """Chooses the step whose weights each language takes (`ALL`: every one), by scores (step ->
    language -> score); the earlier of equals.

    >>> curves = {"10": {"en": 0.6, "de": 0.5}, "20": {"en": 0.7, "de": 0.3}}
    >>> choose("mean-dev", curves), choose("target-dev", curves)
    ({'*': 10}, {'en': 20, 'de': 10})
    """
    steps = sorted(curves, key=int)
    if selection == "target-dev":
        return {
            lang: int(max(steps, key=lambda step: curves[step][lang])) for lang in curves[steps[0]]
        }
    return {ALL: int(max(steps, key=lambda step: float(np.mean(list(curves[step].values())))))}
