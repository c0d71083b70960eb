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

from raxalign.tasks.base import Outcome, Score
from raxalign.tasks.tagging.data import refuse_overlap
from raxalign.tasks.tagging.metrics import Counts, count, values
from raxalign.tasks.tagging.models import make_tagger
from raxalign.tasks.tagging.training import TrainedTagger, missing_label, names_of, read_trained
from raxalign.tasks.transfer.outcome import languages_of, means, missing_splits, read_given

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.tasks.tagging.data import Split, TaggingData
    from raxalign.tasks.tagging.params import TaggingSettings
    from raxalign.tasks.tagging.rows import Sentences


@dataclass(frozen=True)
class _HeldOut:
    sentences: Sentences
    seen: npt.NDArray[np.bool_]


def evaluate(
    settings: TaggingSettings,
    data: TaggingData,
    aligned: AlignedEncoder,
    languages: Sequence[str],
    folder: Path,
) -> Outcome:
    """Scores of all languages on all splits that are given, their means, and the predicted tags of
    every sentence.
    """
    models, taggers, labels, fingerprints = read_trained(folder)
    given = read_given(data.sentences, data.splits(), languages)
    held_out = {
        place: _HeldOut(sentences, refuse_overlap(fingerprints, sentences))
        for place, sentences in given.items()
    }
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    tables, chosen = [], {}
    for model, spoken in languages_of(models, languages, data.pivot):
        view = aligned if model.toward is None else aligned.toward(model.toward)
        steps = {lang: taggers[model.toward].step(lang) for lang in spoken}
        chosen[model.toward or "all"] = steps
        asked = {place: held for place, held in held_out.items() if place[0] in spoken}
        for (lang, split), names in _predictions(
            settings, view, taggers[model.toward], labels, asked
        ):
            held = held_out[lang, split]
            counts = count(
                [row.tags for row in held.sentences.rows], names, entities=settings.entities
            )
            for metric, value in values(counts).items():
                found[lang, metric, split].append(value)
            tables.append(_table(lang, split, model.toward, steps[lang], held, names, counts))
    scores = [
        Score(lang, metric, split, float(np.mean(several)))
        for (lang, metric, split), several in found.items()
    ]
    scores += means(scores, languages, data.pivot)
    notes = {
        **_notes(settings, held_out, labels, chosen),
        **missing_splits(held_out, data.splits(), languages),
    }
    return Outcome(scores, pa.concat_tables(tables), notes)


def _predictions(
    settings: TaggingSettings,
    aligned: AlignedEncoder,
    model: TrainedTagger,
    labels: Sequence[str],
    held_out: Mapping[tuple[str, Split], _HeldOut],
) -> Iterator[tuple[tuple[str, Split], list[list[str]]]]:
    """The tags of every sentence, language by language; weights are read when another step's are
    wanted.
    """
    tagger, loaded = make_tagger(settings, aligned, len(labels), 0), -1
    for (lang, split), held in held_out.items():
        step = model.step(lang)
        if step != loaded:
            tagger.load(model.files[step])
            loaded = step
        found = tagger.predict(tagger.place(held.sentences.words(), lang))
        yield (lang, split), names_of(labels, found, missing_label(settings))


def _table(
    lang: str,
    split: str,
    toward: str | None,
    step: int,
    held: _HeldOut,
    names: Sequence[Sequence[str]],
    counts: Counts,
) -> pa.Table:
    """A row a sentence: words, tags and predicted tags as lists, and the numbers whose sums the
    scores are made of.
    """
    n, texts = len(held.sentences), pa.list_(pa.string())
    columns = {
        "lang": pa.array([lang] * n, pa.string()),
        "split": pa.array([split] * n, pa.string()),
        "toward": pa.array([toward] * n, pa.string()),
        "step": pa.array([step] * n, pa.int64()),
        "id": pa.array(range(n), pa.int64()),
        "seen": pa.array(held.seen.tolist(), pa.bool_()),
        "words": pa.array(held.sentences.words(), texts),
        "label": pa.array([row.tags for row in held.sentences.rows], texts),
        "predicted": pa.array(names, texts),
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
    held_out: Mapping[tuple[str, Split], _HeldOut],
    labels: Sequence[str],
    chosen: Mapping[str, object],
) -> dict[str, object]:
    known = set(labels)
    unknown = {
        f"{lang}/{split}": missing
        for (lang, split), held in held_out.items()
        if (missing := sorted({tag for row in held.sentences.rows for tag in row.tags} - known))
    }
    notes: dict[str, object] = {
        "selection": settings.selection,
        "steps": chosen,
        "sentences": {
            f"{lang}/{split}": len(held.sentences) for (lang, split), held in held_out.items()
        },
        "seen_in_training": {
            f"{lang}/{split}": int(held.seen.sum())
            for (lang, split), held in held_out.items()
            if held.seen.any()
        },
        "tags_not_in_training": unknown,
    }
    if settings.selection == "target-dev":
        notes["warning"] = (
            "the weights were chosen on each language's own development set: this is no zero-shot"
            " result"
        )
    return notes
