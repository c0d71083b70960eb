"""The heads of labels, and of questions on a passage with four answers: how examples are read, and
which classifier reads them, with its scores.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from raxalign.arrays import Ints, offsets_of
from raxalign.corpora.readers.columns import read_objects, read_records
from raxalign.corpora.readers.inspection import FileRead, Refusals, Report, read_through, refuse
from raxalign.corpora.text.words import Sentence, in_text, tokenize, within_text
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import Pieces, token_batches
from raxalign.encoders.models.rows import Packed, RowSource
from raxalign.encoders.models.static import StaticEncoder
from raxalign.encoders.models.transformer import evaluating
from raxalign.errors import DataError
from raxalign.lazy import pa
from raxalign.options.sources import differs_by_language
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classifiers.examples import Example, Examples
from raxalign.tasks.transfer.head import Batches, FineTuned, Head, HeldOut, TaskModel
from raxalign.tasks.transfer.params import HubSet, Split
from raxalign.tasks.transfer.rows import TaskRows
from raxalign.train.devices import on_device
from raxalign.train.group import shared

_Texts = Sequence[Sequence[str]] | Pieces
ROWS = 512
"""Examples that are classified together outside training, over word vectors."""


class Classifier(TaskModel):
    """What both classifiers do. `rows` divides texts, or first and second texts, in their
    languages, one row per example, and `join` puts such rows end to end; `logits` (rows, labels)
    have a gradient, `probabilities` are on the CPU, in eval mode.
    """

    rows: Any
    join: Any
    probabilities: Any

    def loss(self, rows: Any, labels: np.ndarray) -> torch.Tensor:
        """Return the summed cross-entropy of examples."""
        return self.summed_loss(self.logits(rows), labels)


@dataclass(frozen=True)
class ClassifiedRows:
    """Rows as the encoder reads them, and the place of the piece of each that the head reads."""

    layout: Packed
    places_B: np.ndarray


class SentenceClassifier(Classifier, FineTuned):
    """Classifier whose head reads [CLS], or the last piece of a decoder; the transforms of that
    piece's language apply to it.
    """

    replays = True

    @property
    def width(self) -> int:
        """Return how many labels there are."""
        return self.head.out_features

    def rows(self, texts: Sequence[_Texts], langs: Sequence[str]) -> RowSource:
        """Divide sentences, or the first and second sentences of pairs, into pieces, one row per
        example; of a pair that is too long the longer sentence is cut first.
        """
        made = [side for side in texts if isinstance(side, Pieces)]
        if made:
            return TaskRows.encoded(self.encoder, made)
        plain = [side for side in texts if not isinstance(side, Pieces)]
        second = plain[1] if plain[1:] else None
        return self.encoder.pieces(plain[0], langs[0], second, langs[-1])

    join = staticmethod(RowSource.join)

    def lay_out(self, rows: RowSource, chosen: np.ndarray | None = None) -> ClassifiedRows:
        """Return some rows as the classifier reads them. The device has no part in it."""
        found = self.packed(rows.take(chosen))
        places_B = self.encoder.inputs.summary_places(found.starts_S, found.lengths_S)
        return ClassifiedRows(found, places_B)

    def lengths(self, rows: RowSource) -> np.ndarray:
        """Return the pieces of each example."""
        return rows.lengths

    def logits(self, rows: ClassifiedRows) -> torch.Tensor:
        """Return logits (rows, labels); gradient flows, dropout follows the mode."""
        states_FH = self.aligned.packed_hidden(rows.layout)
        read_BH = states_FH[on_device(rows.places_B, states_FH.device)]
        logits: torch.Tensor = self.head(self.dropout(read_BH))
        return logits

    @torch.no_grad()
    def probabilities(self, rows: RowSource) -> torch.Tensor:
        """Return probabilities (rows, labels) on the CPU, in input order; eval mode."""

        def of_batch(chosen: np.ndarray) -> torch.Tensor:
            logits: torch.Tensor = self(rows, chosen)
            return logits.float().softmax(1).cpu()

        lengths = self.lengths(rows)
        found = torch.empty(len(lengths), self.width)
        batches = token_batches(lengths, self.encoder.batch_tokens)
        with evaluating(self):
            for chosen, part in shared(batches, of_batch):
                found[torch.from_numpy(chosen)] = part
        return found


TextRow = tuple[tuple[str, Sequence[str]], ...]
"""The language and the words of each text of an example (one or two)."""


def text_features(texts_BTH: torch.Tensor) -> torch.Tensor:
    """The features of B examples of T texts: the vector of a single text (B, H); of two texts p and
    h, [p; h; |p - h|; p * h] (B, 4H).

    >>> text_features(torch.tensor([[[1.0, 2.0], [3.0, 1.0]]])).tolist()
    [[1.0, 2.0, 3.0, 1.0, 2.0, 1.0, 3.0, 2.0]]
    """
    if texts_BTH.shape[1] == 1:
        return texts_BTH[:, 0]
    p_BH, h_BH = texts_BTH.unbind(1)
    return torch.cat([p_BH, h_BH, (p_BH - h_BH).abs(), p_BH * h_BH], dim=1)


class WordClassifier(Classifier):
    """Classifier with one hidden layer (ReLU, dropout) over the features of the texts.

    The vector of a text is the mean of its words' vectors, the transforms of its language applied,
    scaled to the length sqrt(H), so that training does not depend on the scale of the vectors.
    Words without a vector are left out; a text without any is zero.
    """

    def __init__(
        self, aligned: AlignedEncoder, shape: tuple[int, int, int], *, dropout: float, seed: int
    ) -> None:
        """`shape`: texts per example, width of the hidden layer, labels."""
        super().__init__()
        n_texts, hidden, n_outputs = shape
        self.aligned = aligned
        self.hidden = nn.Linear(aligned.hidden_size * (1 if n_texts == 1 else 4), hidden)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden, n_outputs)
        generator = torch.Generator().manual_seed(seed)
        for layer in (self.hidden, self.head):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)
        self.to(aligned.device)

    def rows(self, texts: Sequence[_Texts], langs: Sequence[str]) -> list[TextRow]:
        """Divide texts, or first and second texts, into words as corpora are divided (in scripts
        without blanks, into characters), one row per example.
        """
        divided = []
        for code, side in zip(langs, texts, strict=False):
            assert not isinstance(side, Pieces), "only tokenizers make subword tokens"
            words = tokenize(code)
            running = [in_text(text, None).text for text in side]
            divided.append([(code, within_text(words, text)) for text in running])
        return list(zip(*divided, strict=True))

    @staticmethod
    def join(parts: Sequence[list[TextRow]]) -> list[TextRow]:
        """Return the rows of several parts, one part after the other."""
        return [row for part in parts for row in part]

    def lay_out(
        self, rows: Sequence[TextRow], chosen: np.ndarray | None = None
    ) -> Sequence[TextRow]:
        """Return rows as they are: their words are looked up where they are classified."""
        return rows if chosen is None else [rows[i] for i in chosen]

    def logits(self, rows: Sequence[TextRow]) -> torch.Tensor:
        """Return logits (rows, labels); gradient flows, dropout follows the mode."""
        states_BF = self.hidden(text_features(self.text_vectors(rows))).relu()
        logits: torch.Tensor = self.head(self.dropout(states_BF))
        return logits

    @torch.no_grad()
    def text_vectors(self, rows: Sequence[TextRow]) -> torch.Tensor:
        """Return the vectors of the texts (rows, texts, H)."""
        n_texts, width = len(rows[0]), self.aligned.hidden_size
        spoken: dict[str, list[tuple[int, Sequence[str]]]] = defaultdict(list)
        for b, row in enumerate(rows):
            for t, (lang, words) in enumerate(row):
                spoken[lang].append((b * n_texts + t, words))
        sums_TH = torch.zeros(len(rows) * n_texts, width, device=self.aligned.device)
        for lang, texts in spoken.items():
            found = self.aligned.words([words for _, words in texts], lang)
            places = [place for place, words in texts for _ in words]
            # Absent words are zero, and the length of the sum does not matter.
            sums_TH.index_add_(
                0, torch.tensor(places, device=sums_TH.device).long(), found.vectors_NLH[:, -1]
            )
        units_TH = torch.nn.functional.normalize(sums_TH, dim=-1)
        return (units_TH * math.sqrt(width)).view(len(rows), n_texts, width)

    @torch.no_grad()
    def probabilities(self, rows: Sequence[TextRow]) -> torch.Tensor:
        """Return probabilities (rows, labels) on the CPU, in input order, in eval mode."""
        with evaluating(self):
            parts = [
                self(rows[start : start + ROWS]).float().softmax(1).cpu()
                for start in range(0, len(rows), ROWS)
            ]
        return torch.cat([torch.empty(0, self.head.out_features), *parts])


_PHRASEBOOK_SEED = 0
"""The examples are data: they do not change with the seed of a trial."""

_SHOWN = 5
"""So many labels are shown in a message."""


class LabelHead(Head):
    """Examples, a classifier, and its probabilities (examples, labels)."""

    rows = Examples
    model: ClassVar[Any] = SentenceClassifier
    static_hidden: ClassVar[int] = 300
    """Width of the hidden layer of the classifier over word vectors."""
    static_rate: ClassVar[float] = 1e-3
    """Its learning rate at the end of the warm-up: the task's own is that of fine-tuning."""

    def __init__(self, task: Any, inputs: TaskInputs) -> None:
        super().__init__(task, inputs)
        self.scheme = task.scheme()
        self.allowed = 0.5 if task.repeats else 0.0
        self.known = set[str]()

    def read_local(self, split: Split, lang: str, report: Report = refuse) -> Examples:
        """Read a local file."""
        alone = differs_by_language(getattr(self.params.data, split)) or lang == self.pivot
        path = self.data.path(split, lang)
        return Examples.of_file(path, (lang, split), self.scheme, report, alone=alone)

    def read_hub(self, found: HubSet, split: Split) -> Examples:
        """Read a split of a data set of the hub."""
        return Examples.of_hub(found, split, self.scheme, self.inputs.downloads)

    def read_phrasebook(self, split: Split, lang: str, source: str) -> Examples:
        """Read examples of the phrasebook."""
        n: int = self.params.identity()["phrasebook"][split]
        paired = bool(self.scheme.columns.second)
        made = enumerate(self.task.phrasebook(n, lang, split, _PHRASEBOOK_SEED), 1)
        rows = (
            Example(" ".join(first), " ".join(second) if paired else None, label, i)
            for i, (first, second, label) in made
        )
        return Examples.of_rows(source, rows)

    def check(self, rows: Examples, *, trained: bool) -> Examples:
        """Return the examples; remember the labels of those that are trained on. Raises `DataError`
        where none of the others has one of these, by which the task's labels are known.
        """
        found = rows.label_names()
        if trained:
            self.known |= {*found}
            return rows
        known = {*self.labels} or self.known
        if known and not self.scheme.labels and not known & {*found}:
            own, others = (", ".join(sorted(names)[:_SHOWN]) for names in (found, known))
            told = f"has the labels {own}, but the training data has {others}"
            remedy = "Labels are the same in all languages: write the training data's names"
            line = int(rows.table["line"][0].as_py())
            raise DataError(rows.source, told, line=line, remedy=remedy)
        return rows

    def compare(
        self,
        trained: Sequence[str],
        read: Mapping[tuple[Split, str], Any],  # noqa: ARG002
    ) -> Iterator[FileRead]:
        """Compare training files with the pivot's, line by line, where languages are mixed."""
        if self.task.mixing != "sentence" or not trained:
            return
        pivot = self.data.training(self.pivot)
        for lang in trained:
            if lang != self.pivot:

                def same(_: Report, lang: str = lang) -> int:
                    self.data.training(lang).counterparts(pivot, whole=True)
                    return 0

                yield read_through(self.data.path("train", lang), same)

    def new_model(self, aligned: AlignedEncoder, seed: int, *, training: bool = True) -> Classifier:
        """Make a classifier that fits the encoder: fine-tuned, or over static word vectors, whose
        head has a learning rate of its own.
        """
        if not isinstance(aligned.encoder, StaticEncoder):
            made: Classifier = super().new_model(aligned, seed, training=training)
            return made
        dropout, texts = self.params.dropout if training else 0.0, self.scheme.columns.texts
        self.options = self.params.model_copy(update={"learning_rate": self.static_rate})
        shape = (len(texts), self.static_hidden, len(self.labels))
        return WordClassifier(aligned, shape, dropout=dropout, seed=seed)

    def labels_of(self, rows: Sequence[Examples]) -> tuple[str, ...]:
        """Return the labels of the task, or else those of the training examples, sorted. Raises
        `DataError` where there are fewer than two.
        """
        found = self.scheme.labels or tuple(
            sorted({label for examples in rows for label in examples.label_names()})
        )
        if len(found) < 2:
            source = ", ".join(examples.source for examples in rows)
            told = f"has the label {', '.join(found)} alone"
            raise DataError(source, told, remedy="A classifier needs two labels at least")
        return found

    def batches(self, model: Classifier, given: Mapping[str, Examples]) -> Batches:
        """Return the training examples as the classifier reads them, by units of one example or,
        where languages are mixed, two.
        """
        # The phrasebook's examples that are evaluated too were left out, and those without a text:
        # others in each language.
        lost = any(rows.said or rows.left_out[Examples.TEXTLESS] for rows in given.values())
        whole = self.params.data != "phrasebook" and not lost
        parts = Examples.parts(given, self.labels, self.pivot, self.task.mixing, whole=whole)
        pieces = [model.rows(part.texts, part.langs) for part in parts]
        units, numbers = (
            np.concatenate(found)
            for found in zip(*((part.units, part.numbers) for part in parts), strict=True)
        )
        members, offsets = np.argsort(units, kind="stable"), offsets_of(np.bincount(units))
        counted = {"examples": len(numbers)}
        counted["without_counterpart"] = sum(map(len, given.values())) - len(offsets) + 1
        return Batches(model, model.join(pieces), numbers, members, offsets, counted)

    def notes_of_training(
        self, given: Mapping[str, Examples], counts: Sequence[Mapping[str, int]]
    ) -> dict[str, object]:
        """Return the numbers of examples."""
        rows = {lang: len(examples) for lang, examples in given.items()}
        unlabelled = sum(examples.left_out[Examples.UNLABELLED] for examples in given.values())
        notes: dict[str, object] = {"rows": sum(rows.values()), "unlabelled": unlabelled}
        if [*given] == [self.pivot]:
            return notes
        examples, lost = (
            sum(count.get(name, 0) for count in counts)
            for name in ("examples", "without_counterpart")
        )
        own = {"examples": examples, "without_counterpart": lost}
        return {**notes, "rows_by_language": rows, **own}

    def inputs_of(self, model: Classifier, held: HeldOut) -> Sequence[Any]:
        """Return held-out examples as the classifier reads them."""
        texts = [held.rows.texts(name) for name in held.rows.text_names]
        rows: Sequence[Any] = model.rows(texts, held.langs)
        return rows

    def predict(self, model: Classifier, inputs: Sequence[Any]) -> np.ndarray:
        """Return the probabilities of labels."""
        found: np.ndarray = model.probabilities(inputs).numpy()
        return found

    def measure(self, held: HeldOut, predicted: np.ndarray) -> dict[str, float]:
        """Return the accuracy, and the main metric."""
        gold, found = held.rows.numbers(self.labels), predicted.argmax(1)
        values: dict[str, float] = self.task.scored(gold, found)
        return values

    def columns(self, held: HeldOut, predicted: np.ndarray) -> dict[str, Any]:
        """Return labels, predicted ones, and a column of probabilities per label. The column of
        the task's `unit` numbers what is resampled together: the groups of the data set, or else
        the first texts.
        """
        number, rows = dict[str, int](), list(held.rows.rows)
        units = [number.setdefault(row.group or row.first, len(number)) for row in rows]
        columns = {
            "id": pa.array(range(len(rows)), pa.int64()),
            self.task.unit: pa.array(units, pa.int64()),
            "label": pa.array([row.label for row in rows], pa.string()),
            "predicted": pa.array([self.labels[i] for i in predicted.argmax(1)], pa.string()),
        }
        if self.task.repeats:
            columns["seen"] = pa.array(held.seen.tolist(), pa.bool_())
        taken = {"lang", "split", "toward", self.point, *columns}
        for i, label in enumerate(self.labels):
            name = f"probability of {label}" if label in taken else label
            columns[name] = pa.array(predicted[:, i], pa.float32())
            taken.add(name)
        return columns

    def notes(self, held_out: Sequence[HeldOut], chosen: Mapping[str, object]) -> dict[str, object]:
        """Return the notes of an evaluation."""
        notes, known = super().notes(held_out, chosen), {*self.labels}
        notes["unlabelled"] = HeldOut.noted(
            held_out, lambda held: held.rows.left_out[Examples.UNLABELLED]
        )
        if not self.scheme.labels:
            notes["labels"] = list(self.labels)
            notes["labels_not_in_training"] = HeldOut.noted(
                held_out, lambda held: sorted({*held.rows.label_names()} - known)
            )
        if self.task.repeats:
            notes["seen_in_training"] = HeldOut.noted(held_out, lambda held: int(held.seen.sum()))
        return notes


