"""The evaluation of a trained tagger in every language."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raxalign.tasks.base import Outcome
from raxalign.tasks.tagging.metrics import Counts, count, values
from raxalign.tasks.tagging.models import make_tagger
from raxalign.tasks.tagging.sentences import left_out, refuse_overlap
from raxalign.tasks.tagging.trained import TrainedTagger, names_of, read_trained
from raxalign.tasks.transfer.outcome import (
    TARGET_DEV,
    languages_of,
    missing_splits,
    read_given,
    scores_of,
)

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.tasks.tagging.data import TaggingData
    from raxalign.tasks.tagging.params import TaggingSettings
    from raxalign.tasks.tagging.scheme import Split
    from raxalign.tasks.tagging.sentences import Sentences


@dataclass(frozen=True)
class _HeldOut:
    """What is evaluated of one language and split; `seen` marks the sentences that were trained
    on.
    """

    lang: str
    split: Split
    sentences: Sentences
    seen: npt.NDArray[np.bool_]

    @property
    def place(self) -> str:
        """Its name in notes."""
        return f"{self.lang}/{self.split}"


@dataclass(frozen=True)
class _Predicted:
    """The tags of all sentences by one tagger, the step of its weights, and the counts behind its
    scores.
    """

    toward: str | None
    step: int
    tags: Sequence[Sequence[str]]
    counts: Counts


def evaluate(
    settings: TaggingSettings,
    data: TaggingData,
    aligned: AlignedEncoder,
    languages: Sequence[str],
    folder: Path,
) -> Outcome:
    """Scores all languages on all splits that are given.

    Args:
        settings: the options of the training.
        data: reads the sentences.
        aligned: the encoder below the tagger.
        languages: those that are evaluated, the pivot first.
        folder: the folder that `train` filled.

    Returns: the scores, their means over languages, and the predicted tags of every sentence.
    Raises: `DataError` where a file is mostly trained on.
    """
    trained = read_trained(folder)
    given = read_given(data.sentences, data.splits(), languages)
    held_out = [
        _HeldOut(lang, split, sentences, refuse_overlap(trained.fingerprints, sentences))
        for (lang, split), sentences in given.items()
    ]
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    tables, chosen = [], {}
    for model, spoken in languages_of(trained.models, languages, data.pivot):
        view = aligned if model.toward is None else aligned.toward(model.toward)
        tagger = trained.taggers[model.toward]
        chosen[model.toward or "all"] = {lang: tagger.step(lang) for lang in spoken}
        asked = [held for held in held_out if held.lang in spoken]
        scorer = _Scorer(settings, data, trained.labels, tagger)
        for held, predicted in scorer.predictions(view, asked):
            for metric, value in values(predicted.counts).items():
                found[held.lang, metric, held.split].append(value)
            tables.append(_table(held, predicted))
    notes = _notes(settings, held_out, trained.labels, chosen)
    notes |= missing_splits(given, data.splits(), languages)
    return Outcome(scores_of(found, languages, data.pivot), pa.concat_tables(tables), notes)


@dataclass(frozen=True)
class _Scorer:
    """The predictions of one tagger."""

    settings: TaggingSettings
    data: TaggingData
    labels: Sequence[str]
    trained: TrainedTagger

    def predictions(
        self, aligned: AlignedEncoder, asked: Sequence[_HeldOut]
    ) -> Iterator[tuple[_HeldOut, _Predicted]]:
        """Yields the tags of every sentence, language by language; weights are read when another
        step's are asked for.
        """
        scheme = self.data.scheme
        tagger, loaded = make_tagger(self.settings, aligned, len(self.labels), 0), -1
        for held in asked:
            step = self.trained.step(held.lang)
            if step != loaded:
                tagger.load(self.trained.files[step])
                loaded = step
            found = tagger.predict(tagger.place(held.sentences.words(), held.lang))
            tags = names_of(self.labels, found, scheme.missing)
            gold = [row.tags for row in held.sentences.rows]
            counts = count(gold, tags, entities=scheme.entities)
            yield held, _Predicted(self.trained.toward, step, tags, counts)


def _table(held: _HeldOut, predicted: _Predicted) -> pa.Table:
    """Makes one row per sentence: words, tags and predicted tags as lists, and the numbers whose
    sums the scores are made of.
    """
    n, texts, counts = len(held.sentences), pa.list_(pa.string()), predicted.counts
    columns = {
        "lang": pa.array([held.lang] * n, pa.string()),
        "split": pa.array([held.split] * n, pa.string()),
        "toward": pa.array([predicted.toward] * n, pa.string()),
        "step": pa.array([predicted.step] * n, pa.int64()),
        "id": pa.array(range(n), pa.int64()),
        "seen": pa.array(held.seen.tolist(), pa.bool_()),
        "words": pa.array(held.sentences.words(), texts),
        "label": pa.array([row.tags for row in held.sentences.rows], texts),
        "predicted": pa.array(predicted.tags, texts),
    }
    numbers = dict(zip(("n_tokens_right", "n_tokens"), counts["accuracy"], strict=True))
    if "f1" in counts:
        numbers |= dict(zip(("n_right", "n_predicted"), counts["precision"], strict=True)) | {
            "n_gold": counts["recall"][1]
        }
    return pa.table(
        {**columns, **{name: pa.array(column, pa.int64()) for name, column in numbers.items()}}
    )


def _notes(
    settings: TaggingSettings,
    held_out: Sequence[_HeldOut],
    labels: Sequence[str],
    chosen: Mapping[str, object],
) -> dict[str, object]:
    known = set(labels)
    unknown = {
        held.place: missing
        for held in held_out
        if (missing := sorted({tag for row in held.sentences.rows for tag in row.tags} - known))
    }
    notes: dict[str, object] = {
        "selection": settings.selection,
        "steps": chosen,
        "sentences": {held.place: len(held.sentences) for held in held_out},
        "seen_in_training": {
            held.place: int(held.seen.sum()) for held in held_out if held.seen.any()
        },
        "tags_not_in_training": unknown,
    }
    for held in held_out:
        notes |= left_out(held.sentences.left_out, held.place)
    if settings.selection == "target-dev":
        notes["warning"] = TARGET_DEV.format("weights were")
    return notes
