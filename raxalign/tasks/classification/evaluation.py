"""The evaluation of a trained XNLI classifier in every language."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raxalign.tasks.base import Outcome, Score, TaskInputs
from raxalign.tasks.classification.data import NliData, Split
from raxalign.tasks.classification.model import SentenceClassifier
from raxalign.tasks.classification.rows import LABELS, Rows, refuse_overlap
from raxalign.tasks.transfer.outcome import languages_of, means, missing_splits, read_given
from raxalign.tasks.transfer.selection import readers, select
from raxalign.tasks.transfer.trained import Trained, TrainedModel

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.tasks.classification.params import ClassificationParams

_STRINGS = ("lang", "split", "toward", "label", "predicted")
_NAMES = ("lang", "split", "toward", "epoch", "id", "premise", "label", "predicted", *LABELS)
_SCHEMA = pa.schema(
    [
        (
            n,
            (
                pa.string()
                if n in _STRINGS
                else pa.int64()
                if n in ("epoch", "id", "premise")
                else pa.float32()
            ),
        )
        for n in _NAMES
    ]
)


def evaluate(
    params: ClassificationParams,
    aligned: AlignedEncoder,
    languages: Sequence[str],
    inputs: TaskInputs,
    folder: Path,
) -> Outcome:
    """Scores of all languages on all splits that are given, their means, and a prediction a row."""
    trained, data = Trained.read(folder), NliData(params, inputs)
    rows = read_given(
        data.rows, data.splits(), languages, readers(params.selection, languages, inputs.pivot)
    )
    for held_out in rows.values():
        refuse_overlap(trained.fingerprints, held_out)
    found: dict[tuple[str, Split], list[float]] = defaultdict(list)
    tables, notes = [], {}
    for model, spoken in languages_of(trained.models, languages, inputs.pivot):
        view = aligned if model.toward is None else aligned.toward(model.toward)
        scorer = _Scorer(params, view, model, rows)
        epochs, accuracies = scorer.select(spoken)
        for (lang, split), held_out in rows.items():
            if lang in spoken:
                probabilities = scorer.probabilities(lang, split, epochs[lang])
                found[lang, split].append(_accuracy(probabilities, held_out))
                tables.append(
                    _table(lang, split, model.toward, epochs[lang], held_out, probabilities)
                )
        notes[model.toward or "all"] = {"epochs": epochs, "dev_by_epoch": accuracies}
    scores = [
        Score(lang, "accuracy", split, float(np.mean(values)))
        for (lang, split), values in found.items()
    ]
    scores += means(scores, languages, inputs.pivot)
    return Outcome(
        scores,
        pa.concat_tables(tables),
        {**_notes(params, rows, notes), **missing_splits(rows, data.splits(), languages)},
    )


@dataclass
class _Scorer:
    """Probabilities of one model; the classifier is built once, and an epoch's weights are read
    when another epoch is asked for.
    """

    params: ClassificationParams
    aligned: AlignedEncoder
    model: TrainedModel
    rows: Mapping[tuple[str, Split], Rows]
    _loaded: int | None = None
    _found: dict[tuple[str, Split, int], npt.NDArray[np.float32]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.classifier = SentenceClassifier(
            self.aligned, len(LABELS), dropout=0.0, max_length=self.params.max_length, seed=0
        )

    def probabilities(self, lang: str, split: Split, epoch: int) -> npt.NDArray[np.float32]:
        """Probabilities (rows, labels), remembered."""
        if (lang, split, epoch) not in self._found:
            if self._loaded != epoch:
                self.classifier.load(self.model.files[epoch])
                self._loaded = epoch
            pieces = self.classifier.rows(*self.rows[lang, split].words(), lang)
            self._found[lang, split, epoch] = self.classifier.probabilities(pieces).numpy()
        return self._found[lang, split, epoch]

    def select(self, languages: Sequence[str]) -> tuple[dict[str, int], dict[str, list[float]]]:
        """The epoch of each language, by the development sides alone, and the accuracies that led
        to it.
        """
        epochs = sorted(self.model.files)
        if len(epochs) == 1:
            return dict.fromkeys(languages, epochs[0]), {}
        accuracies: dict[str, list[float]] = {lang: [] for lang in languages}
        for epoch in epochs:
            for lang in languages:
                accuracies[lang].append(
                    _accuracy(self.probabilities(lang, "dev", epoch), self.rows[lang, "dev"])
                )
        chosen = select(self.params.selection, accuracies)
        return {lang: epochs[index] for lang, index in chosen.items()}, accuracies


def _labels(rows: Rows) -> npt.NDArray[np.int64]:
    return np.array([row.label for row in rows.rows], dtype=np.int64)


def _accuracy(probabilities: npt.NDArray[np.float32], rows: Rows) -> float:
    return float((probabilities.argmax(1) == _labels(rows)).mean())


def _table(
    lang: str,
    split: str,
    toward: str | None,
    epoch: int,
    rows: Rows,
    probabilities: npt.NDArray[np.float32],
) -> pa.Table:
    n, names = len(rows), np.array(LABELS)
    same = {
        "lang": [lang] * n,
        "split": [split] * n,
        "toward": pa.array([toward] * n, pa.string()),
        "epoch": np.full(n, epoch),
    }
    number: dict[
        str, int
        # rows of one premise are not independent; where the file numbers premises, its numbers say
        # which are one
    ] = {}
    premises = [number.setdefault(row.prompt or row.premise, len(number)) for row in rows.rows]
    own = {
        "id": np.arange(n),
        "premise": premises,
        "label": names[_labels(rows)].tolist(),
        "predicted": names[probabilities.argmax(1)].tolist(),
    }
    return pa.table(
        {**same, **own, **{label: probabilities[:, i] for i, label in enumerate(LABELS)}},
        schema=_SCHEMA,
    )


def _notes(
    params: ClassificationParams,
    rows: Mapping[tuple[str, Split], Rows],
    models: Mapping[str, object],
) -> dict[str, object]:
    notes: dict[str, object] = {
        "setting": params.setting,
        "selection": params.selection,
        "readout": params.readout,
        "models": models,
        "rows": {f"{lang}/{split}": len(held_out) for (lang, split), held_out in rows.items()},
        "unlabelled": {
            f"{lang}/{split}": held_out.unlabelled
            for (lang, split), held_out in rows.items()
            if held_out.unlabelled
        },
    }
    if params.selection == "target-dev":
        notes["warning"] = (
            "the epoch was chosen on each language's own development set: this is no zero-shot"
            " result"
        )
    return notes
