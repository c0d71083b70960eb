"""Questions with their contexts and answers, and the windows that are read of them."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from raxalign.arrays import offsets_of
from raxalign.caveats import Caveats, LeftOut
from raxalign.corpora.phrasebook import read
from raxalign.corpora.readers.hub import check_columns, load_rows
from raxalign.corpora.readers.inspection import Report, refuse
from raxalign.encoders.models.pieces import Pieces, TextPieces, map_array
from raxalign.encoders.models.rows import RowSource, Sentences
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.lazy import np
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
class WindowSizes:
    """In pieces: what a question may have, how far a window starts after the one before, and what
    an answer may have.
    """

    question: int
    stride: int
    answer: int


@dataclass(frozen=True)
class Questions(TaskRows[Question]):
    """The questions of one split, in one language or with questions and contexts in two. Those
    without any answer are left out, and of a training set those whose answers do not stand where
    they say. `sides` are remarks on the two sources where these are of two languages.
    """

    sides: tuple[str, ...] = field(default=(), kw_only=True)
    noun: ClassVar[str] = "questions"
    UNANSWERED: ClassVar = "without an answer"
    MISPLACED: ClassVar = "without an answer that stands at its `answer_start`"
    NOT_IN_BOTH: ClassVar = "in one of the two languages alone"

    @classmethod
    def of_file(cls, path: Path, report: Report = refuse, *, named: bool = True) -> Questions:
        """Read the questions of a JSON file: ``data[].paragraphs[]`` of `context` and `qas[]`,
        these of `id`, `question` and `answers[]` (`text`, `answer_start` in characters).

        Raises `DataError` with the place for a file that is not such JSON, or has no question with
        an answer; an id that comes twice goes to `report` where questions have to be `named`.
        """
        try:
            document = json.loads(path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise DataError(path, "there is no such file") from None
        except UnicodeDecodeError as error:
            raise DataError(path, f"is not UTF-8 (byte {error.start})") from None
        except json.JSONDecodeError as error:
            raise DataError(path, f"is not JSON ({error.msg})", line=error.lineno) from None
        return cls._collect(str(path), _entries(path, document), report, named=named)

    @classmethod
    def of_hub(
        cls, found: HubSet, split: str, cache: Path | None, *, named: bool = True
    ) -> Questions:
        """Read the questions of a hub data set (or of a local copy of its repository) in SQuAD's
        columns. Raises `DataError`, for an id that comes twice too where questions have to be
        `named`, or `TransientError`.
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

        return cls._collect(where, entries(), named=named)

    @classmethod
    def of_phrasebook(cls, n: int, lang: str, split: str, source: str) -> Questions:
        """Read the first n questions of the phrasebook; their ids are the same in all languages."""
        entries = (
            (f"{split}-{number}", question, context, [Answer(answer, int(start))])
            for number, ((context, question, answer, start),) in enumerate(
                read("mlqa", split, (lang,), range(n))
            )
        )
        return cls._collect(source, entries)

    @classmethod
    def _collect(
        cls, source: str, entries: Iterable[_Entry], report: Report = refuse, *, named: bool = True
    ) -> Questions:
        contexts, ids, left = dict[str, int](), set[str](), LeftOut()
        n_bytes = 0
        rows: list[Question] = []
        for name, question, context, answers in entries:
            if named and name in ids:
                report(DataError(source, f"two questions have the id {name}"))
                continue
            number = contexts.setdefault(context, len(contexts))
            if left.keep(answers, cls.UNANSWERED):
                ids.add(name)
                found = [_by_characters(answer, context) for answer in answers]
                n_bytes += found != answers
                rows.append(Question(name, question, context, number, tuple(found)))
        if not rows:
            raise DataError(source, "has no question with an answer")
        if len(ids) < len(rows):
            rows = [replace(row, id=None) for row in rows]
        told = f"the answers to {n_bytes:,} questions stand at bytes, not characters"
        told += ", and are read so"
        return Questions(source, rows, left, said=(told,) if n_bytes else ())

    def answered(self) -> Questions:
        """Return the questions with an answer where it says. Raises `DataError` where none has
        one.
        """
        left = LeftOut(self.left_out)
        rows = [row for row in self.rows if left.keep(row.placed(), self.MISPLACED)]
        if not rows:
            remedy = "Count characters, not bytes, from the context's first"
            raise DataError(self.source, "no answer stands at its `answer_start`", remedy=remedy)
        return replace(self, rows=rows, left_out=left)

    def scored(self) -> Questions:
        """Return the questions themselves, to be evaluated. Raises `DataError` where one has no
        answer but an empty text, with which no prediction can agree.
        """
        blank = [
            row.id for row in self.rows if not any(answer.text.strip() for answer in row.answers)
        ]
        if blank:
            told = f"{len(blank):,} of {len(self):,} questions have an empty answer, {blank[0]} the"
            remedy = (
                "Take the data set's own file, which has the answers (XTREME's test files have them"
                " removed)"
            )
            raise DataError(self.source, f"{told} first", remedy=remedy)
        return self

    def crossed(self, contexts: Questions) -> Questions:
        """Return these questions on the contexts of another language, with the answers there: those
        whose id both have, in the contexts' order. Raises `DataError` where there are none.
        """
        asked, left = {row.id: row.question for row in self.rows}, LeftOut()
        both = [row for row in contexts.rows if left.keep(row.id in asked, self.NOT_IN_BOTH)]
        rows = [replace(row, question=asked[row.id]) for row in both]
        left[self.NOT_IN_BOTH] += len(asked.keys() - {row.id for row in both})
        if not rows:
            told = f"shares no question's id with {contexts.source}"
            remedy = "Both must be parts of one parallel set"
            raise DataError(self.source, told, remedy=remedy)
        sides = (f"{of.source}: {said}" for of in (self, contexts) for said in of.remarks)
        source = f"{self.source} on {contexts.source}"
        return Questions(source, rows, left, sides=tuple(dict.fromkeys(sides)))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said of the questions, and of the two sources that they are from."""
        return (*super().remarks, *self.sides)

    def windows(
        self, encoder: TransformerEncoder, languages: tuple[str, str], sizes: WindowSizes
    ) -> Windows:
        """Return windows over questions and their contexts, whose texts are divided into pieces
        (see `cut_windows`); `languages` are the questions' and the contexts'.
        """
        rows, numbers = self.rows, dict[str, int]()
        context_of = [numbers.setdefault(row.context, len(numbers)) for row in self.rows]
        found = list(TextPieces.read(encoder.tokenizer, list(numbers), languages[1]))
        asked = TextPieces.read(encoder.tokenizer, [row.question for row in rows], languages[0])
        contexts = [found[number] for number in context_of]
        spans = [span_of(row, pieces) for row, pieces in zip(rows, contexts, strict=True)]
        told = Pieces.of([pieces.ids for pieces in found], languages[1])
        given = AskedPieces(
            Pieces.of([pieces.ids for pieces in asked], languages[0]),
            replace(told, chosen=np.array(context_of, np.int64)),
            np.array(spans, np.int32).reshape(-1, 2),
        )
        return Windows(rows, contexts, cut_windows(given, encoder, sizes))

    def training_windows(
        self, encoder: TransformerEncoder, lang: str, sizes: WindowSizes
    ) -> WindowRows:
        """Return the windows of questions in one language that are trained on."""
        return self.windows(encoder, (lang, lang), sizes).windows

    def write(
        self,
        lang: str,
        tokenizer: Any,
        threads: int,  # noqa: ARG002
        folder: Path,
    ) -> dict[str, object]:
        """Write training questions as their pieces, those of the different contexts, and where the
        answers are among these, in one process.
        """
        placed = self.answered().rows
        asking: dict[str, list[int]] = {}
        for number, row in enumerate(placed):
            asking.setdefault(row.context, []).append(number)
        context_of = np.zeros(len(placed), np.int32)
        spans_Q2 = np.full((len(placed), 2), -1, np.int32)

        def contexts() -> Iterator[TextPieces]:
            found = enumerate(TextPieces.read(tokenizer, list(asking), lang))
            for numbers, (context, pieces) in zip(asking.values(), found, strict=True):
                context_of[numbers] = context
                spans_Q2[numbers] = [span_of(placed[number], pieces) for number in numbers]
                yield pieces

        # the trainings that read the pieces count the unknown ones
        with Caveats.collecting() as found:
            asked = TextPieces.read(tokenizer, [row.question for row in placed], lang)
            for name, texts in ((_ASKED, asked), (_CONTEXTS, contexts())):
                _write(folder / name, texts)
        np.save(folder / "spans.npy", spans_Q2)
        np.save(folder / "context_of.npy", context_of)
        np.save(folder / "fingerprints.npy", self.fingerprints())
        counts = {"pieces": found.pieces[lang], "unknown": found.unknown[lang]}
        record = {"source": self.source, "lang": lang, **self.dropped, **counts, "total": len(self)}
        (folder / _RECORD).write_text(json.dumps(record), encoding="utf-8")
        return {"questions": len(placed), "contexts": len(asking), **counts}

    @classmethod
    def prepared(cls, folder: Path, lang: str, source: str | None) -> PreparedQuestions:
        """Return the questions that `write` wrote, mapped."""
        file = folder / _RECORD
        record = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        if record.get("lang") != lang:
            raise cls.no_pieces(folder, f"questions in {lang}")
        spans_Q2, context_of = map_array(folder, "spans"), map_array(folder, "context_of")
        asked, contexts = (_mapped(folder / name, lang) for name in (_ASKED, _CONTEXTS))
        contexts = replace(contexts, chosen=context_of.astype(np.int64))
        given = cls.as_dropped(record, cls.UNANSWERED, record.get("unanswerable", 0))
        if lost := record["total"] - len(spans_Q2):
            given["left_out"][cls.MISPLACED] = lost
        return PreparedQuestions(
            source or record["source"],
            (),
            hashes=map_array(folder, "fingerprints"),
            **given,
            pieces=AskedPieces(asked, contexts, spans_Q2),
            counts=(record["unknown"], record["pieces"]),
        )


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


_RECORD = "questions.json"
_ASKED, _CONTEXTS = "asked", "contexts"


@dataclass(frozen=True)
class AskedPieces:
    """What windows are made of: the pieces of the questions and of their contexts, the chosen ones
    of both in the order of the questions, and the first and the last piece of each answer in its
    context (-1: none is known).
    """

    asked: Pieces
    contexts: Pieces
    spans_Q2: np.ndarray


@dataclass(frozen=True)
class WindowRows:
    """Rows of a question with some pieces of its context. `cuts_S5` has for each the number of its
    question, its first piece of the context, the number of these, and the answer's first and last
    position in the row: (0, 0), the row's first special piece, where it is not whole there.
    """

    rows: RowSource
    cuts_S5: np.ndarray

    def __len__(self) -> int:
        return len(self.cuts_S5)

    def begins(self) -> np.ndarray:
        """Return where the pieces of the context begin in each row."""
        ends = self.rows.lengths - self.rows.sentences.after_pair[1]
        return np.asarray(ends - self.cuts_S5[:, 2])

    def answered(self) -> int:
        """Count the windows that hold the whole answer."""
        return int(self.cuts_S5[:, 3:].any(axis=1).sum())

    def unanswered(self) -> int:
        """Count the questions whose answer no window holds whole."""
        with_answer = self.cuts_S5[self.cuts_S5[:, 3:].any(axis=1), 0]
        return len(np.setdiff1d(self.cuts_S5[:, 0], with_answer))


@dataclass(frozen=True)
class Windows:
    """The windows of some questions, in their order, and the pieces of each question's context."""

    questions: Sequence[Question]
    contexts: Sequence[TextPieces]
    windows: WindowRows

    def report_long(self, label: str, longest: int) -> None:
        """Count the questions all of whose answers have more than the `longest` pieces that a
        prediction has, while caveats are collected; `label` names their languages.
        """
        heard, what = Caveats.listener(), f"answers of more than {longest} subword tokens"
        for row, context in zip(self.questions, self.contexts, strict=True) if heard else ():
            spans = [context.spanning(a.start, a.start + len(a.text)) for a in row.answers]
            found = [last - first < longest for first, last in filter(None, spans)]
            if heard and found and not any(found):
                text = f"{row.question}\0{row.context}".encode("utf-8", "surrogatepass")
                heard.lose(label, text, f"{what}, which no prediction has")

    def text(self, question: int, first: int, last: int) -> str:
        """Return the context's own characters from the first to the last of some pieces."""
        pieces = self.contexts[question]
        return self.questions[question].context[pieces.starts[first] : pieces.ends[last]]


