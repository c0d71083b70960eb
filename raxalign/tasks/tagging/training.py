"""The training of a tagger on the pivot, and the choice of its weights by development sets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from raxalign.errors import DataError, RaxalignError
from raxalign.tasks.tagging.data import refuse_overlap
from raxalign.tasks.tagging.metrics import count, values
from raxalign.tasks.tagging.models import LinearTagger, Placed, make_tagger
from raxalign.tasks.transfer.outcome import read_given
from raxalign.tasks.transfer.selection import readers
from raxalign.tasks.transfer.trained import Trained, TrainedModel, train_models
from raxalign.train.loop import KeepBest, TrainSettings, fit
from raxalign.train.objective import Objective, Step

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.tasks.tagging.data import TaggingData
    from raxalign.tasks.tagging.models import BilstmCrf
    from raxalign.tasks.tagging.params import TaggingSettings
    from raxalign.tasks.tagging.rows import Sentences
    from raxalign.train.runtime import Runtime

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
        """The steps after which the weights of a language were. Raises `DataError` where no choice
        was made for it.
        """
        if lang not in self.chosen and ALL not in self.chosen:
            raise DataError(
                "trained tagger",
                f"no weights were chosen for {lang}: the training did not read its development set",
            )
        return self.chosen.get(lang, self.chosen.get(ALL, 0))


def read_trained(
    folder: Path,
) -> tuple[Sequence[TrainedModel], Mapping[str | None, TrainedTagger], Sequence[str], np.ndarray]:
    """(models, their taggers by direction, labels, fingerprints of what was trained on) of a folder
    that `train` filled.
    """
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
        return (
            trained.models,
            taggers,
            [str(label) for label in record["labels"]],
            trained.fingerprints,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            folder / "training.json", f"is no record of a tagger's training ({error})"
        ) from error


def names_of(labels: Sequence[str], found: Sequence[np.ndarray], missing: str) -> list[list[str]]:
    """Labels by name; `missing` stands where none was predicted."""
    return [[labels[label] if label >= 0 else missing for label in row] for row in found]


def missing_label(settings: TaggingSettings) -> str:
    """What a word without a prediction has: outside of entities, or no part of speech."""
    return "O" if settings.entities else "_"


def train(
    settings: TaggingSettings,
    data: TaggingData,
    aligned: AlignedEncoder,
    languages: Sequence[str],
    runtime: Runtime,
    folder: Path,
) -> Mapping[str, object]:
    """Trains on the pivot and fills `folder`; returns notes. Every worker calls it, the first one
    writes.
    """
    rows = data.sentences("train", data.pivot)
    fingerprints = rows.fingerprints()
    for sentences in read_given(data.sentences, data.splits(), [data.pivot]).values():
        refuse_overlap(fingerprints, sentences)
    held_out = {
        lang: data.sentences("dev", lang)
        for lang in readers(settings.selection, languages, data.pivot)
    }
    labels = sorted(
        {tag for row in rows.rows for tag in row.tags}, key=lambda tag: (tag != "O", tag)
    )
    runs: list[_Run] = []

    def run(view: AlignedEncoder, name: str, keep: Path) -> tuple[dict[int, Path], list[float]]:
        spoken = {
            lang: dev
            for lang, dev in held_out.items()
            if view.direction in (None, lang) or lang == data.pivot
        }
        runs.append(_Run(settings, view, rows, labels, spoken, data.pivot, runtime, keep))
        return runs[-1].run(name)

    models = train_models(aligned, data.pivot, runtime, folder, data.kind, run)
    records = [
        {**model, "chosen": run.chosen, "dev": run.curves}
        for model, run in zip(models, runs, strict=True)
    ]
    if runtime.rank == 0:
        Trained.write(folder, records, fingerprints, labels=labels)
    return {
        "sentences": len(rows),
        "labels": labels,
        "words": runs[-1].words,
        "words_left_out": runs[-1].left_out,
        "models": records,
    }


class _Tagging(Objective):
    """The tagger's summed loss over the units (words, or sentences) of the global batch."""

    def __init__(
        self,
        tagger: LinearTagger | BilstmCrf,
        placed: Placed,
        labels: Sequence[np.ndarray],
        usable: np.ndarray,
    ) -> None:
        self.tagger, self.placed, self.labels, self.usable = tagger, placed, labels, usable
        self.module: torch.nn.Module = tagger
        self.steps = 0

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """The share of these sentences."""
        chosen = self.usable[step.rows]
        return self.tagger.loss(self.placed, chosen[positions], self.labels) / self.tagger.units(
            self.placed, chosen
        )

    def end(self, step: Step) -> None:
        """Remember how far the training is."""
        self.steps = step.number + 1


