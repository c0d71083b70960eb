"""Questions and their contexts as rows of pieces: overlapping windows where a context is too
long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raxalign.encoders.models.offsets import TextPieces, pair_row, text_pieces
from raxalign.encoders.models.pieces import PieceRow, read_template
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
class Windows:
    """The windows of some questions, in their order, and the pieces of each question's context."""

    questions: Sequence[Question]
    contexts: Sequence[TextPieces]
    windows: Sequence[Window]

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
    windows = []
    for number, (row, question) in enumerate(zip(questions.rows, asked, strict=True)):
        context, ids = pieces_of[row.context], question.ids[: min(sizes.question, room // 2)]
        answer = row.placed()
        span = context.spanning(answer.start, answer.start + len(answer.text)) if answer else None
        for first, size in cuts(len(context), room - len(ids), sizes):
            pieces, begin = pair_row(template, ids, context.ids[first : first + size], languages)
            windows.append(
                Window(pieces, number, begin, first, size, _target(span, first, size, begin))
            )
    return Windows(questions.rows, [pieces_of[row.context] for row in questions.rows], windows)


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
