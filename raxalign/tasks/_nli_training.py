"""The fine-tuning of XNLI: epochs, their weights, and the choice by the pivot's development set."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from raxalign.errors import DataError
from raxalign.tasks._nli_data import NliData
from raxalign.tasks._nli_rows import LABELS, Rows, refuse_overlap
from raxalign.tasks._selection import best_epoch, kept
from raxalign.tasks._sentence_classifier import SentenceClassifier
from raxalign.train.loop import TrainSettings, fit
from raxalign.train.objective import Objective, Step
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    from raxalign.encoders._aligned import AlignedEncoder
    from raxalign.encoders._pieces import Row as Pieces
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.xnli import Xnli

_RECORD, _FINGERPRINTS = "training.json", "trained_on.safetensors"


@dataclass(frozen=True)
class TrainedModel:
    """One model of a training: the language that the pivot's transforms lead to (None: they lead nowhere), and its files by epoch, counted from 1."""

    toward: str | None
    files: Mapping[int, Path]


@dataclass(frozen=True)
class Trained:
    """What a training left in its folder."""

    models: Sequence[TrainedModel]
    fingerprints: np.ndarray

    @classmethod
    def read(cls, folder: Path) -> Trained:
        """The record of a folder. Raises `DataError` where it is none."""
        try:
            record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
            models = [TrainedModel(m["toward"], {int(e): folder / name for e, name in m["files"].items()}) for m in record["models"]]
            return cls(models, load_file(folder / _FINGERPRINTS)["rows"].numpy())
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(folder / _RECORD, f"is no record of a training ({error})") from error


def train(params: Xnli.Params, aligned: AlignedEncoder, inputs: TaskInputs, runtime: Runtime, folder: Path) -> Mapping[str, object]:
    """Fine-tunes on the pivot and fills `folder`; returns notes. Every worker calls it, the first one writes."""
    data = NliData(params, inputs)
    rows = data.rows("train", inputs.pivot)
    fingerprints = rows.fingerprints()
    evaluated = {split: data.rows(split, inputs.pivot) for split in data.splits()}
    for held_out in evaluated.values():
        refuse_overlap(fingerprints, held_out)
    towards = sorted({t.toward for t in aligned.transforms if t.lang == inputs.pivot and t.toward is not None})
    records = []
    for toward in [*towards] if towards else [None]:
        view, name = (aligned, "xnli") if toward is None else (aligned.toward(toward), f"xnli-{toward}")
        with _lasting_folder(runtime, name) as keep:
            run = _FineTuning(params, view, rows, evaluated.get("dev"), inputs.pivot, runtime.seed, keep)
            files, accuracies = run.run(runtime, name)
            names = {epoch: f"{name}.{epoch}.safetensors" for epoch in files}
            for epoch, file in files.items():
                shutil.copyfile(file, folder / names[epoch])
            records.append({"toward": toward, "files": names, "pivot_dev": accuracies})
    if runtime.rank == 0:
        save_file({"rows": torch.from_numpy(np.sort(fingerprints))}, folder / _FINGERPRINTS)
        (folder / _RECORD).write_text(json.dumps({"models": records, "labels": LABELS}, indent=1) + "\n", encoding="utf-8")
    return {"rows": len(rows), "unlabelled": rows.unlabelled, "models": records}


@contextmanager
def _lasting_folder(runtime: Runtime, name: str) -> Iterator[Path]:
    """Beside the checkpoints, until the training is over; a temporary folder where there are none."""
    if runtime.checkpoints is None:
        with tempfile.TemporaryDirectory(prefix="raxalign-") as temporary:
            yield Path(temporary)
        return
    folder = runtime.checkpoints / f"{name}-epochs"
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    if runtime.rank == 0:
        shutil.rmtree(folder)


class _FineTuning(Objective):
    """Cross-entropy over the rows of the global batch; the pivot's development accuracy at the end of each epoch.

    Where all epochs are kept, they lie in `keep`, a folder that outlives the process as checkpoints do: a resumed training has its earlier
    epochs, since each is written before the next checkpoint.
    """

    def __init__(self, params: Xnli.Params, aligned: AlignedEncoder, rows: Rows, dev: Rows | None, pivot: str, seed: int, keep: Path) -> None:
        self.params, self.keep = params, keep
        self.classifier = SentenceClassifier(aligned, len(LABELS), dropout=params.dropout, max_length=params.max_length, seed=seed)
        self.module: nn.Module = self.classifier
        self.pieces: list[Pieces] = self.classifier.rows(*rows.words(), pivot)
        self.labels = torch.tensor([row.label for row in rows.rows])
        self.dev = self.classifier.rows(*dev.words(), pivot) if dev else []
        self.dev_labels = torch.tensor([row.label for row in dev.rows]) if dev else self.labels[:0]

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """The mean over the global batch, the share of these rows."""
        chosen = step.rows[positions]
        logits = self.classifier([self.pieces[i] for i in chosen])
        labels = self.labels[torch.from_numpy(chosen)].to(logits.device)
        return nn.functional.cross_entropy(logits, labels, reduction="sum") / len(step.rows)

    def end_of_epoch(self, epoch: int) -> float:
        """The accuracy on the pivot's development set; the weights of epoch (from 1 on) are written where all are kept."""
        if kept(self.params.selection) == "every":
            self.classifier.save(self.file(epoch))
        return float((self.classifier.probabilities(self.dev).argmax(1) == self.dev_labels).float().mean())

    def file(self, epoch: int) -> Path:
        """Where the weights of an epoch are kept."""
        return self.keep / f"epoch-{epoch}.safetensors"

    def run(self, runtime: Runtime, name: str) -> tuple[dict[int, Path], list[float]]:
        """Trains; returns the kept weights by epoch, counted from 1, and the pivot's development accuracies (on the first worker)."""
        params, frozen = self.params, self.classifier.frozen()
        settings = TrainSettings(params.learning_rate, params.batch_size, params.epochs, warmup=params.warmup, betas=(0.9, 0.98), eps=1e-9)
        rule = kept(params.selection)
        fitted = fit(self, len(self.pieces), settings, runtime, name=name, select=None if rule == "last" else self.end_of_epoch)
        after = self.classifier.frozen()
        assert all(torch.equal(tensor, after[key]) for key, tensor in frozen.items()), "training changed what is frozen"
        if runtime.rank != 0:
            return {}, []
        accuracies = [score for _, score in fitted.scores]
        if rule == "every":
            return {epoch: self.file(epoch) for epoch in range(1, params.epochs + 1)}, accuracies
        epoch = params.epochs if rule == "last" else best_epoch(accuracies) + 1
        self.classifier.save(self.file(epoch))
        return {epoch: self.file(epoch)}, accuracies
