"""The evaluation of a trained span model in every language, or in every pair of languages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from raxalign.tasks.base import Outcome
from raxalign.tasks.spans.data import EvaluationSet, QaData
from raxalign.tasks.spans.metrics import METRICS, Rules, best
from raxalign.tasks.spans.model import SpanModel
from raxalign.tasks.spans.rows import refuse_overlap
from raxalign.tasks.spans.training import sizes_of
from raxalign.tasks.spans.windows import Windows, make_windows
from raxalign.tasks.transfer.outcome import TARGET_DEV, languages_of, missing_splits, scores_of
from raxalign.tasks.transfer.selection import select
from raxalign.tasks.transfer.trained import Trained, TrainedModel

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.tasks.spans.params import SpanParams

_TYPES = {
    "epoch": pa.int64(),
    "context": pa.int64(),
    "f1": pa.float64(),
    "exact_match": pa.float64(),
}
_NAMES = (
    "lang",
    "split",
    "toward",
    "epoch",
    "id",
    "context",
    "question_lang",
    "context_lang",
    "answer",
    "prediction",
    "f1",
    "exact_match",
)
_SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in _NAMES])


def evaluate(
    data: QaData, aligned: AlignedEncoder, languages: Sequence[str], folder: Path
) -> Outcome:
    """Scores all languages, or pairs of languages, on all splits that are given.

    Args:
        data: reads the questions.
        aligned: the encoder that is evaluated.
        languages: those that are evaluated, the pivot first.
        folder: the folder that `train` filled.

    Returns: the scores, their means, and one prediction per question; its column `context` numbers
    the contexts of a set, since questions on one context are not independent.
    Raises: `DataError` where a question was trained on.
    """
    params, pivot = data.params, data.inputs.pivot
    trained = Trained.read(folder)
    sets = data.evaluation_sets(tuple(languages))
    for held_out in sets:
        refuse_overlap(trained.fingerprints, held_out.questions)
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    tables, notes = [], {}
    for model, spoken in languages_of(trained.models, languages, pivot):
        view = aligned if model.toward is None else aligned.toward(model.toward)
        own = [held_out for held_out in sets if _owner(held_out, pivot) in spoken]
        scorer = _Scorer(params, view, model, own)
        epochs, by_epoch = scorer.select()
        for number, held_out in enumerate(own):
            table = scorer.table(number, epochs[held_out.label])
            tables.append(table)
            for metric in METRICS:
                value = float(np.mean(table[metric].to_numpy()))
                found[held_out.label, metric, held_out.split].append(value)
        notes[model.toward or "all"] = {"epochs": epochs, "dev_by_epoch": by_epoch}
    labels = list(dict.fromkeys(held_out.label for held_out in sets))
    own_pair = f"{pivot}-{pivot}" if params.setting == "g-xlt" else pivot
    scores = scores_of(found, labels, own_pair)
    there = {(held_out.label, held_out.split) for held_out in sets}
    missing = missing_splits(there, data.splits(), labels)
    return Outcome(scores, pa.concat_tables(tables), {**_notes(params, sets, notes), **missing})


def _owner(held_out: EvaluationSet, pivot: str) -> str:
    """Returns the language whose model answers, where each has one: the context's, or the
    question's where the context is in the pivot.
    """
    return held_out.question_lang if held_out.context_lang == pivot else held_out.context_lang


@dataclass
class _Scorer:
    """Answers of one model. The model is built once, and an epoch's weights are read when another
    epoch is asked for.
    """

    params: SpanParams
    aligned: AlignedEncoder
    model: TrainedModel
    sets: Sequence[EvaluationSet]
    _loaded: int | None = None
    _windows: dict[int, Windows] = field(default_factory=dict)
    _found: dict[tuple[int, int], pa.Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spans = SpanModel(
            self.aligned, 2, dropout=0.0, max_length=self.params.max_length, seed=0
        )

    def table(self, number: int, epoch: int) -> pa.Table:
        """Returns the predictions on one set, and remembers them."""
        if (number, epoch) not in self._found:
            if self._loaded != epoch:
                self.spans.load(self.model.files[epoch])
                self._loaded = epoch
            held_out = self.sets[number]
            windows = self._windows.get(number) or self._make_windows(held_out)
            if (
                held_out.split == "dev" and len(self.model.files) > 1
            ):  # the others are asked once, and pairs of languages have many windows
                self._windows[number] = windows
            answers = self.spans.answers(windows, self.params.max_answer_length)
            self._found[number, epoch] = predictions(
                held_out, self.model.toward, epoch, answers, self.params.rules
            )
        return self._found[number, epoch]

    def _make_windows(self, held_out: EvaluationSet) -> Windows:
        languages = (held_out.question_lang, held_out.context_lang)
        return make_windows(
            held_out.questions, self.spans.encoder, languages, sizes_of(self.params)
        )

    def select(self) -> tuple[dict[str, int], dict[str, list[float]]]:
        """Chooses the epoch of each language or pair by the development sides alone; returns it,
        and the F1 that led to it.
        """
        epochs = sorted(self.model.files)
        labels = list(dict.fromkeys(held_out.label for held_out in self.sets))
        if len(epochs) == 1:
            return dict.fromkeys(labels, epochs[0]), {}
        found: dict[str, list[float]] = {label: [] for label in labels}
        for epoch in epochs:
            for number, held_out in enumerate(self.sets):
                if held_out.split == "dev":
                    found[held_out.label].append(
                        float(np.mean(self.table(number, epoch)["f1"].to_numpy()))
                    )
        chosen = select(self.params.selection, found)
        return {label: epochs[index] for label, index in chosen.items()}, found


def predictions(
    held_out: EvaluationSet, toward: str | None, epoch: int, answers: Sequence[str], rules: Rules
) -> pa.Table:
    """Makes one row per question: what was answered, the first gold answer, and the metrics over
    all gold answers.
    """
    rows, lang, n = held_out.questions.rows, held_out.context_lang, len(held_out.questions)
    golds = [[answer.text for answer in row.answers] for row in rows]
    values = {
        name: [best(metric, a, g, lang, rules) for a, g in zip(answers, golds, strict=True)]
        for name, metric in METRICS.items()
    }
    columns: dict[str, object] = {
        "lang": [held_out.label] * n,
        "split": [held_out.split] * n,
        "toward": [toward] * n,
        "epoch": [epoch] * n,
        "id": [row.id for row in rows],
        "context": [row.context_number for row in rows],
        "question_lang": [held_out.question_lang] * n,
        "context_lang": [lang] * n,
        "answer": [gold[0] for gold in golds],
        "prediction": list(answers),
        **values,
    }
    return pa.table(columns, schema=_SCHEMA)


def _notes(
    params: SpanParams, sets: Sequence[EvaluationSet], models: Mapping[str, object]
) -> dict[str, object]:
    notes: dict[str, object] = {
        "setting": params.setting,
        "selection": params.selection,
        "readout": params.readout,
        "rules": params.rules,
        "models": models,
        "rows": {
            f"{held_out.label}/{held_out.split}": len(held_out.questions) for held_out in sets
        },
    }
    if params.selection == "target-dev":
        notes["warning"] = TARGET_DEV.format("epoch was")
    return notes
