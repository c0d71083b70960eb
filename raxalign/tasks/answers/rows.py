"""Questions with their contexts and answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from raxalign.corpora.phrases.rows import read
from raxalign.corpora.readers.hub import check_columns, load_rows
from raxalign.corpora.readers.inspection import Report, refuse
from raxalign.errors import DataError
from raxalign.tasks.transfer.params import HubSet
from raxalign.tasks.transfer.rows import TaskRows


@dataclass(frozen=True)
class Answer:
    """A gold answer; `start` is where the context has it, in characters."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """One question on a context; `context_number` counts the different contexts of the source from
    0. `id` names it in the source (None: another question has the same name).
    """

    id: str | None
    question: str
    context: str
    context_number: int
    answers: Sequence[Answer]
    line: ClassVar[None] = None

    def texts(self) -> tuple[str, ...]:
        """Return the texts by which a copy is recognised."""
        return self.question, self.context

    def placed(self) -> Answer | None:
        """Return the first answer that stands where it says it does."""
        for answer in self.answers:
            end = answer.start + len(answer.text)
            if answer.text and self.context[answer.start : end] == answer.text:
                return answer
        return None


_Entry = tuple[str, str, str, list[Answer]]
"""(id, question, context, answers) of a question."""


@dataclass(frozen=True)
class Questions(TaskRows[Question]):
    """The questions of one split, in one language or with questions and contexts in two. Those
    without any answer are left out and counted, and so are `misplaced` ones of a training set,
    whose answers do not stand where they say.
    """

    misplaced: int = 0
    noun: ClassVar[str] = "questions"


def answered(questions: Questions) -> Questions:
    """Return the questions with an answer where it says. Raises `DataError` where none has one."""
    rows = [row for row in questions.rows if row.placed()]
    if not rows:
        remedy = "Count characters, not bytes, from the context's first"
        raise DataError(questions.source, "no answer stands at its `answer_start`", remedy=remedy)
    return replace(questions, rows=rows, **misplaced(len(questions), len(rows), questions.remarks))


def misplaced(n: int, placed: int, remarks: Iterable[str]) -> dict[str, Any]:
    """Return what a training set has of `n` questions, some of them `placed`, besides its rows."""
    left = f"{n - placed:,} of {n:,} answers do not stand at their `answer_start` and are left out"
    return {"misplaced": n - placed, "remarks": (*remarks, *([left] if n > placed else []))}


def scored(rows: Questions) -> Questions:
    """Return the questions themselves, to be evaluated. Raises `DataError` where one has no answer
    but an empty text, with which no prediction can agree.
    """
    blank = [row.id for row in rows.rows if not any(answer.text.strip() for answer in row.answers)]
    if blank:
        told = f"{len(blank):,} of {len(rows):,} questions have an empty answer, {blank[0]} the"
        remedy = (
            "Take the data set's own file, which has the answers (XTREME's test files have them"
            " removed)"
        )
        raise DataError(rows.source, f"{told} first", remedy=remedy)
    return rows


def crossed(questions: Questions, contexts: Questions) -> Questions:
    """Return the questions of one language on the contexts of another, with the answers there:
    those whose id both have, in the contexts' order.

    Raises `DataError` where there are none.
    """
    asked = {row.id: row.question for row in questions.rows}
    rows = [replace(row, question=asked[row.id]) for row in contexts.rows if row.id in asked]
    if not rows:
        told = f"shares no question's id with {contexts.source}"
        remedy = "Both must be parts of one parallel set"
        raise DataError(questions.source, told, remedy=remedy)
    return Questions(f"{questions.source} on {contexts.source}", rows)


def read_squad(path: Path, report: Report = refuse, *, named: bool = True) -> Questions:
    """Read the questions of a JSON file: ``data[].paragraphs[]`` of `context` and `qas[]`, these of
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


