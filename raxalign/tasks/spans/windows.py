"""Questions and their contexts as rows of pieces: overlapping windows where a context is too
long.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from raxalign.encoders.models.pieces import (
    PieceRow,
    Template,
    TextPieces,
    pair_row,
    read_template,
    text_pieces,
)
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.spans.rows import Question, Questions


@dataclass(frozen=True)
class WindowSizes:
    """In pieces: what a question may have, how far a window starts after the one before, and what
    an answer may have.
    """

    question: int
    stride: int
    answer: int


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
class Texts:
    """What windows are made of.

    Attributes:
        asked: The pieces of each question.
        contexts: The pieces of the context of each question.
        spans_Q2: The first and the last piece of each answer in its context (-1: none is known).
        languages: The language of the questions, and that of the contexts.
    """

    asked: Sequence[np.ndarray]
    contexts: Sequence[np.ndarray]
    spans_Q2: np.ndarray
    languages: tuple[str, str]


class WindowRows(Sequence[Window]):
    """Windows of which each is made when it is asked for. One takes 24 bytes, beside the pieces of
    the questions and of the contexts.
    """

    def __init__(self, template: Template, texts: Texts, longest: int, cuts_S5: np.ndarray) -> None:
        """Keep what windows are made of.

        Args:
            template: The special pieces of a row.
            texts: The pieces of questions and contexts.
            longest: The largest number of pieces of a question; a longer one is cut.
            cuts_S5: For each window the number of its question, its first piece of the context, the
                number of these, and its target.
        """
        self.template, self.texts, self.longest = template, texts, longest
        self.cuts_S5 = cuts_S5

    def __len__(self) -> int:
        return len(self.cuts_S5)

    @overload
    def __getitem__(self, which: int) -> Window: ...
    @overload
    def __getitem__(self, which: slice) -> list[Window]: ...
    def __getitem__(self, which: int | slice) -> Window | list[Window]:
        """Return a window, or a list of some."""
        if isinstance(which, slice):
            return [self[i] for i in range(*which.indices(len(self)))]
        number, first, size, *target = self.cuts_S5[which].tolist()
        pieces = self.texts.contexts[number][first : first + size]
        asked = self.texts.asked[number][: self.longest]
        row, begin = pair_row(self.template, asked, pieces, self.texts.languages)
        return Window(row, number, begin, first, size, (target[0], target[1]))

    def answered(self) -> int:
        """Count the windows that hold the whole answer."""
        return int(self.cuts_S5[:, 3:].any(axis=1).sum())


class Units(Sequence[list[Window]]):
    """What must be in one batch: the windows of some numbers, made when they are asked for."""

    def __init__(self, windows: Sequence[Window], members: Sequence[list[int]]) -> None:
        self.windows, self.members = windows, members

    def __len__(self) -> int:
        return len(self.members)

    @overload
    def __getitem__(self, which: int) -> list[Window]: ...
    @overload
    def __getitem__(self, which: slice) -> list[list[Window]]: ...
    def __getitem__(self, which: int | slice) -> list[Window] | list[list[Window]]:
        """Return the windows of a unit, or those of some units."""
        if isinstance(which, slice):
            return [self[i] for i in range(*which.indices(len(self)))]
        return [self.windows[number] for number in self.members[which]]


@dataclass(frozen=True)
class Windows:
    """The windows of some questions, in their order, and the pieces of each question's context."""

    questions: Sequence[Question]
    contexts: Sequence[TextPieces]
    windows: WindowRows

    def text(self, question: int, first: int, last: int) -> str:
        """What the context has from the first to the last of some pieces: the characters
        themselves.
        """
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
    texts = list(dict.fromkeys(row.context for row in questions.rows))
    pieces_of = dict(zip(texts, text_pieces(encoder.tokenizer, texts, languages[1]), strict=True))
    asked = text_pieces(encoder.tokenizer, [row.question for row in questions.rows], languages[0])
    contexts = [pieces_of[row.context] for row in questions.rows]
    spans = [span_of(row, pieces) for row, pieces in zip(questions.rows, contexts, strict=True)]
    given = Texts(
        [pieces.ids for pieces in asked],
        [pieces.ids for pieces in contexts],
        np.array(spans, np.int32).reshape(-1, 2),
        languages,
    )
    return Windows(questions.rows, contexts, cut_windows(given, encoder, sizes))


def span_of(row: Question, context: TextPieces) -> tuple[int, int]:
    """The first and the last piece of a question's answer in its context; (-1, -1) where no answer
    stands where it says, or it shares no piece.
    """
    answer = row.placed()
    found = answer and context.spanning(answer.start, answer.start + len(answer.text))
    return found or (-1, -1)


def cut_windows(texts: Texts, encoder: TransformerEncoder, sizes: WindowSizes) -> WindowRows:
    """Windows that fit into the encoder's positions.

    Questions are cut to `sizes.question` pieces and half the room. The stride is at most so large
    that every answer of at most `sizes.answer` pieces, and half a window's, is whole in some
    window.
    """
    template = read_template(encoder.tokenizer)
    room = (
        encoder.max_positions
        - len(template.before)
        - len(template.between)
        - len(template.after_pair)
    )
    longest, found = min(sizes.question, room // 2), array("i")
    for number, span in enumerate(map(tuple, texts.spans_Q2.tolist())):
        asked = min(len(texts.asked[number]), longest)
        begin = len(template.before) + asked + len(template.between)
        for first, size in cuts(len(texts.contexts[number]), room - asked, sizes):
            found.extend((number, first, size, *_target(span, first, size, begin)))
    return WindowRows(template, texts, longest, np.array(found, np.int32).reshape(-1, 5))


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


def _target(span: tuple[int, int], first: int, size: int, begin: int) -> tuple[int, int]:
    if span[0] < first or span[1] >= first + size:  # none is known: -1
        return 0, 0
    return begin + span[0] - first, begin + span[1] - first
