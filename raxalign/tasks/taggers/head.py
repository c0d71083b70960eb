"""The head of tags: how sentences are read, which tagger reads them, and its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from raxalign.corpora.readers.inspection import Report, refuse
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.taggers.models import Placed, Tagger, make_tagger
from raxalign.tasks.taggers.reading import read_hub, read_tagged
from raxalign.tasks.taggers.scheme import OUTSIDE, count, values
from raxalign.tasks.taggers.sentences import (
    Tagged,
    TaggedSentences,
    read_sentences,
    write_sentences,
)
from raxalign.tasks.transfer.head import Batches, Head, HeldOut, noted
from raxalign.tasks.transfer.params import HubSet, Split

_PHRASEBOOK_SEED = 0
"""The examples are data: they do not change with the seed of a trial."""
Labels = Sequence[np.ndarray]


class TagHead(Head):
    """Sentences, a tagger, and its labels: a number per word, -1 where there is none. The training
    chooses the weights of each language.
    """

    point = "step"
    allowed = 0.5

    def __init__(self, task: Any, inputs: TaskInputs) -> None:
        super().__init__(task, inputs)
        self.scheme, self.options = task.scheme(), task.settings()

    def read_local(self, split: Split, lang: str, report: Report = refuse) -> TaggedSentences:
        """Read a local file."""
        return read_tagged(self.path(split, lang), report, self.scheme)

    def read_hub(self, found: HubSet, split: Split) -> TaggedSentences:
        """Read a split of a data set of the hub."""
        return read_hub(found, split, self.scheme, self.inputs.downloads)

    def read_phrasebook(self, split: Split, lang: str, source: str) -> TaggedSentences:
        """Read sentences of the phrasebook."""
        n: int = getattr(self.params.phrasebook, split)
        made = enumerate(self.task.phrasebook(n, lang, split, _PHRASEBOOK_SEED), 1)
        return TaggedSentences(source, [Tagged(tuple(w), tuple(t), i) for i, (w, t) in made])

    read_prepared = staticmethod(read_sentences)
    write_prepared = staticmethod(write_sentences)

    def new_model(self, aligned: AlignedEncoder, seed: int, *, training: bool = True) -> Tagger:  # noqa: ARG002
        """Make the tagger that the options ask for."""
        return make_tagger(self.options, aligned, len(self.labels), seed)

    def labels_of(self, rows: Sequence[TaggedSentences]) -> tuple[str, ...]:
        """Return the tags of the training sentences, `O` first."""
        found = {tag for sentences in rows for tag in sentences.tags()}
        return tuple(sorted(found, key=lambda tag: (tag != OUTSIDE, tag)))

    def scored_in_training(self, lang: str, languages: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        """Return the languages whose development sets choose the weights."""
        return self.choosing(languages)

    def batches(self, model: Tagger, given: Mapping[str, TaggedSentences]) -> SentenceBatches:
        """Return the training sentences as the tagger reads them."""
        ((lang, rows),) = given.items()
        placed = model.placed(rows.piece_rows(model.encoder, lang))
        both = zip(rows.numbers(self.labels), placed.words, strict=True)
        labels = [numbers[words] for numbers, words in both]
        return SentenceBatches(model, placed, labels, rows.n_words())

    def notes_of_training(
        self, given: Mapping[str, TaggedSentences], counts: Sequence[Mapping[str, int]]
    ) -> dict[str, object]:
        """Return the numbers of sentences and words, and the labels."""
        rows = given[self.pivot]
        return {"sentences": len(rows), "labels": list(self.labels), **counts[-1]}

    def inputs_of(self, model: Tagger, held: HeldOut) -> Placed:
        """Return held-out sentences as the tagger reads them."""
        return model.place(held.rows.words(), held.label)

    def predict(self, model: Tagger, inputs: Placed) -> list[np.ndarray]:
        """Return the label of every word."""
        return model.predict(inputs)

    def measure(self, held: HeldOut, predicted: Labels) -> dict[str, float]:
        """Return the accuracy, and for entities F1, precision and recall."""
        gold = [row.tags for row in held.rows.rows]
        return values(count(gold, self._names(predicted), entities=self.scheme.entities))

    def columns(self, held: HeldOut, predicted: Labels) -> dict[str, Any]:
        """Return words, tags and predicted tags as lists, and the numbers that scores sum."""
        texts, tags = pa.list_(pa.string()), self._names(predicted)
        gold = [row.tags for row in held.rows.rows]
        counts = count(gold, tags, entities=self.scheme.entities)
        numbers = dict(zip(("n_tokens_right", "n_tokens"), counts["accuracy"], strict=True))
        if "f1" in counts:
            numbers |= dict(zip(("n_right", "n_predicted"), counts["precision"], strict=True))
            numbers["n_gold"] = counts["recall"][1]
        return {
            "id": pa.array(range(len(gold)), pa.int64()),
            "seen": pa.array(held.seen.tolist(), pa.bool_()),
            "words": pa.array(held.rows.words(), texts),
            "label": pa.array(gold, texts),
            "predicted": pa.array(tags, texts),
            **{name: pa.array(column, pa.int64()) for name, column in numbers.items()},
        }

    def _names(self, predicted: Labels) -> list[list[str]]:
        names = [*self.labels, self.scheme.missing]  # of -1
        return [[names[i] for i in row.tolist()] for row in predicted]

    def notes(self, held_out: Sequence[HeldOut], chosen: Mapping[str, object]) -> dict[str, object]:
        """Return the notes of an evaluation."""
        notes: dict[str, object] = {
            "selection": self.options.selection,
            "steps": chosen,
            "sentences": {held.place: len(held.rows) for held in held_out},
            "seen_in_training": noted(held_out, lambda held: int(held.seen.sum())),
            "tags_not_in_training": noted(
                held_out, lambda held: sorted(held.rows.tags() - {*self.labels})
            ),
        }
        notes |= noted(held_out, lambda held: held.rows.note)
        return notes | self.warning("weights were")


class SentenceBatches(Batches):
    """Sentences that have words with a piece, as a tagger reads them."""

    def __init__(
        self, model: Tagger, placed: Placed, labels: Sequence[np.ndarray], n_words: int
    ) -> None:
        """`labels` are those of the words of `placed`, `n_words` is the number of all words."""
        lengths = [len(words) for words in placed.words]
        usable = np.flatnonzero(lengths)
        counted = {"words": n_words, "words_left_out": n_words - sum(lengths)}
        offsets = np.arange(len(usable) + 1)
        super().__init__(model, placed.rows, labels, usable, offsets, counted)
        self.placed = placed

    def units(self, rows: np.ndarray) -> int:
        """Return the number of words, or of sentences."""
        return int(self.model.units(self.placed, self.members[rows]))

    def lay_out(self, rows: np.ndarray) -> tuple[Any, list[np.ndarray]]:
        """Return sentences, and the labels of their words."""
        chosen = self.members[rows]
        return self.model.lay_out(self.placed, chosen), [self.gold[i] for i in chosen]
