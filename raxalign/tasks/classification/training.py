"""The fine-tuning of a classifier: on the pivot, or on all languages together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from raxalign.arrays import offsets_of, ranges
from raxalign.errors import DataError
from raxalign.tasks.classification.classifiers import Classifier, new_classifier, settings_for
from raxalign.tasks.classification.data import ExampleData
from raxalign.tasks.classification.examples import Examples, refuse_overlap
from raxalign.tasks.classification.metrics import METRICS
from raxalign.tasks.classification.mixing import Part, training_parts
from raxalign.tasks.classification.model import SentenceClassifier
from raxalign.tasks.classification.spooled import labels
from raxalign.tasks.transfer.compact_rows import Chained
from raxalign.tasks.transfer.outcome import read_given
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
from raxalign.train.objective import HostSided, Prepared, Step

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.tasks.classification.params import ClassificationParams
    from raxalign.train.runtime import Runtime, Watch


def train(
    data: ExampleData,
    aligned: AlignedEncoder,
    languages: Sequence[str],
    runtime: Runtime,
    folder: Path,
) -> Mapping[str, object]:
    """Fine-tunes on training examples. Every worker calls it, the first one writes.

    Args:
        data: reads the examples.
        aligned: the encoder that the training starts from.
        languages: those that are trained on.
        runtime: the device, the seed and the place of checkpoints.
        folder: takes the weights and the record of the training.

    Returns: notes (counts, and the records of the models).
    Raises: `DataError` where an example that is evaluated is trained on.
    """
    params, pivot = data.params, data.inputs.pivot
    given = {lang: data.examples("train", lang) for lang in languages}
    fingerprints = np.sort(np.concatenate([found.fingerprints() for found in given.values()]))
    evaluated = read_given(data.examples, data.splits(), languages, data.choosing(languages))
    for held_out in evaluated.values():
        refuse_overlap(fingerprints, held_out, repeats=data.scheme.repeats)
    known, metric = labels_of(data, given), data.scheme.metric
    watched = watched_sets(runtime, lambda lang: data.examples("dev", lang))
    parts, records = list[Part](), list[dict[str, object]]()
    for own, read in _groups(given, params):
        lang, name = own or pivot, "-".join(part for part in (data.scheme.name, own) if part)
        # The phrasebook's examples that are evaluated too were left out: others in each language.
        whole = params.data != "phrasebook"
        found = training_parts(read, lang, params.code_switching, whole=whole)
        run = _Run(params, Training(found, known, evaluated.get((lang, "dev")), metric, watched))
        made = train_models(aligned, lang, runtime, folder, name, run)
        records += made if own is None else [{**record, "lang": own} for record in made]
        parts += found
    if runtime.rank == 0:
        Trained.write(folder, records, fingerprints, labels=known)
    return _notes(given, parts, records, alone=tuple(languages) == (pivot,))


def _groups(
    given: Mapping[str, Examples], params: ClassificationParams
) -> list[tuple[str | None, Mapping[str, Examples]]]:
    """Returns what each model is trained on, with the one language that it is for (None: all)."""
    if params.models == "together":
        return [(None, given)]
    return [(lang, {lang: examples}) for lang, examples in given.items()]


def labels_of(data: ExampleData, given: Mapping[str, Examples]) -> tuple[str, ...]:
    """Returns the labels of the task, or else those of the training examples, sorted. Raises
    `DataError` where there are fewer than two.
    """
    found = data.scheme.labels or tuple(
        sorted({label for examples in given.values() for label in labels(examples.rows)})
    )
    if len(found) < 2:
        source = ", ".join(examples.source for examples in given.values())
        told = f"has the label {', '.join(found)} alone"
        raise DataError(source, told, remedy="A classifier needs two labels at least")
    return found


def _notes(
    given: Mapping[str, Examples], parts: Sequence[Part], records: object, *, alone: bool
) -> dict[str, object]:
    counts = {lang: len(examples) for lang, examples in given.items()}
    notes = {
        "rows": sum(counts.values()),
        "unlabelled": sum(examples.unlabelled for examples in given.values()),
        "models": records,
    }
    if alone:
        return notes
    examples = sum(len(part.labels) for part in parts)
    return {**notes, "rows_by_language": counts, "examples": examples}


@dataclass(frozen=True)
class Training:
    """What a classifier is trained on: parts in one language or two, all labels in their order, the
    development set of the pivot, or of the one language that is trained on (None where nothing asks
    for it), and the score of it. `watched` are the development sets that `Runtime.watch` asks for,
    by language.
    """

    parts: Sequence[Part]
    labels: tuple[str, ...]
    dev: Examples | None
    metric: str
    watched: Mapping[str, Examples] = field(default_factory=dict)


@dataclass(frozen=True)
class _Run:
    """One training of a view of the encoder."""

    params: ClassificationParams
    training: Training

    def __call__(
        self, view: AlignedEncoder, place: TrainingRun
    ) -> tuple[dict[int, Path], list[float]]:
        """Returns the kept weights by epoch, and the development scores."""
        tuning = FineTuning(self.params, view, self.training, place)
        settings = settings_for(tuning.model, self.params, settings_of(self.params))
        return fit_epochs(tuning, settings, self.params.selection, place)


@dataclass(frozen=True)
class _Examples:
    """Examples as the classifier reads them, their labels, and how many the global batch has."""

    rows: Any
    labels: np.ndarray
    total: int


class FineTuning(EpochObjective, HostSided[int, _Examples]):
    """Cross-entropy over the examples of the global batch, whose rows are units of one example or,
    where languages are mixed, two.
    """

    model: Classifier

    def __init__(
        self,
        params: ClassificationParams,
        aligned: AlignedEncoder,
        given: Training,
        run: TrainingRun,
    ) -> None:
        n_texts = 1 if given.parts[0].seconds is None else 2
        self.model = new_classifier(
            aligned,
            params,
            (n_texts, len(given.labels)),
            dropout=params.dropout,
            seed=run.runtime.seed,
        )
        self.module: nn.Module = self.model
        self.given = given
        self.pieces: Sequence[Any] = Chained(
            [self.model.rows(part.firsts, part.seconds, *part.langs) for part in given.parts]
        )
        units = np.concatenate([part.units for part in given.parts])
        self.n_rows = 1 + int(units.max())
        self.members = np.argsort(units, kind="stable")  # the examples of each unit in turn
        self.member_offsets = offsets_of(np.bincount(units))
        number_of = {label: i for i, label in enumerate(given.labels)}
        self.labels = np.concatenate(
            [
                np.fromiter(map(number_of.__getitem__, part.labels), np.int64, len(part.labels))
                for part in given.parts
            ]
        )
        pivot = given.parts[0].langs[0]
        self.dev: Sequence[Any] = self.model.rows(*given.dev.words(), pivot) if given.dev else []
        self.rows_watched: Mapping[str, Sequence[Any]] = {
            lang: self.model.rows(*examples.words(), lang)
            for lang, examples in given.watched.items()
        }

    def blocks(self) -> Sequence[nn.Module]:
        """Returns the encoder's blocks; static vectors have none."""
        return self.model.encoder.blocks() if isinstance(self.model, SentenceClassifier) else ()

    def prepare(self, step: Step) -> Prepared | None:
        """Returns the rows of a step; None where their vectors are looked up on the device."""
        return super().prepare(step) if isinstance(self.model, SentenceClassifier) else None

    def host_batch(self, step: Step) -> int:
        """Returns the number of examples of the global batch."""
        return int((self.member_offsets[step.rows + 1] - self.member_offsets[step.rows]).sum())

    def host_part(self, step: Step, batch: int, positions: np.ndarray) -> _Examples:
        """Returns the examples of some rows."""
        chosen = self.members[ranges(self.member_offsets, step.rows[positions])[0]].tolist()
        rows = self.model.lay_out([self.pieces[i] for i in chosen])
        return _Examples(rows, self.labels[chosen], batch)

    def device_loss(self, step: Step, part: _Examples) -> torch.Tensor:  # noqa: ARG002
        """The mean over the examples of the global batch, the share of these."""
        logits = self.model.logits(part.rows)
        labels = on_device(part.labels, logits.device)
        return nn.functional.cross_entropy(logits, labels, reduction="sum") / part.total

    def dev_score(self) -> float:
        """Scores the development set by the task's main metric."""
        assert self.given.dev is not None, "the task's check asks for it"
        return self._score(self.given.dev, self.dev, self.given.metric)

    def watched(self, watch: Watch) -> Mapping[str, float]:
        """Scores the development sets of the languages that are watched."""
        return {
            lang: self._score(self.given.watched[lang], rows, watch.metric)
            for lang, rows in self.rows_watched.items()
        }

    def _score(self, examples: Examples, rows: Sequence[Any], metric: str) -> float:
        predicted = self.model.probabilities(rows).argmax(1).numpy()
        return METRICS[metric](examples.numbers(self.given.labels), predicted)
