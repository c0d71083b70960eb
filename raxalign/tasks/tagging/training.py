"""The training of a tagger on the pivot, and the choice of its weights by development sets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from raxalign.errors import RaxalignError
from raxalign.tasks.tagging.divided_sentences import DividedSentences
from raxalign.tasks.tagging.metrics import count, values
from raxalign.tasks.tagging.models import LinearTagger, TaggedRows, make_tagger
from raxalign.tasks.tagging.placed import Placed
from raxalign.tasks.tagging.scheme import OUTSIDE
from raxalign.tasks.tagging.sentences import left_out, refuse_overlap
from raxalign.tasks.tagging.trained import ALL, choose, names_of
from raxalign.tasks.transfer.compact_rows import Ragged, compact_rows
from raxalign.tasks.transfer.divided_rows import ChosenTexts, DividedRows
from raxalign.tasks.transfer.outcome import read_given
from raxalign.tasks.transfer.selection import readers
from raxalign.tasks.transfer.trained import Trained, TrainingRun, train_models, watched_sets
from raxalign.tasks.transfer.tuning import settings_of
from raxalign.train.loop import KeepBest, fit
from raxalign.train.objective import HostSided, Step

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.pieces import PieceRow
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.tasks.tagging.data import TaggingData
    from raxalign.tasks.tagging.models import BilstmCrf
    from raxalign.tasks.tagging.params import TaggingSettings
    from raxalign.tasks.tagging.sentences import Sentences
    from raxalign.train.runtime import Runtime, Watch


def train(
    settings: TaggingSettings,
    data: TaggingData,
    aligned: AlignedEncoder,
    languages: Sequence[str],
    runtime: Runtime,
    folder: Path,
) -> Mapping[str, object]:
    """Trains on the pivot. Every worker calls it, the first one writes.

    Args:
        settings: the options of the training.
        data: reads the sentences.
        aligned: the encoder below the tagger.
        languages: those whose development sets may choose the weights.
        runtime: the device, the seed and the place of checkpoints.
        folder: takes the weights and the record of the training.

    Returns: notes (counts, the labels, and the records of the models).
    Raises: `DataError` where a file that is evaluated is mostly trained on.
    """
    given = _Given.read(data, readers(settings.selection, languages, data.pivot))
    fingerprints = given.rows.fingerprints()
    for sentences in read_given(data.sentences, data.splits(), [data.pivot]).values():
        refuse_overlap(fingerprints, sentences)
    runs, watched = list[_Run](), watched_sets(runtime, lambda lang: data.sentences("dev", lang))

    def run(view: AlignedEncoder, place: TrainingRun) -> tuple[dict[int, Path], list[float]]:
        runs.append(_Run(settings, view, given.toward(view.direction), place, watched))
        return runs[-1].run()

    models = train_models(aligned, data.pivot, runtime, folder, data.scheme.name, run)
    records = [
        {**model, "chosen": run.chosen, "dev": run.curves}
        for model, run in zip(models, runs, strict=True)
    ]
    if runtime.rank == 0:
        Trained.write(folder, records, fingerprints, labels=given.labels)
    counts = {"words": runs[-1].words, "words_left_out": runs[-1].left_out}
    return {**given.notes(), **counts, "models": records}


@dataclass(frozen=True)
class _Tagged:
    """Some sentences of the global batch: their numbers, what a linear tagger reads of them (None
    for another tagger), and the number of units of the global batch.
    """

    chosen: np.ndarray
    rows: TaggedRows | None
    total: int


class _Tagging(HostSided[int, _Tagged]):
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

    def blocks(self) -> Sequence[torch.nn.Module]:
        """The encoder's blocks, where they are trained."""
        return self.tagger.encoder.blocks() if isinstance(self.tagger, LinearTagger) else ()

    def host_batch(self, step: Step) -> int:
        """How many units the global batch has."""
        return self.tagger.units(self.placed, self.usable[step.rows])

    def host_part(self, step: Step, batch: int, positions: np.ndarray) -> _Tagged:
        """What is read of some sentences."""
        chosen = self.usable[step.rows[positions]]
        if not isinstance(self.tagger, LinearTagger):
            return _Tagged(chosen, None, batch)
        return _Tagged(chosen, self.tagger.lay_out(self.placed, chosen, self.labels), batch)

    def device_loss(self, step: Step, part: _Tagged) -> torch.Tensor:  # noqa: ARG002
        """The share of these sentences."""
        if isinstance(self.tagger, LinearTagger) and part.rows is not None:
            return self.tagger.loss_of(part.rows) / part.total
        return self.tagger.loss(self.placed, part.chosen, self.labels) / part.total

    def end(self, step: Step) -> None:
        """Remember how far the training is."""
        self.steps = step.number + 1


