"""The fine-tuning of question answering: on the pivot, or on all languages together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from raxalign.errors import DataError
from raxalign.tasks.spans.data import QaData
from raxalign.tasks.spans.metrics import best, f1
from raxalign.tasks.spans.model import SpanModel, span_loss
from raxalign.tasks.spans.rows import Questions, answered, crossed, refuse_overlap
from raxalign.tasks.spans.windows import Window, WindowSizes, make_windows
from raxalign.tasks.transfer.outcome import read_given
from raxalign.tasks.transfer.selection import readers
from raxalign.tasks.transfer.trained import Trained, fit_epochs, train_models
from raxalign.train.loop import TrainSettings
from raxalign.train.objective import Objective, Step
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.spans.params import SpanParams


def sizes_of(params: SpanParams) -> WindowSizes:
    """The sizes of windows that params ask for."""
    return WindowSizes(params.max_question_length, params.doc_stride, params.max_answer_length)


def train(
    params: SpanParams,
    aligned: AlignedEncoder,
    languages: Sequence[str],
    inputs: TaskInputs,
    runtime: Runtime,
    folder: Path,
) -> Mapping[str, object]:
    """Fine-tunes on the training questions of `languages` and fills `folder`; returns notes. Every
    worker calls it, the first one writes.
    """
    data, pivot = QaData(params, inputs), inputs.pivot
    given = {lang: data.questions("train", lang) for lang in languages}
    fingerprints = np.concatenate([questions.fingerprints() for questions in given.values()])
    evaluated = read_given(
        data.questions, data.splits(), languages, readers(params.selection, languages, pivot)
    )
    for held_out in evaluated.values():
        refuse_overlap(fingerprints, held_out)
    placed = {lang: answered(questions) for lang, questions in given.items()}
    counts: dict[str, object] = {}

    def run(view: AlignedEncoder, name: str, keep: Path) -> tuple[dict[int, Path], list[float]]:
        tuning = SpanTuning(
            params, view, placed, evaluated.get((pivot, "dev")), pivot, runtime.seed
        )
        counts.update(tuning.counts())
        decay = params.weight_decay
        settings = TrainSettings(
            params.learning_rate,
            params.batch_size,
            params.epochs,
            warmup=params.warmup,
            schedule="linear",
            weight_decay=decay,
            clip=1.0,
        )
        return fit_epochs(
            tuning,
            tuning.model,
            len(tuning.units),
            settings,
            params.selection,
            tuning.dev_f1,
            runtime,
            name,
            keep,
        )

    records = train_models(aligned, pivot, runtime, folder, "mlqa", run)
    if runtime.rank == 0:
        Trained.write(folder, records, fingerprints)
    rows = {lang: len(questions) for lang, questions in placed.items()}
    misplaced = {lang: len(given[lang]) - n for lang, n in rows.items() if n < len(given[lang])}
    unanswerable = {
        lang: questions.unanswerable for lang, questions in given.items() if questions.unanswerable
    }
    return {
        "rows": rows,
        "misplaced": misplaced,
        "unanswerable": unanswerable,
        **counts,
        "models": records,
    }


class SpanTuning(Objective):
    """Cross-entropy of starts and ends over the windows of the global batch, whose rows are units:
    a window, or one of each of two mixes.
    """

    def __init__(
        self,
        params: SpanParams,
        aligned: AlignedEncoder,
        given: Mapping[str, Questions],
        dev: Questions | None,
        pivot: str,
        seed: int,
    ) -> None:
        self.params, self.pivot, self.dev = params, pivot, dev
        self.model = SpanModel(
            aligned, 2, dropout=params.dropout, max_length=params.max_length, seed=seed
        )
        self.module: nn.Module = self.model
        self.units: list[list[Window]] = []
        for lang, questions in given.items():
            if lang == pivot or params.code_switching == "none":
                self.units += [
                    [window]
                    for window in make_windows(
                        questions, self.model.encoder, (lang, lang), sizes_of(params)
                    ).windows
                ]
            else:
                self.units += self._mixed(questions, given[pivot], lang)
        self.dev_windows = (
            make_windows(dev, self.model.encoder, (pivot, pivot), sizes_of(params)) if dev else None
        )

    def _mixed(self, own: Questions, pivot: Questions, lang: str) -> list[list[Window]]:
        """The two mixes of each question of a language (Pan et al. 2021, 3.3), window by window."""
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
        units: dict[str, tuple[list[Window], list[Window]]] = {row.id: ([], []) for row in own.rows}
        for place, (asked, told_in, languages) in enumerate(
            [(own, pivot, (lang, self.pivot)), (pivot, own, (self.pivot, lang))]
        ):
            questions = crossed(asked, told_in)
            for window in make_windows(
                questions, self.model.encoder, languages, sizes_of(self.params)
            ).windows:
                units[questions.rows[window.question].id][place].append(window)
        return [
            [window for window in pair if window is not None]
            for both in units.values()
            for pair in zip_longest(*both)
        ]

    def counts(self) -> dict[str, object]:
        """What is trained on, for the record."""
        windows = [window for unit in self.units for window in unit]
        return {
            "windows": len(windows),
            "windows_with_answer": sum(window.target != (0, 0) for window in windows),
        }

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """The mean over the windows of the global batch, the share of these rows."""
        windows = [window for unit in step.rows[positions].tolist() for window in self.units[unit]]
        logits = self.model([window.row for window in windows])
        targets = torch.tensor([window.target for window in windows], device=logits.device)
        return span_loss(logits, targets) / sum(
            len(self.units[unit]) for unit in step.rows.tolist()
        )

    def dev_f1(self) -> float:
        """F1 on the pivot's development set, by MLQA's rules in every case, so that evaluations by
        other rules share the training.
        """
        assert self.dev is not None
        assert self.dev_windows is not None
        answers = self.model.answers(self.dev_windows, self.params.max_answer_length)
        values = [
            best(f1, found, [a.text for a in row.answers], self.pivot)
            for found, row in zip(answers, self.dev.rows, strict=True)
        ]
        return float(np.mean(values))
