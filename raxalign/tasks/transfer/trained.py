"""The trainings that transfer tasks have in common: epochs, their weights, the choice by the
pivot's development set, and what they leave.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.tasks.transfer.model import TaskModel
from raxalign.tasks.transfer.selection import Selection, best_epoch, kept
from raxalign.train.loop import KeepBest, TrainSettings, fit
from raxalign.train.objective import Objective
from raxalign.train.runtime import Runtime, Watch

if TYPE_CHECKING:
    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.aligned import AlignedEncoder

SetT = TypeVar("SetT")
_RECORD, _FINGERPRINTS = "training.json", "trained_on.safetensors"


@dataclass(frozen=True)
class TrainedModel:
    """One model of a training: the language that the pivot's transforms lead to (None: they lead
    nowhere), its files by epoch, counted from 1, and the one language that it was trained on and
    answers for (None: it answers for all).
    """

    toward: str | None
    files: Mapping[int, Path]
    lang: str | None = None

    @property
    def name(self) -> str:
        """Its name in notes."""
        return "-".join(part for part in (self.lang, self.toward) if part) or "all"


@dataclass(frozen=True)
class Trained:
    """What a training left in its folder: its models, the fingerprints of the rows that it has
    seen, and the labels that its heads tell apart, in their order.
    """

    models: Sequence[TrainedModel]
    fingerprints: np.ndarray
    labels: Sequence[str] = ()

    @classmethod
    def read(cls, folder: Path) -> Trained:
        """Reads the record of a folder. Raises `DataError` where it has none."""
        try:
            record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
            models = [
                TrainedModel(
                    m["toward"],
                    {int(e): folder / name for e, name in m["files"].items()},
                    m.get("lang"),
                )
                for m in record["models"]
            ]
            labels = [str(label) for label in record.get("labels", ())]
            return cls(models, load_file(folder / _FINGERPRINTS)["rows"].numpy(), labels)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                folder / _RECORD, f"is not the record of a training ({error})"
            ) from error

    @staticmethod
    def write(
        folder: Path,
        models: Sequence[Mapping[str, object]],
        fingerprints: np.ndarray,
        **more: object,
    ) -> None:
        """Writes the records of `train_models` and the fingerprints for `read`."""
        save_file({"rows": torch.from_numpy(np.sort(fingerprints))}, folder / _FINGERPRINTS)
        (folder / _RECORD).write_text(
            json.dumps({"models": models, **more}, indent=1) + "\n", encoding="utf-8"
        )


def trained_encoder(start: Encoder, folder: Path) -> Encoder:
    """Returns `start` with the weights of a training that left one model of one epoch; the head of
    that model is not read.
    """
    (model,) = Trained.read(folder).models
    (file,) = model.files.values()
    assert isinstance(start, TransformerEncoder)
    tensors = load_file(file)
    parameters = dict(start.model.named_parameters(prefix="model"))
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name.startswith("model."):
                parameters[name].copy_(tensor)
    return start


@dataclass(frozen=True)
class TrainingRun:
    """One training at work: its runtime, its name, and a folder for weights that outlives the
    process as checkpoints do.
    """

    runtime: Runtime
    name: str
    keep: Path

    def epoch(self, number: int) -> Path:
        """Returns the file for the weights after an epoch."""
        return self.keep / f"epoch-{number}.safetensors"


Train = Callable[["AlignedEncoder", TrainingRun], tuple[dict[int, Path], list[float]]]
"""Trains a view of the encoder; returns the kept weights by epoch or step, and the pivot's
development scores.
"""


def train_models(
    aligned: AlignedEncoder, pivot: str, runtime: Runtime, folder: Path, name: str, train: Train
) -> list[dict[str, object]]:
    """Trains one model, or one per direction where the pivot's transforms differ by language.

    Args:
        aligned: the encoder that every training starts from.
        pivot: the language that is trained on.
        runtime: the device, the seed and the place of checkpoints.
        folder: takes the weights.
        name: begins the names of curves, checkpoints and weights.
        train: one training.

    Returns:
        a record of each model: its direction, its files by epoch, and its development scores.
    """
    towards = sorted(
        {t.toward for t in aligned.transforms if t.lang == pivot and t.toward is not None}
    )
    if len(towards) > 1:  # a score is the mean over the models then, which no training knows
        runtime = replace(runtime, watch=None)
    records: list[dict[str, object]] = []
    for toward in [*towards] if towards else [None]:
        view, label = (
            (aligned, name) if toward is None else (aligned.toward(toward), f"{name}-{toward}")
        )
        with _lasting_folder(runtime, label) as keep:
            files, scores = train(view, TrainingRun(runtime, label, keep))
            names = {epoch: f"{label}.{epoch}.safetensors" for epoch in files}
            for epoch, file in files.items():
                shutil.copyfile(file, folder / names[epoch])
            records.append({"toward": toward, "files": names, "pivot_dev": scores})
    return records


@contextmanager
def _lasting_folder(runtime: Runtime, name: str) -> Iterator[Path]:
    """Yields a folder next to the checkpoints, which is removed when the training is over; a
    temporary folder where there are no checkpoints.
    """
    if runtime.checkpoints is None:
        with tempfile.TemporaryDirectory(prefix="raxalign-") as temporary:
            yield Path(temporary)
        return
    folder = runtime.checkpoints / f"{name}-epochs"
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    if runtime.rank == 0:
        runtime.owned()  # else it is another process's
        shutil.rmtree(folder)


def watched_sets(runtime: Runtime, read: Callable[[str], SetT]) -> dict[str, SetT]:
    """Reads the development sets that the watch of a training asks for, by language. All workers
    read them, since they share the scoring.
    """
    watch = runtime.watch
    return {} if watch is None else {lang: read(lang) for lang in watch.languages}


class EpochObjective(Objective):
    """Objective that is scored after each epoch: it has a `model`, a number of training rows, and
    the pivot's development set.
    """

    model: TaskModel
    n_rows: int

    @abstractmethod
    def dev_score(self) -> float:
        """Scores the model as it is on the pivot's development set."""

    @abstractmethod
    def watched(self, watch: Watch) -> Mapping[str, float]:
        """Scores the model as it is on the development sets that a watch asks for; language ->
        score.
        """


