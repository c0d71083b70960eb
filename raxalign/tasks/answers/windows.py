"""Questions and windows of their contexts as rows of pieces, and the pieces as files."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raxalign.arrays import offsets_of
from raxalign.caveats import collecting, listener
from raxalign.encoders.models.flat_pieces import map_array
from raxalign.encoders.models.pieces import (
    PieceRow,
    Template,
    TextPieces,
    pair_row,
    read_template,
    text_pieces,
)
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.lazy import np
from raxalign.tasks.answers.params import WindowSizes
from raxalign.tasks.answers.rows import Question, Questions, answered, misplaced
from raxalign.tasks.transfer.lazy_lists import LazyList, no_pieces

_RECORD = "questions.json"
_ASKED, _CONTEXTS = "asked", "contexts"


@dataclass(frozen=True, slots=True)
class Window:
    """A question with `size` pieces of its context from the `first` on; these are in the row at
    `begin` and after. `target` is the answer's first and last position in the row, or (0, 0), the
    row's first special piece, where it is not whole in this window.
    """

    row: PieceRow
    question: int
    begin: int
    first: int
    size: int
    target: tuple[int, int]


@dataclass(frozen=True)
class AskedPieces:
    """What windows are made of: the pieces of each question and of its context, the first and the
    last piece of its answer there (-1: none is known), and the languages of questions and contexts.
    """

    asked: Sequence[np.ndarray]
    contexts: Sequence[np.ndarray]
    spans_Q2: np.ndarray
    languages: tuple[str, str]


class WindowRows(LazyList[Window]):
    """Windows of which each is made when it is asked for. One takes 20 bytes, beside the pieces of
    the questions and of the contexts.
    """

    def __init__(
        self, template: Template, given: AskedPieces, longest: int, cuts_S5: np.ndarray
    ) -> None:
        """Keep what windows are made of. `longest` is the largest number of pieces of a question; a
        longer one is cut. `cuts_S5` has for each window the number of its question, its first piece
        of the context, the number of these, and its target.
        """

        def window(place: int) -> Window:
            number, first, size, start, end = cuts_S5[place].tolist()
            pieces = given.contexts[number][first : first + size]
            asked = given.asked[number][:longest]
            row, begin = pair_row(template, asked, pieces, given.languages)
            return Window(row, number, begin, first, size, (start, end))

        super().__init__(len(cuts_S5), window)
        self.cuts_S5 = cuts_S5

    def answered(self) -> int:
        """Count the windows that hold the whole answer."""
        return int(self.cuts_S5[:, 3:].any(axis=1).sum())


@dataclass(frozen=True)
class Windows:
    """The windows of some questions, in their order, and the pieces of each question's context."""

    questions: Sequence[Question]
    contexts: Sequence[TextPieces]
    windows: WindowRows

    def text(self, question: int, first: int, last: int) -> str:
        """Return the context's own characters from the first to the last of some pieces."""
        pieces = self.contexts[question]
        return self.questions[question].context[pieces.starts[first] : pieces.ends[last]]