class _Run:
    """One training. Weights that are better than all before, for any language that chooses, are
    written into `keep`, a folder that outlives the process as checkpoints do; so are the scores,
    and a resumed training goes on from those that were before its checkpoint.
    """

    def __init__(
        self,
        settings: TaggingSettings,
        aligned: AlignedEncoder,
        rows: Sentences,
        labels: Sequence[str],
        held_out: Mapping[str, Sentences],
        pivot: str,
        runtime: Runtime,
        keep: Path,
    ) -> None:
        self.settings, self.labels, self.held_out, self.pivot, self.runtime, self.keep = (
            settings,
            labels,
            held_out,
            pivot,
            runtime,
            keep,
        )
        self.tagger = make_tagger(settings, aligned, len(labels), runtime.seed)
        placed, number = (
            self.tagger.place(rows.words(), pivot),
            {label: i for i, label in enumerate(labels)},
        )
        known = [
            np.array([number[tag] for tag in row.tags])[words]
            for row, words in zip(rows.rows, placed.words, strict=True)
        ]
        usable = np.array([i for i, words in enumerate(placed.words) if len(words)], dtype=np.int64)
        self.words = sum(len(row.words) for row in rows.rows)
        self.left_out = self.words - sum(len(words) for words in placed.words)
        self.objective = _Tagging(self.tagger, placed, known, usable)
        self.dev = (
            {lang: self.tagger.place(dev.words(), lang) for lang, dev in held_out.items()}
            if runtime.rank == 0
            else {}
        )
        self.curves: dict[str, dict[str, float]] = {}
        self.chosen: dict[str, int] = {}

    def run(self, name: str) -> tuple[dict[int, Path], list[float]]:
        """Trains; returns the chosen weights by step, and the pivot's development scores (on the
        first worker).
        """
        settings, last = self.settings, self.settings.selection == "last"
        frozen = self.tagger.frozen() if isinstance(self.tagger, LinearTagger) else {}
        fitted = fit(
            self.objective,
            len(self.objective.usable),
            _train_settings(settings),
            self.runtime,
            name=name,
            keep=None if last else KeepBest(self.score, settings.evaluate_every),
        )
        after = self.tagger.frozen() if isinstance(self.tagger, LinearTagger) else {}
        if not all(torch.equal(tensor, after[key]) for key, tensor in frozen.items()):
            raise RaxalignError(f"{name}: training changed what is frozen")
        if self.runtime.rank != 0:
            return {}, []
        if last:
            self.chosen = {ALL: len(fitted.losses)}
            self.tagger.save(self.file(len(fitted.losses)))
        else:
            self.curves = json.loads(self._scores.read_text(encoding="utf-8"))
            self.chosen = choose(settings.selection, self.curves)
        pivot_dev = [scores[self.pivot] for scores in self.curves.values() if self.pivot in scores]
        return {step: self.file(step) for step in sorted(set(self.chosen.values()))}, pivot_dev

    def score(self, epoch: int) -> float:  # noqa: ARG002
        """Score the development sets and keep what may be chosen; returns the mean over them."""
        step = self.objective.steps
        known = (
            json.loads(self._scores.read_text(encoding="utf-8")) if self._scores.exists() else {}
        )
        curves = {point: scores for point, scores in known.items() if int(point) < step}
        curves[str(step)] = {lang: self._value(lang) for lang in self.held_out}
        if step in choose(self.settings.selection, curves).values():
            self.tagger.save(self.file(step))
        written = self._scores.with_suffix(".new")  # a death in the middle must leave the old ones
        written.write_text(json.dumps(curves), encoding="utf-8")
        written.replace(self._scores)
        return float(np.mean(list(curves[str(step)].values())))

    def _value(self, lang: str) -> float:
        found = names_of(
            self.labels, self.tagger.predict(self.dev[lang]), missing_label(self.settings)
        )
        counts = count(
            [row.tags for row in self.held_out[lang].rows], found, entities=self.settings.entities
        )
        return values(counts)[self.settings.main_metric]

    @property
    def _scores(self) -> Path:
        return self.keep / "scores.json"

    def file(self, step: int) -> Path:
        """Where the weights after a step are kept."""
        return self.keep / f"step-{step}.safetensors"


def choose(selection: str, curves: Mapping[str, Mapping[str, float]]) -> dict[str, int]:
    """The step whose weights each language takes (`ALL`: every one), by scores (step -> language ->
    score); the earlier of equals.

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


def _train_settings(settings: TaggingSettings) -> TrainSettings:
    """Adam, at a constant rate for the BiLSTM; falling to 0 and with clipped gradients for
    fine-tuning, as XTREME has it.
    """
    common = TrainSettings(
        settings.learning_rate, settings.batch_size, settings.epochs, warmup=settings.warmup
    )
    if settings.tagger == "bilstm_crf":
        return common
    return TrainSettings(
        settings.learning_rate,
        settings.batch_size,
        settings.epochs,
        warmup=settings.warmup,
        schedule="linear",
        clip=1.0,
    )