def fit_epochs(
    objective: EpochObjective, settings: TrainSettings, selection: Selection, run: TrainingRun
) -> tuple[dict[int, Path], list[float]]:
    """Trains the objective's model; returns the files of the kept weights by epoch, counted from 1,
    and the score after each epoch (on the first worker alone).

    `selection` decides which weights are kept. Where all epochs are, they are in the folder of the
    run, which outlives the process as checkpoints do: a resumed training has its earlier epochs,
    since each is written before the next checkpoint.
    """
    rule, frozen = kept(selection), objective.model.frozen()

    def end_of_epoch(epoch: int) -> float:
        if rule == "every" and run.runtime.rank == 0:
            objective.model.save(run.epoch(epoch))
        return objective.dev_score()

    fitted = fit(
        objective,
        objective.n_rows,
        settings,
        run.runtime,
        name=run.name,
        keep=None if rule == "last" else KeepBest(end_of_epoch, watched=objective.watched),
    )
    after = objective.model.frozen()
    assert all(torch.equal(tensor, after[key]) for key, tensor in frozen.items()), (
        "training changed what is frozen"
    )
    if run.runtime.rank != 0:
        return {}, []
    scores = [value for _, value in fitted.scores]
    if rule == "every":
        return {epoch: run.epoch(epoch) for epoch in range(1, settings.epochs + 1)}, scores
    epoch = settings.epochs if rule == "last" else best_epoch(scores) + 1
    objective.model.save(run.epoch(epoch))
    return {epoch: run.epoch(epoch)}, scores