def span_of(row: Question, context: TextPieces) -> tuple[int, int]:
    """The first and the last piece of a question's answer in its context; (-1, -1) where no answer
    stands where it says, or it shares no piece.
    """
    answer = row.placed()
    found = answer and context.spanning(answer.start, answer.start + len(answer.text))
    return found or (-1, -1)


def cut_windows(given: AskedPieces, encoder: TransformerEncoder, sizes: WindowSizes) -> WindowRows:
    """Windows that fit into the encoder's positions.

    Questions are cut to `sizes.question` pieces and half the room. The stride is at most so large
    that every answer of at most `sizes.answer` pieces, and half a window's, is whole in some
    window.
    """
    starts = [0, len(given.asked)]
    sides = given.asked, given.contexts
    names = tuple(dict.fromkeys(str(side.lang) for side in sides))
    langs = [names.index(str(side.lang)) for side in sides]
    sentences = Sentences.of(encoder, sides, langs, names)
    asked_Q, told_Q = (side.numbers() + at for side, at in zip(sides, starts, strict=True))
    before, between = sentences.before[1], sentences.between[1]
    room = sentences.max_length - before - between - sentences.after_pair[1]
    longest, found = min(sizes.question, room // 2), array("i")
    lengths_Q2 = sentences.lengths_S[np.stack([asked_Q, told_Q], axis=1)]
    long_Q = asked_Q[lengths_Q2[:, 0] > longest]
    sentences.report_lost(long_Q, f"{longest} subword tokens of a question")
    for number, (start, end) in enumerate(given.spans_Q2.tolist()):
        asked, told = min(int(lengths_Q2[number, 0]), longest), int(lengths_Q2[number, 1])
        begin = before + asked + between
        for first, size in cuts(told, room - asked, sizes):
            whole = first <= start and end < first + size  # none is known: -1
            target = (begin + start - first, begin + end - first) if whole else (0, 0)
            found.extend((number, first, size, *target))
    cuts_S5 = np.array(found, np.int32).reshape(-1, 5)
    return WindowRows(_windows(sentences, asked_Q, told_Q, cuts_S5, longest), cuts_S5)


def _windows(
    sentences: Sentences, asked_Q: np.ndarray, told_Q: np.ndarray, cuts_S5: np.ndarray, longest: int
) -> RowSource:
    """The rows of windows: pairs of at most `longest` pieces of a question and some of a context,
    which are sentences of their own in the same pieces.
    """
    number, first, size = cuts_S5[:, :3].T.astype(np.int64)
    both = np.concatenate([asked_Q, told_Q[number]])
    starts, lengths = sentences.starts_S[both], sentences.lengths_S[both]
    starts[len(asked_Q) :] += first
    lengths[: len(asked_Q)] = np.minimum(lengths[: len(asked_Q)], longest)
    lengths[len(asked_Q) :] = size
    whole = replace(sentences, starts_S=starts, lengths_S=lengths, langs_S=sentences.langs_S[both])
    places = np.arange(len(number)) + len(asked_Q)
    return RowSource(whole, np.stack([number, places], axis=1))


def cuts(length: int, room: int, sizes: WindowSizes) -> Iterator[tuple[int, int]]:
    """(first piece, number of pieces) of the windows over a context of `length` pieces; one at
    least, the last one ends with the context.

    >>> list(cuts(10, 6, WindowSizes(question=64, stride=128, answer=3)))
    [(0, 6), (4, 6)]
    >>> list(cuts(10, 6, WindowSizes(question=64, stride=2, answer=3)))
    [(0, 6), (2, 6), (4, 6)]
    """
    step = min(sizes.stride, max(room - sizes.answer + 1, (room + 1) // 2))
    first = 0
    while first + room < length:
        yield first, room
        first += step
    yield first, length - first


@dataclass(frozen=True, kw_only=True)
class PreparedQuestions(Questions):
    """The questions of a language that are trained on, without their texts: the pieces that windows
    are made of, and how many of these are the tokenizer's unknown one, and how many there are, of
    questions and different contexts.
    """

    pieces: AskedPieces
    counts: tuple[int, int]

    def __len__(self) -> int:
        return len(self.pieces.spans_Q2)

    def answered(self) -> PreparedQuestions:
        """Return the questions, which were written with their answers."""
        return self

    def training_windows(
        self,
        encoder: TransformerEncoder,
        lang: str,  # noqa: ARG002
        sizes: WindowSizes,
    ) -> WindowRows:
        """Return windows, and report the unknown pieces, while caveats are collected."""
        if (heard := Caveats.listener()) is not None:
            unknown, pieces = self.counts
            heard.read(str(self.pieces.asked.lang), pieces, unknown)
        return cut_windows(self.pieces, encoder, sizes)


def _write(folder: Path, texts: Iterable[TextPieces]) -> None:
    """Write the pieces of texts."""
    ids = [pieces.ids.astype(np.int32) for pieces in texts]
    folder.mkdir()
    np.save(folder / "ids.npy", np.concatenate(ids))
    np.save(folder / "offsets.npy", offsets_of([len(part) for part in ids]))


def _mapped(folder: Path, lang: str) -> Pieces:
    """The pieces of texts in a folder, mapped."""
    ids, offsets = map_array(folder, "ids"), map_array(folder, "offsets")
    return Pieces.without_words(ids, offsets, lang)