@dataclass(frozen=True)
class _Given:
    """What one training reads: the pivot's sentences, their labels in order, and the development
    sets that choose, by language.
    """

    data: TaggingData
    rows: Sentences | DividedSentences
    labels: Sequence[str]
    held_out: Mapping[str, Sentences]

    @classmethod
    def read(cls, data: TaggingData, choosing: Sequence[str]) -> _Given:
        """Reads them; `choosing` are the languages whose development sets choose."""
        rows = data.training()
        labels = sorted(rows.tags(), key=lambda tag: (tag != OUTSIDE, tag))
        return cls(data, rows, labels, {lang: data.sentences("dev", lang) for lang in choosing})

    def notes(self) -> Mapping[str, object]:
        """Returns the number of sentences, the labels, and what was left out."""
        noted = left_out(self.rows.left_out, f"{self.data.pivot}/train")
        return {"sentences": len(self.rows), "labels": self.labels, **noted}

    def pieces(self, encoder: TransformerEncoder) -> Sequence[PieceRow]:
        """Returns the rows of pieces that are trained on."""
        if isinstance(self.rows, DividedSentences):
            return DividedRows(encoder, [ChosenTexts(self.rows.texts, None)])
        return compact_rows(encoder, self.rows.words(), self.data.pivot)

    def toward(self, lang: str | None) -> _Given:
        """Returns what the model of a direction reads: the development sets of its language and the
        pivot (None: all).
        """
        if lang is None:
            return self
        spoken = {
            code: dev for code, dev in self.held_out.items() if code in (lang, self.data.pivot)
        }
        return replace(self, held_out=spoken)


class _Run:
    """One training. Weights that are better than all before, for any language that chooses, are
    written into the run's folder, which outlives the process as checkpoints do; so are the scores,
    and a resumed training goes on from those that were before its checkpoint.
    """

    def __init__(
        self,
        settings: TaggingSettings,
        aligned: AlignedEncoder,
        given: _Given,
        place: TrainingRun,
        watched: Mapping[str, Sentences],
    ) -> None:
        self.settings, self.given, self.place = settings, given, place
        self.sets = {**given.held_out, **watched}
        self.languages_watched = tuple(watched)
        self.tagger = make_tagger(settings, aligned, len(given.labels), place.runtime.seed)
        sentences = self.tagger.placed(given.pieces(self.tagger.encoder))
        known = Ragged()
        for numbers, words in zip(given.rows.numbers(given.labels), sentences.words, strict=True):
            known.append(numbers[words])
        usable = np.array(
            [i for i, words in enumerate(sentences.words) if len(words)], dtype=np.int64
        )
        self.words = given.rows.n_words()
        self.left_out = self.words - sum(len(words) for words in sentences.words)
        self.objective = _Tagging(self.tagger, sentences, known, usable)
        self.dev = {lang: self.tagger.place(dev.words(), lang) for lang, dev in self.sets.items()}
        self.curves: dict[str, dict[str, float]] = {}
        self.chosen: dict[str, int] = {}

    def run(self) -> tuple[dict[int, Path], list[float]]:
        """Trains; returns the chosen weights by step, and the pivot's development scores (on the
        first worker).
        """
        settings, last = self.settings, self.settings.selection == "last"
        frozen = self.tagger.frozen() if isinstance(self.tagger, LinearTagger) else {}
        fitted = fit(
            self.objective,
            len(self.objective.usable),
            settings_of(settings),
            self.place.runtime,
            name=self.place.name,
            keep=(
                None
                if last
                else KeepBest(self.score, settings.evaluate_every, watched=self.watched)
            ),
        )
        after = self.tagger.frozen() if isinstance(self.tagger, LinearTagger) else {}
        if not all(torch.equal(tensor, after[key]) for key, tensor in frozen.items()):
            raise RaxalignError(f"{self.place.name}: training changed what is frozen")
        if self.place.runtime.rank != 0:
            return {}, []
        if last:
            self.chosen = {ALL: len(fitted.losses)}
            self.tagger.save(self.file(len(fitted.losses)))
        else:
            self.curves = json.loads(self._scores.read_text(encoding="utf-8"))
            self.chosen = choose(settings.selection, self.curves)
        pivot = self.given.data.pivot
        pivot_dev = [scores[pivot] for scores in self.curves.values() if pivot in scores]
        return {step: self.file(step) for step in sorted(set(self.chosen.values()))}, pivot_dev

    def score(self, epoch: int) -> float:  # noqa: ARG002
        """Score the development sets; returns the mean over them. The first worker keeps what may
        be chosen.
        """
        step = self.objective.steps
        scores = {lang: self._value(lang) for lang in self.given.held_out}
        if self.place.runtime.rank == 0:
            self._keep(step, scores)
        return float(np.mean(list(scores.values())))

    def _keep(self, step: int, scores: Mapping[str, float]) -> None:
        """Write the scores, and the weights where they may be chosen."""
        known = (
            json.loads(self._scores.read_text(encoding="utf-8")) if self._scores.exists() else {}
        )
        curves = {point: scores for point, scores in known.items() if int(point) < step}
        curves[str(step)] = dict(scores)
        if step in choose(self.settings.selection, curves).values():
            self.tagger.save(self.file(step))
        written = self._scores.with_suffix(".new")  # a death in the middle must leave the old ones
        written.write_text(json.dumps(curves), encoding="utf-8")
        written.replace(self._scores)

    def watched(self, watch: Watch) -> Mapping[str, float]:  # noqa: ARG002
        """Score the development sets of the languages that are watched."""
        return {lang: self._value(lang) for lang in self.languages_watched}

    def _value(self, lang: str) -> float:
        scheme = self.given.data.scheme
        found = names_of(self.given.labels, self.tagger.predict(self.dev[lang]), scheme.missing)
        gold = [row.tags for row in self.sets[lang].rows]
        return values(count(gold, found, entities=scheme.entities))[scheme.metric]

    @property
    def _scores(self) -> Path:
        return self.place.keep / "scores.json"

    def file(self, step: int) -> Path:
        """Where the weights after a step are kept."""
        return self.place.keep / f"step-{step}.safetensors"
