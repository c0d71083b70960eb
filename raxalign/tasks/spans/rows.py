"""Questions with their contexts and answers: from SQuAD's JSON format, the hub or the
phrasebook.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from raxalign.corpora.readers.hub import check_columns, load_rows
from raxalign.corpora.readers.inspection import Report, refuse
from raxalign.errors import DataError
from raxalign.tasks.transfer.fingerprints import among, fingerprint, normal


@dataclass(frozen=True)
class Answer:
    """A gold answer; `start` is where the context has it, in characters."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """One question on a context; `context_number` counts the different contexts of the source from
    0.
    """

    id: str
    question: str
    context: str
    context_number: int
    answers: Sequence[Answer]

    def placed(self) -> Answer | None:
        """The first answer that stands where it says it does."""
        return next(
            (
                a
                for a in self.answers
                if a.text and self.context[a.start : a.start + len(a.text)] == a.text
            ),
            None,
        )


@dataclass(frozen=True)
class Questions:
    """The questions of one split, in one language or with questions and contexts in two; those
    without any answer are left out and counted. `named` is whether each has an id of its own.
    """

    source: str
    rows: Sequence[Question]
    unanswerable: int = 0
    named: bool = True

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def total(self) -> int:
        """How many questions the source has that have an answer."""
        return len(self.rows)

    def first(self, n: int | None) -> Questions:
        """The first n of them."""
        return replace(self, rows=self.rows[:n])

    def fingerprints(self) -> npt.NDArray[np.int64]:
        """A hash of each question with its context, then of each id where ids name questions."""
        texts = [
            fingerprint("text", normal(row.question), normal(row.context)) for row in self.rows
        ]
        ids = [fingerprint("id", row.id) for row in self.rows] if self.named else []
        return np.array(texts + ids, dtype=np.int64)


def answered(questions: Questions) -> Questions:
    """The questions with an answer that stands where it says. Raises `DataError` where there are
    none.
    """
    kept = replace(questions, rows=[row for row in questions.rows if row.placed()])
    if not len(kept):
        raise DataError(
            kept.source,
            "no answer stands at its `answer_start`",
            remedy="Count characters, not bytes, from the context's first",
        )
    return kept


def scored(questions: Questions) -> Questions:
    """The questions themselves, to be evaluated. Raises `DataError` where one has no answer but an
    empty text, with which no prediction can agree.
    """
    blank = [
        row.id for row in questions.rows if not any(answer.text.strip() for answer in row.answers)
    ]
    if blank:
        raise DataError(
            questions.source,
            f"{len(blank):,} of {len(questions):,} questions have an empty answer, {blank[0]} the"
            " first",
            remedy=(
                "Take the data set's own file, which has the answers (XTREME's test files have them"
                " removed)"
            ),
        )
    return questions


def crossed(questions: Questions, contexts: Questions) -> Questions:
    """The questions of one language on the contexts of another, with the answers there: those whose
    id both have, in the contexts' order.

    Raises `DataError` where there are none.
    """
    asked = {row.id: row.question for row in questions.rows}
    rows = [replace(row, question=asked[row.id]) for row in contexts.rows if row.id in asked]
    if not rows:
        raise DataError(
            questions.source,
            f"shares no question's id with {contexts.source}",
            remedy="Both must be parts of one parallel set",
        )
    return Questions(f"{questions.source} on {contexts.source}", rows)


def refuse_overlap(trained: npt.NDArray[np.int64], evaluated: Questions) -> None:
    """Raises `DataError` where a question that is evaluated was trained on; `trained` are
    fingerprints, sorted or not.
    """
    known = among(evaluated.fingerprints(), trained).reshape(2, -1)
    if known.any():
        hits = np.flatnonzero(known.any(axis=0))
        same = "text" if known[0].any() else "id"
        told = (
            f"{len(hits)} of {len(evaluated)} questions are training rows too (the same {same}),"
            f" {evaluated.rows[hits[0]].id} the first"
        )
        raise DataError(
            evaluated.source,
            told,
            remedy="Take them out of the training file, or evaluate on another one",
        )


def read_squad(path: Path, report: Report = refuse, *, named: bool = True) -> Questions:
    """The questions of a JSON file: ``data[].paragraphs[]`` of `context` and `qas[]`, these of
    `id`, `question` and `answers[]` (`text`, `answer_start` in characters).

    Raises `DataError` with the place for a file that is not such JSON, or has no question with an
    answer; an id that comes twice goes to `report` where questions have to be `named`.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DataError(path, "there is no such file") from None
    except UnicodeDecodeError as error:
        raise DataError(path, f"is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise DataError(path, f"is not JSON ({error.msg})", line=error.lineno) from None
    return _collect(str(path), _entries(path, document), report, named=named)


def _entries(path: Path, document: Any) -> Iterator[tuple[str, str, str, list[Answer]]]:
    """(id, question, context, answers) of every question."""
    at = "data"
    try:
        for a, article in enumerate(document["data"]):
            for p, paragraph in enumerate(article["paragraphs"]):
                at = f"data[{a}].paragraphs[{p}]"
                context = str(paragraph["context"])
                for q, entry in enumerate(paragraph["qas"]):
                    at = f"data[{a}].paragraphs[{p}].qas[{q}]"
                    found = [] if entry.get("is_impossible") else entry["answers"]
                    answers = [
                        Answer(str(answer["text"]), int(answer["answer_start"])) for answer in found
                    ]
                    yield str(entry["id"]), str(entry["question"]), context, answers
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        lacks = f"there is no {error}" if isinstance(error, KeyError) else "of another shape"
        told = f"{at}: is not in SQuAD's format ({lacks})"
        raise DataError(
            path,
            told,
            remedy=(
                "A file is {data: [{paragraphs: [{context, qas: [{id, question, answers: [{text,"
                " answer_start}]}]}]}]}"
            ),
        ) from error


def _collect(
    source: str,
    entries: Iterable[tuple[str, str, str, list[Answer]]],
    report: Report = refuse,
    *,
    named: bool = True,
) -> Questions:
    contexts: dict[str, int] = {}
    rows: list[Question] = []
    ids: set[str] = set()
    unanswerable = 0
    for name, question, context, answers in entries:
        if named and name in ids:
            report(DataError(source, f"two questions have the id {name}"))
            continue
        number = contexts.setdefault(context, len(contexts))
        if answers:
            ids.add(name)
            rows.append(Question(name, question, context, number, tuple(answers)))
        else:
            unanswerable += 1
    if not rows:
        raise DataError(source, "has no question with an answer")
    return Questions(source, rows, unanswerable, named=len(ids) == len(rows))


def read_hub(
    name: str,
    config: str,
    split: str,
    revision: str | None,
    cache: Path | None,
    *,
    named: bool = True,
) -> Questions:
    """The questions of a hub data set (or of a local copy of its repository) in SQuAD's columns.
    Raises `DataError`, for an id that comes twice too where questions have to be `named`, or
    `TransientError`.
    """
    where = f"{name}/{config}:{split}"
    table = load_rows(name, config, split, revision, cache)
    check_columns(where, table, ("id", "question", "context", "answers"))
    rows = (_hub_entry(where, number, row) for number, row in enumerate(table, 1))
    return _collect(where, rows, named=named)


def _hub_entry(
    where: str, number: int, row: Mapping[str, Any]
) -> tuple[str, str, str, list[Answer]]:
    found = row["answers"]
    try:
        answers = [
            Answer(str(text), int(start))
            for text, start in zip(found["text"], found["answer_start"], strict=True)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            where,
            "column answers has no lists `text` and `answer_start` of one length",
            line=number,
        ) from error
    return row["id"], row["question"], row["context"], answers


def read_phrasebook(n: int, lang: str, split: str) -> Questions:
    """The first n questions of the phrasebook; their ids are the same in all languages."""
    from raxalign.corpora.phrases.rows import read

    entries = (
        (f"{split}-{number}", question, context, [Answer(answer, int(start))])
        for number, ((context, question, answer, start),) in enumerate(
            read("mlqa", split, (lang,), range(n))
        )
    )
    return _collect(f"phrasebook/{lang}:{split}", entries)
