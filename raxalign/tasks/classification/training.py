"""The fine-tuning of XNLI: on the pivot, or on all languages together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from raxalign.tasks.classification.data import NliData
from raxalign.tasks.classification.examples import Part, training_parts
from raxalign.tasks.classification.model import SentenceClassifier
from raxalign.tasks.classification.rows import LABELS, Rows, refuse_overlap
from raxalign.tasks.transfer.outcome import read_given
from raxalign.tasks.transfer.selection import readers
from raxalign.tasks.transfer.trained import Trained, fit_epochs, train_models
from raxalign.train.loop import TrainSettings
from raxalign.train.objective import Objective, Step
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.pieces import PieceRow
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.classification.params import ClassificationParams


def train(
    params: ClassificationParams,
    aligned: AlignedEncoder,
    languages: Sequence[str],
    inputs: TaskInputs,
    runtime: Runtime,
    folder: Path,
) -> Mapping[str, object]:
    """Fine-tunes on the training rows of `languages` and fills `folder`; returns notes. Every
    worker calls it, the first one writes.
    """
    data, pivot = NliData(params, inputs), inputs.pivot
    rows = {lang: data.rows("train", lang) for lang in languages}
    fingerprints = np.concatenate([of_lang.fingerprints() for of_lang in rows.values()])
    evaluated = read_given(
        data.rows, data.splits(), languages, readers(params.selection, languages, pivot)
    )
    for held_out in evaluated.values():
        refuse_overlap(fingerprints, held_out)
    # The phrasebook's rows that are evaluated too were left out, which may be other ones in another
    # language.
    parts = training_parts(rows, pivot, params.code_switching, whole=params.data != "phrasebook")

    def run(view: AlignedEncoder, name: str, keep: Path) -> tuple[dict[int, Path], list[float]]:
        tuning = _FineTuning(
            params, view, parts, evaluated.get((pivot, "dev")), pivot, runtime.seed
        )
        settings = TrainSettings(
            params.learning_rate,
            params.batch_size,
            params.epochs,
            warmup=params.warmup,
            betas=(0.9, 0.98),
            eps=1e-9,
        )
        return fit_epochs(
            tuning,
            tuning.classifier,
            len(tuning.members),
            settings,
            params.selection,
            tuning.accuracy,
            runtime,
            name,
            keep,
        )

    records = train_models(aligned, pivot, runtime, folder, "xnli", run)
    if runtime.rank == 0:
        Trained.write(folder, records, fingerprints, labels=LABELS)
    counts = {lang: len(of_lang) for lang, of_lang in rows.items()}
    notes = {
        "rows": sum(counts.values()),
        "unlabelled": sum(r.unlabelled for r in rows.values()),
        "models": records,
    }
    return (
        notes
        if tuple(languages) == (pivot,)
        else {
            **notes,
            "rows_by_language": counts,
            "examples": sum(len(part.labels) for part in parts),
        }
    )


class _FineTuning(Objective):
    """Cross-entropy over the examples of the global batch, whose rows are units of one example or,
    where languages are mixed, two.
    """

    def __init__(
        self,
        params: ClassificationParams,
        aligned: AlignedEncoder,
        parts: Sequence[Part],
        dev: Rows | None,
        pivot: str,
        seed: int,
    ) -> None:
        self.classifier = SentenceClassifier(
            aligned, len(LABELS), dropout=params.dropout, max_length=params.max_length, seed=seed
        )
        self.module: nn.Module = self.classifier
        self.pieces: list[PieceRow] = []
        self.members: list[list[int]] = [
            [] for _ in range(1 + max(part.units[-1] for part in parts))
        ]
        for part in parts:
            for number, unit in enumerate(part.units, len(self.pieces)):
                self.members[unit].append(number)
            self.pieces += self.classifier.rows(part.premises, part.hypotheses, *part.langs)
        self.labels = torch.tensor([label for part in parts for label in part.labels])
        self.dev = self.classifier.rows(*dev.words(), pivot) if dev else []
        self.dev_labels = torch.tensor([row.label for row in dev.rows]) if dev else self.labels[:0]

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """The mean over the examples of the global batch, the share of these rows."""
        chosen = [
            example for unit in step.rows[positions].tolist() for example in self.members[unit]
        ]
        logits = self.classifier([self.pieces[i] for i in chosen])
        labels = self.labels[torch.tensor(chosen)].to(logits.device)
        return nn.functional.cross_entropy(logits, labels, reduction="sum") / sum(
            len(self.members[unit]) for unit in step.rows.tolist()
        )

    def accuracy(self) -> float:
        """The accuracy on the pivot's development set."""
        return float(
            (self.classifier.probabilities(self.dev).argmax(1) == self.dev_labels).float().mean()
        )