LABELS = ("1", "2", "3", "4")
"""The places of the answers."""
_PASSAGES = ("flores_passage", "passage", "article")
_RIGHT = ("correct_answer_num", "answer")
_COLUMNS = "flores_passage (or passage, article), question, mc_answer1 to mc_answer4 (or answer1 to"
_COLUMNS += " answer4, or options) and correct_answer_num (or answer)"


@dataclass(frozen=True)
class ChoiceQuestion:
    """A question on a passage (`first`), its four answers, and the place of the right one; `line`
    is its 1-based line or row in the source.
    """

    first: str
    question: str
    answers: tuple[str, ...]
    label: str
    line: int
    id: ClassVar[None] = None
    group: ClassVar[None] = None

    def texts(self) -> tuple[str, ...]:
        """Return the texts by which a copy is recognised."""
        return self.first, self.question, *self.answers


@dataclass(frozen=True)
class ChoiceQuestions(TaskRows[ChoiceQuestion]):
    """The questions of one language and split."""

    noun: ClassVar[str] = "questions"

    def label_names(self) -> list[str]:
        """Return the places that right answers have."""
        return list(dict.fromkeys(row.label for row in self.rows))

    def numbers(self, labels: Sequence[str]) -> Ints:
        """Return the place of each right answer among `labels`."""
        return np.array([labels.index(row.label) for row in self.rows], np.int64)


