"""Questions and their contexts as rows of pieces: overlapping windows where a context is too
long.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from raxalign.encoders.models.offsets import TextPieces, pair_row, text_pieces
from raxalign.encoders.models.pieces import PieceRow, Template, read_template
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


class WindowRows(Sequence[Window]):
    """Windows of which each is made when it is asked for. One takes 24 bytes, beside the pieces of
    the questions and of the contexts.
    """

    def __init__(
        self,
        template: Template,
        texts: tuple[Sequence[np.ndarray], Sequence[TextPieces]],
        languages: tuple[str, str],
        cuts_S5: np.ndarray,
    ) -> None:
        """Keep what windows are made of.

        Args:
            template: The special pieces of a row.
            texts: The pieces of each question, and those of its context.
            languages: The language of the questions, and that of the contexts.
            cuts_S5: For each window the number of its question, its first piece of the context, the
                number of these, and its target.
        """
        self.template, self.languages, self.cuts_S5 = template, languages, cuts_S5
        self.asked, self.contexts = texts

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
        pieces = self.contexts[number].ids[first : first + size]
        row, begin = pair_row(self.template, self.asked[number], pieces, self.languages)
        return Window(row, number, begin, first, size, (target[0], target[1]))

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
    """Windows that fit into the encoder's positions; `languages` are the questions' and the
    contexts'.

    Questions are cut to `sizes.question` pieces and half the room. The stride is at most so large
    that every answer of at most `sizes.answer` pieces, and half a window's, is whole in some
    window.
    """
    texts = list(dict.fromkeys(row.context for row in questions.rows))
    pieces_of = dict(zip(texts, text_pieces(encoder.tokenizer, texts, languages[1]), strict=True))
    asked = text_pieces(encoder.tokenizer, [row.question for row in questions.rows], languages[0])
    template = read_template(encoder.tokenizer)
    room = (
        encoder.max_positions
        - len(template.before)
        - len(template.between)
        - len(template.after_pair)
    )
    contexts = [pieces_of[row.context] for row in questions.rows]
    cut, found = list[np.ndarray](), array("i")
    for number, (row, question) in enumerate(zip(questions.rows, asked, strict=True)):
        context, ids = contexts[number], question.ids[: min(sizes.question, room // 2)]
        answer = row.placed()
        span = context.spanning(answer.start, answer.start + len(answer.text)) if answer else None
        begin = len(template.before) + len(ids) + len(template.between)
        for first, size in cuts(len(context), room - len(ids), sizes):
            found.extend((number, first, size, *_target(span, first, size, begin)))
        cut.append(ids)
    cuts_S5 = np.array(found, np.int32).reshape(-1, 5)
    windows = WindowRows(template, (cut, contexts), languages, cuts_S5)
    return Windows(questions.rows, contexts, windows)


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


def _target(span: tuple[int, int] | None, first: int, size: int, begin: int) -> tuple[int, int]:
    if span is None or span[0] < first or span[1] >= first + size:
        return 0, 0
    return begin + span[0] - first, begin + span[1] - first
