"""The fine-tuning of question answering: on the pivot, or on all languages together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import nn

from raxalign.errors import DataError
from raxalign.tasks.spans.data import QaData, Split
from raxalign.tasks.spans.divided_questions import DividedQuestions
from raxalign.tasks.spans.metrics import METRICS, best, f1
from raxalign.tasks.spans.model import SpanModel, SpanRows, span_loss
from raxalign.tasks.spans.rows import Questions, answered, crossed, refuse_overlap
from raxalign.tasks.spans.windows import (
    Units,
    WindowRows,
    Windows,
    WindowSizes,
    cut_windows,
    make_windows,
)
from raxalign.tasks.transfer.compact_rows import Chained
from raxalign.tasks.transfer.outcome import read_given
from raxalign.tasks.transfer.selection import readers
from raxalign.tasks.transfer.trained import (
    EpochObjective,
    Trained,
    TrainingRun,
    fit_epochs,
    train_models,
    watched_sets,
)
from raxalign.tasks.transfer.tuning import settings_of
from raxalign.train.devices import on_device
from raxalign.train.objective import HostSided, Step

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.tasks.spans.params import SpanParams
    from raxalign.train.runtime import Runtime, Watch


def sizes_of(params: SpanParams) -> WindowSizes:
    """Returns the sizes of windows that params ask for."""
    return WindowSizes(params.max_question_length, params.doc_stride, params.max_answer_length)


def train(
    data: QaData,
    aligned: AlignedEncoder,
    languages: Sequence[str],
    runtime: Runtime,
    folder: Path,
) -> Mapping[str, object]:
    """Fine-tunes on training questions; every worker calls it, the first one writes.

    Args:
        data: reads the questions.
        aligned: the encoder that the training starts from.
        languages: those that are trained on.
        runtime: the device, the seed and the place of checkpoints.
        folder: takes the weights and the record of the training.

    Returns: notes (counts, and the records of the models).
    Raises: `DataError` where a question that is evaluated is trained on.
    """
    params, pivot = data.params, data.inputs.pivot
    given = {lang: data.training(lang) for lang in languages}
    fingerprints = np.concatenate([questions.fingerprints() for questions in given.values()])
    evaluated = _held_out(data, languages, fingerprints)
    placed = {
        lang: found if isinstance(found, DividedQuestions) else answered(found)
        for lang, found in given.items()
    }
    watched = watched_sets(runtime, lambda lang: data.questions("dev", lang))
    training = Training(placed, pivot, evaluated.get((pivot, "dev")), watched)
    settings, counts = settings_of(params), dict[str, object]()

    def run(view: AlignedEncoder, place: TrainingRun) -> tuple[dict[int, Path], list[float]]:
        tuning = SpanTuning(params, view, training, place.runtime.seed)
        counts.update(tuning.counts())
        return fit_epochs(tuning, settings, params.selection, place)

    records = train_models(aligned, pivot, runtime, folder, data.name, run)
    if runtime.rank == 0:
        Trained.write(folder, records, fingerprints)
    return {**_left_out(given, placed), **counts, "models": records}


def _held_out(
    data: QaData, languages: Sequence[str], fingerprints: np.ndarray
) -> Mapping[tuple[str, Split], Questions]:
    """Reads what is evaluated, and refuses what is trained on."""
    choosing = readers(data.params.selection, languages, data.inputs.pivot)
    found = read_given(data.questions, data.splits(), languages, choosing)
    for questions in found.values():
        refuse_overlap(fingerprints, questions)
    return found


def _left_out(given: Mapping[str, Asked], placed: Mapping[str, Asked]) -> dict[str, object]:
    """Counts the questions that are trained on, and those that are not."""
    rows = {lang: len(questions) for lang, questions in placed.items()}
    return {
        "rows": rows,
        "misplaced": {
            lang: given[lang].total - n for lang, n in rows.items() if n < given[lang].total
        },
        "unanswerable": {
            lang: questions.unanswerable
            for lang, questions in given.items()
            if questions.unanswerable
        },
    }


Asked: TypeAlias = Questions | DividedQuestions
"""The training questions of a language, as they were read, or divided into pieces before."""


@dataclass(frozen=True)
class Training:
    """What is trained on: the questions by language, the pivot, and its development set (None where
    nothing asks for it). `watched` are the development sets that `Runtime.watch` asks for, by
    language.
    """

    given: Mapping[str, Asked]
    pivot: str
    dev: Questions | None
    watched: Mapping[str, Questions] = field(default_factory=dict)


@dataclass(frozen=True)
class _Asked:
    """Windows as the model reads them, the first and the last piece of the answer of each, and how
    many windows the global batch has.
    """

    rows: SpanRows
    targets: np.ndarray
    total: int


class SpanTuning(EpochObjective, HostSided[int, _Asked]):
    """Cross-entropy of starts and ends over the windows of the global batch, whose rows are units:
    a window, or one of each of two mixes.
    """

    model: SpanModel

    def __init__(
        self, params: SpanParams, aligned: AlignedEncoder, training: Training, seed: int
    ) -> None:
        self.params, self.pivot, self.dev = params, training.pivot, training.dev
        self.model = SpanModel(
            aligned, 2, dropout=params.dropout, max_length=params.max_length, seed=seed
        )
        self.module: nn.Module = self.model
        parts, members = list[WindowRows](), list[list[int]]()
        for lang, questions in training.given.items():
            begin = sum(map(len, parts))
            if lang == self.pivot or params.code_switching == "none":
                parts.append(self._training_windows(questions, lang))
                members += [[begin + number] for number in range(len(parts[-1]))]
            else:
                pivot = training.given[self.pivot]
                assert isinstance(questions, Questions), "what is mixed was not divided before"
                assert isinstance(pivot, Questions)
                mixes, units = self._mixed(questions, pivot, lang)
                parts += mixes
                members += [[begin + number for number in unit] for unit in units]
        self.parts, self.members = parts, members
        self.units = Units(Chained(parts), members)
        self.n_rows = len(members)
        self.dev_windows = self._windows(self.dev, (self.pivot, self.pivot)) if self.dev else None
        self.watched_sets = training.watched

    def _training_windows(self, questions: Asked, lang: str) -> WindowRows:
        if isinstance(questions, Questions):
            return self._windows(questions, (lang, lang)).windows
        return cut_windows(questions.texts(), self.model.encoder, sizes_of(self.params))

    def _windows(self, questions: Questions, languages: tuple[str, str]) -> Windows:
        return make_windows(questions, self.model.encoder, languages, sizes_of(self.params))

    def _mixed(
        self, own: Questions, pivot: Questions, lang: str
    ) -> tuple[list[WindowRows], list[list[int]]]:
        """Makes the two mixes of each question of a language (Pan et al. 2021, 3.3); returns their
        windows, and the numbers of those that go together, counted on through both mixes.
        """
        missing = {row.id for row in own.rows} - {row.id for row in pivot.rows}
        if missing:
            told = (
                f"{len(missing)} of {len(own)} questions are not in {pivot.source}, as"
                f" {min(missing)}"
            )
            raise DataError(
                own.source,
                told,
                remedy=(
                    "Sentence-level code-switching needs translations of the pivot's questions,"
                    " under their ids"
                ),
            )
        units: dict[str, tuple[list[int], list[int]]] = {row.id: ([], []) for row in own.rows}
        mixes = list[WindowRows]()
        for place, (asked, told_in, languages) in enumerate(
            [(own, pivot, (lang, self.pivot)), (pivot, own, (self.pivot, lang))]
        ):
            questions, begin = crossed(asked, told_in), sum(map(len, mixes))
            mixes.append(self._windows(questions, languages).windows)
            for number, question in enumerate(mixes[-1].cuts_S5[:, 0].tolist(), begin):
                units[questions.rows[question].id][place].append(number)
        return mixes, [
            [number for number in pair if number is not None]
            for both in units.values()
            for pair in zip_longest(*both)
        ]

    def counts(self) -> dict[str, object]:
        """Counts what is trained on, for the record."""
        return {
            "windows": sum(map(len, self.parts)),
            "windows_with_answer": sum(part.answered() for part in self.parts),
        }

    def blocks(self) -> Sequence[nn.Module]:
        """Returns the encoder's blocks."""
        return self.model.encoder.blocks()

    def host_batch(self, step: Step) -> int:
        """Returns the number of windows of the global batch."""
        return sum(len(self.members[unit]) for unit in step.rows.tolist())

    def host_part(self, step: Step, batch: int, positions: np.ndarray) -> _Asked:
        """Returns the windows of some rows."""
        windows = [window for unit in step.rows[positions].tolist() for window in self.units[unit]]
        targets = np.array([window.target for window in windows])
        return _Asked(self.model.lay_out([window.row for window in windows]), targets, batch)

    def device_loss(self, step: Step, part: _Asked) -> torch.Tensor:  # noqa: ARG002
        """The mean over the windows of the global batch, the share of these."""
        logits = self.model.logits(part.rows)
        return span_loss(logits, on_device(part.targets, logits.device)) / part.total

    def dev_score(self) -> float:
        """Returns F1 on the pivot's development set, by MLQA's rules in every case, so that
        evaluations by other rules share the training.
        """
        assert self.dev is not None
        assert self.dev_windows is not None
        answers = self.model.answers(self.dev_windows, self.params.max_answer_length)
        values = [
            best(f1, found, [a.text for a in row.answers], self.pivot)
            for found, row in zip(answers, self.dev.rows, strict=True)
        ]
        return float(np.mean(values))

    def watched(self, watch: Watch) -> Mapping[str, float]:
        """Scores the development sets of the languages that are watched, by the task's rules."""
        measure, found = METRICS[watch.metric], {}
        for lang, questions in self.watched_sets.items():
            windows = self._windows(questions, (lang, lang))
            answers = self.model.answers(windows, self.params.max_answer_length)
            values = [
                best(measure, answer, [a.text for a in row.answers], lang, self.params.rules)
                for answer, row in zip(answers, questions.rows, strict=True)
            ]
            found[lang] = float(np.mean(values))
        return found