def question_of(where: str, line: int, row: Mapping[str, Any]) -> ChoiceQuestion:
    """Return a row of Belebele, of its training set or of RACE. Raises `DataError`."""
    passage = next((row[name] for name in _PASSAGES if name in row), None)
    right = next((str(row[name]).strip() for name in _RIGHT if name in row), None)
    answers = row.get("options")
    if answers is None:
        names = next((n for n in ("mc_answer", "answer") if f"{n}1" in row), "answer")
        answers = [row[f"{names}{i}"] for i in LABELS if f"{names}{i}" in row]
    if passage is None or right is None or "question" not in row or not answers:
        told = f"has the columns {', '.join(row)}"
        raise DataError(where, told, line=line, remedy=f"The columns are {_COLUMNS}")
    texts = tuple(str(answer) for answer in answers)
    if len(texts) != len(LABELS):
        told = f"{len(texts)} answers, expected {len(LABELS)}"
        raise DataError(where, told, line=line, remedy="Leave such questions out")
    label = {"A": "1", "B": "2", "C": "3", "D": "4"}.get(right, right)
    if label not in LABELS:
        told = f"{right!r} is not the place of an answer"
        raise DataError(where, told, line=line, remedy="Write 1 to 4, or A to D")
    return ChoiceQuestion(str(passage), str(row["question"]), texts, label, line)


