"""Questions on a passage with four answers, one of which is right: rows, readers, model, head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from raxalign.arrays import Ints
from raxalign.corpora.readers.columns import read_objects, read_records
from raxalign.corpora.readers.inspection import Refusals, Report, refuse
from raxalign.encoders.models.rows import RowSource
from raxalign.errors import DataError
from raxalign.lazy import np, torch
from raxalign.running import Sentence
from raxalign.tasks.classifiers.head import ClassifiedRows, LabelHead, SentenceClassifier
from raxalign.tasks.transfer.head import Batches, HeldOut
from raxalign.tasks.transfer.params import HubSet, Split
from raxalign.tasks.transfer.rows import TaskRows

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