def _entries(path: Path, document: Any) -> Iterator[_Entry]:
    at = "data"
    try:
        for number, article in enumerate(document["data"]):
            for p, paragraph in enumerate(article["paragraphs"]):
                at = f"data[{number}].paragraphs[{p}]"
                context = str(paragraph["context"])
                for q, entry in enumerate(paragraph["qas"]):
                    at = f"data[{number}].paragraphs[{p}].qas[{q}]"
                    found = [] if entry.get("is_impossible") else entry["answers"]
                    answers = [Answer(str(a["text"]), int(a["answer_start"])) for a in found]
                    yield str(entry["id"]), str(entry["question"]), context, answers
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        lacks = f"there is no {error}" if isinstance(error, KeyError) else "of another shape"
        told = f"{at}: is not in SQuAD's format ({lacks})"
        remedy = (
            "A file is {data: [{paragraphs: [{context, qas: [{id, question, answers: [{text,"
            " answer_start}]}]}]}]}"
        )
        raise DataError(path, told, remedy=remedy) from error


def _collect(
    source: str, entries: Iterable[_Entry], report: Report = refuse, *, named: bool = True
) -> Questions:
    contexts, ids, unanswerable = dict[str, int](), set[str](), 0
    n_bytes = 0
    rows: list[Question] = []
    for name, question, context, answers in entries:
        if named and name in ids:
            report(DataError(source, f"two questions have the id {name}"))
            continue
        number = contexts.setdefault(context, len(contexts))
        if answers:
            ids.add(name)
            found = [_by_characters(answer, context) for answer in answers]
            n_bytes += found != answers
            rows.append(Question(name, question, context, number, tuple(found)))
        else:
            unanswerable += 1
    if not rows:
        raise DataError(source, "has no question with an answer")
    if len(ids) < len(rows):
        rows = [replace(row, id=None) for row in rows]
    told = f"the answers to {n_bytes:,} questions stand at bytes, not characters, and are read so"
    return Questions(source, rows, unanswerable, remarks=(told,) if n_bytes else ())


def _by_characters(answer: Answer, context: str) -> Answer:
    """The answer by its place in characters, where it is not there but at that byte, or 16-bit
    unit, of the context.
    """
    if answer.start < 0 or context.startswith(answer.text, answer.start):
        return answer
    for code, size in (("utf-8", 1), ("utf-16-le", 2)):
        text, own = (part.encode(code, "surrogatepass") for part in (context, answer.text))
        if text.startswith(own, start := answer.start * size):
            return Answer(answer.text, len(text[:start].decode(code, "surrogatepass")))
    return answer


def read_hub(found: HubSet, split: str, cache: Path | None, *, named: bool = True) -> Questions:
    """Read the questions of a hub data set (or of a local copy of its repository) in SQuAD's
    columns. Raises `DataError`, for an id that comes twice too where questions have to be `named`,
    or `TransientError`.
    """
    where = f"{found.dataset}/{found.config}:{split}"
    table = load_rows(found.dataset, found.config, split, found.revision, cache)
    check_columns(where, table, ("id", "question", "context", "answers"))

    def entries() -> Iterator[_Entry]:
        for number, row in enumerate(table, 1):
            if not str(row["id"]).startswith(found.part):
                continue
            given = row["answers"]
            try:
                pairs = zip(given["text"], given["answer_start"], strict=True)
                answers = [Answer(str(text), int(start)) for text, start in pairs]
            except (KeyError, TypeError, ValueError) as error:
                told = "column answers has no lists `text` and `answer_start` of one length"
                raise DataError(where, told, line=number) from error
            yield row["id"], row["question"], row["context"], answers

    return _collect(where, entries(), named=named)


def read_phrasebook(n: int, lang: str, split: str, source: str) -> Questions:
    """Read the first n questions of the phrasebook; their ids are the same in all languages."""
    entries = (
        (f"{split}-{number}", question, context, [Answer(answer, int(start))])
        for number, ((context, question, answer, start),) in enumerate(
            read("mlqa", split, (lang,), range(n))
        )
    )
    return _collect(source, entries)