def make_windows(
    questions: Questions,
    encoder: TransformerEncoder,
    languages: tuple[str, str],
    sizes: WindowSizes,
) -> Windows:
    """Windows over questions and their contexts, whose texts are divided into pieces (see
    `cut_windows`); `languages` are the questions' and the contexts'.
    """
    rows, texts = questions.rows, list(dict.fromkeys(row.context for row in questions.rows))
    pieces_of = dict(zip(texts, text_pieces(encoder.tokenizer, texts, languages[1]), strict=True))
    asked = text_pieces(encoder.tokenizer, [row.question for row in rows], languages[0])
    contexts = [pieces_of[row.context] for row in rows]
    spans = [span_of(row, pieces) for row, pieces in zip(rows, contexts, strict=True)]
    given = AskedPieces(
        [pieces.ids for pieces in asked],
        [pieces.ids for pieces in contexts],
        np.array(spans, np.int32).reshape(-1, 2),
        languages,
    )
    return Windows(rows, contexts, cut_windows(given, encoder, sizes))


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
    template = read_template(encoder.tokenizer)
    special = len(template.before) + len(template.between) + len(template.after_pair)
    room = encoder.max_positions - special
    longest, found = min(sizes.question, room // 2), array("i")
    for number, (start, end) in enumerate(given.spans_Q2.tolist()):
        asked = min(len(given.asked[number]), longest)
        begin = len(template.before) + asked + len(template.between)
        for first, size in cuts(len(given.contexts[number]), room - asked, sizes):
            whole = first <= start and end < first + size  # none is known: -1
            target = (begin + start - first, begin + end - first) if whole else (0, 0)
            found.extend((number, first, size, *target))
    return WindowRows(template, given, longest, np.array(found, np.int32).reshape(-1, 5))


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

    def windows(self, encoder: TransformerEncoder, sizes: WindowSizes) -> WindowRows:
        """Return windows, and report the unknown pieces, while caveats are collected."""
        if (heard := listener()) is not None:
            unknown, pieces = self.counts
            heard.read(self.pieces.languages[0], pieces, unknown)
        return cut_windows(self.pieces, encoder, sizes)


def write_questions(
    rows: Questions,
    lang: str,
    tokenizer: Any,
    threads: int,  # noqa: ARG001
    folder: Path,
) -> dict[str, object]:
    """Write training questions (see `Head.write_prepared`) as their pieces, those of the different
    contexts, and where the answers are among these, in one process.
    """
    placed = answered(rows).rows
    asking: dict[str, list[int]] = {}
    for number, row in enumerate(placed):
        asking.setdefault(row.context, []).append(number)
    context_of, spans_Q2 = np.zeros(len(placed), np.int32), np.full((len(placed), 2), -1, np.int32)

    def contexts() -> Iterator[TextPieces]:
        found = enumerate(text_pieces(tokenizer, list(asking), lang))
        for numbers, (context, pieces) in zip(asking.values(), found, strict=True):
            context_of[numbers] = context
            spans_Q2[numbers] = [span_of(placed[number], pieces) for number in numbers]
            yield pieces

    with collecting() as found:  # the trainings that read the pieces count the unknown ones
        asked = text_pieces(tokenizer, [row.question for row in placed], lang)
        for name, texts in ((_ASKED, asked), (_CONTEXTS, contexts())):
            _write(folder / name, texts)
    np.save(folder / "spans.npy", spans_Q2)
    np.save(folder / "context_of.npy", context_of)
    np.save(folder / "fingerprints.npy", rows.fingerprints())
    counts = {"pieces": found.pieces[lang], "unknown": found.unknown[lang]}
    notes = {"source": rows.source, "lang": lang, "unanswerable": rows.left_out}
    notes |= {"remarks": rows.remarks}
    record = {**notes, **counts, "total": len(rows)}
    (folder / _RECORD).write_text(json.dumps(record), encoding="utf-8")
    return {"questions": len(placed), "contexts": len(asking), **counts}


def _write(folder: Path, texts: Iterable[TextPieces]) -> None:
    """Write the pieces of texts."""
    ids = [pieces.ids.astype(np.int32) for pieces in texts]
    folder.mkdir()
    np.save(folder / "ids.npy", np.concatenate(ids))
    np.save(folder / "offsets.npy", offsets_of([len(part) for part in ids]))


def read_questions(folder: Path, lang: str, source: str | None) -> PreparedQuestions:
    """Return the questions that `write_questions` wrote, mapped (see `Head.read_prepared`)."""
    file = folder / _RECORD
    record = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if record.get("lang") != lang:
        raise no_pieces(folder, f"questions in {lang}")
    spans_Q2, context_of = map_array(folder, "spans"), map_array(folder, "context_of")
    asked = _mapped(folder / _ASKED, np.arange(len(spans_Q2)))
    contexts = _mapped(folder / _CONTEXTS, context_of)
    return PreparedQuestions(
        source or record["source"],
        (),
        record["unanswerable"],
        map_array(folder, "fingerprints"),
        **misplaced(record["total"], len(spans_Q2), record.get("remarks", ())),
        pieces=AskedPieces(asked, contexts, spans_Q2, (lang, lang)),
        counts=(record["unknown"], record["pieces"]),
    )


def _mapped(folder: Path, chosen: np.ndarray) -> LazyList[np.ndarray]:
    """The pieces of the texts of some numbers."""
    ids, offsets = map_array(folder, "ids"), map_array(folder, "offsets")

    def text(place: int) -> np.ndarray:
        number = int(chosen[place])
        return ids[int(offsets[number]) : int(offsets[number + 1])]

    return LazyList(len(chosen), text)