def read_choices(path: Path, report: Report = refuse) -> ChoiceQuestions:
    """Read a local file: one JSON object per line (.jsonl), or columns with a header. Faults of a
    line go to `report`.
    """
    if not path.is_file():
        raise DataError(path, "there is no such file")
    refused = Refusals(report)
    rows = list(_questions(path, refused))
    if not rows and not refused.count:
        raise DataError(path, "has no questions")
    return ChoiceQuestions(str(path), rows)


def _questions(path: Path, refused: Refusals) -> Iterator[ChoiceQuestion]:
    objects = path.suffix in (".jsonl", ".json", ".ndjson")
    for line, row in read_objects(path, refused) if objects else read_records(path, refused):
        try:
            yield question_of(str(path), line, row)
        except DataError as fault:
            refused(fault)


class ChoiceClassifier(SentenceClassifier):
    """Classifier whose head gives the piece that it reads of each answer's row one logit; the
    answers of a question are what it chooses among.
    """

    width = len(LABELS)

    def questions(self, rows: Sequence[ChoiceQuestion], lang: str) -> RowSource:
        """Divide questions into pieces, a row per answer; of one that is too long the passage is
        cut.
        """
        passages = [Sentence.of_text(row.first) for row in rows for _ in row.answers]
        asked = [Sentence.of_text(f"{row.question} {a}") for row in rows for a in row.answers]
        return self.encoder.pieces(passages, lang, asked, lang)

    def lengths(self, rows: RowSource) -> np.ndarray:
        """Return the pieces of all answers of each question."""
        return np.asarray(rows.lengths.reshape(-1, len(LABELS)).sum(axis=1))

    def lay_out(self, rows: RowSource, chosen: np.ndarray | None = None) -> ClassifiedRows:
        """Return the rows of all answers of some questions, question by question."""
        if chosen is not None:
            chosen = (chosen[:, None] * len(LABELS) + np.arange(len(LABELS))).reshape(-1)
        return super().lay_out(rows, chosen)

    def logits(self, rows: ClassifiedRows) -> torch.Tensor:
        """Return logits (questions, answers)."""
        return super().logits(rows).view(-1, len(LABELS))


