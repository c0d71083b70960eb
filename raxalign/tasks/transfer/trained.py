"""What a training leaves in its folder: weights, labels, fingerprints of rows, and its record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.lazy import np, torch

_RECORD, _FINGERPRINTS = "training.json", "trained_on.safetensors"
ALL = "*"
"""Stands for every language where one choice is made for all."""


@dataclass(frozen=True)
class TrainedModel:
    """One model of a training: the language that the pivot's transforms lead to (None: they lead
    nowhere), its weights by epoch, counted from 1, or by the number of steps, the one language that
    it was trained on and answers for (None: all), and which weights each language takes, where the
    training chose them.
    """

    toward: str | None
    files: Mapping[int, Path]
    lang: str | None = None
    chosen: Mapping[str, int] | None = None

    @classmethod
    def of(cls, folder: Path, record: Mapping[str, Any]) -> TrainedModel:
        """Return a model by its record."""
        files = {int(point): folder / name for point, name in record["files"].items()}
        return cls(record["toward"], files, record.get("lang"), record.get("chosen"))

    @property
    def name(self) -> str:
        """Its name in notes."""
        return "-".join(part for part in (self.lang, self.toward) if part) or "all"

    def choice(self, lang: str) -> int:
        """Return the weights that a language takes, where the training chose them. Raises
        `DataError` where no choice was made for it.
        """
        known = self.chosen or {}
        if lang not in known and ALL not in known:
            told = f"no weights were chosen for {lang}: the training did not read its dev set"
            raise DataError("trained model", told)
        return int(known[lang] if lang in known else known[ALL])


@dataclass(frozen=True)
class Trained:
    """What a training left in its folder: its models, the fingerprints of the rows that it has
    seen, and the labels that its heads tell apart, in their order.
    """

    models: Sequence[TrainedModel]
    fingerprints: np.ndarray
    labels: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Trained:
        """Read the record of a folder. Raises `DataError` where it has none."""
        try:
            record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
            models = [TrainedModel.of(folder, entry) for entry in record["models"]]
            labels = tuple(str(label) for label in record.get("labels", ()))
            return cls(models, load_file(folder / _FINGERPRINTS)["rows"].numpy(), labels)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            told = f"is not the record of a training ({error})"
            raise DataError(folder / _RECORD, told) from error

    @staticmethod
    def write(
        folder: Path,
        models: Sequence[Mapping[str, object]],
        fingerprints: np.ndarray,
        labels: Sequence[str],
    ) -> None:
        """Write the records of models, and what else `read` returns."""
        save_file({"rows": torch.from_numpy(np.sort(fingerprints))}, folder / _FINGERPRINTS)
        record = {"models": models, "labels": list(labels)}
        (folder / _RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def trained_encoder(start: Encoder, folder: Path) -> Encoder:
    """Return `start` with the weights of a training of one model and epoch, but its head."""
    (model,) = Trained.read(folder).models
    (file,) = model.files.values()
    assert isinstance(start, TransformerEncoder)
    parameters = dict(start.model.named_parameters(prefix="model"))
    with torch.no_grad():
        for name, tensor in load_file(file).items():
            if name.startswith("model."):
                parameters[name].copy_(tensor)
    return start