class ChoiceHead(LabelHead):
    """Questions, a classifier of their answers, and its probabilities (questions, answers)."""

    model, n_outputs = ChoiceClassifier, 1

    def read_local(  # type: ignore[override]
        self, split: Split, lang: str, report: Report = refuse
    ) -> ChoiceQuestions:
        """Read a local file."""
        return read_choices(self.data.path(split, lang), report)

    def read_hub(self, found: HubSet, split: Split) -> ChoiceQuestions:  # type: ignore[override]
        """Read a split of a data set of the hub."""
        where, table = found.read(split, self.inputs.downloads)
        rows = [question_of(where, i, row) for i, row in enumerate(table, 1)]
        return ChoiceQuestions(where, rows)

    def batches(  # type: ignore[override]
        self, model: ChoiceClassifier, given: Mapping[str, ChoiceQuestions]
    ) -> Batches:
        """Return the training questions as the classifier reads them, each a unit."""
        rows = model.join([model.questions(part.rows, lang) for lang, part in given.items()])
        gold = np.concatenate([part.numbers(self.labels) for part in given.values()])
        n = len(gold)
        return Batches(model, rows, gold, np.arange(n), np.arange(n + 1), {"examples": n})

    def inputs_of(  # type: ignore[override]
        self, model: ChoiceClassifier, held: HeldOut
    ) -> RowSource:
        """Return held-out questions as the classifier reads them."""
        return model.questions(held.rows.rows, held.langs[0])
