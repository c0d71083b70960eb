"""The training questions of a language as files, made once for all trainings that read them: the
pieces of questions and contexts, where the answers are among these, and fingerprints.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from raxalign.arrays import offsets_of
from raxalign.caveats import collecting, listener
from raxalign.encoders.models.flat_pieces import map_array
from raxalign.encoders.models.pieces import TextPieces, text_pieces
from raxalign.errors import DataError
from raxalign.tasks.spans.rows import Question, Questions, answered
from raxalign.tasks.spans.windows import Texts, span_of

_RECORD = "questions.json"
_ASKED, _CONTEXTS = "asked", "contexts"

Look: TypeAlias = Callable[[int, TextPieces], None]
"""Takes the number and the pieces of a text."""


class MappedTexts(Sequence[np.ndarray]):
    """The pieces of some texts, of which those of each are read when they are asked for."""

    def __init__(
        self, ids: np.ndarray, offsets: np.ndarray, chosen: np.ndarray | None = None
    ) -> None:
        """`offsets` are those of the texts in `ids`; `chosen` are the numbers of the texts (None:
        all of them).
        """
        self.ids, self.offsets, self.chosen = ids, offsets, chosen

    def __len__(self) -> int:
        return len(self.offsets) - 1 if self.chosen is None else len(self.chosen)

    @overload
    def __getitem__(self, which: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, which: slice) -> list[np.ndarray]: ...
    def __getitem__(self, which: int | slice) -> np.ndarray | list[np.ndarray]:
        """Return the pieces of a text, or a list of those of some."""
        if isinstance(which, slice):
            return [self[i] for i in range(*which.indices(len(self)))]
        if not -len(self) <= which < len(self):
            raise IndexError(which)
        place = which % len(self)
        number = place if self.chosen is None else int(self.chosen[place])
        start, stop = self.offsets[number : number + 2].tolist()
        return np.asarray(self.ids[start:stop])


@dataclass(frozen=True)
class DividedQuestions:
    """The questions of a language that are trained on, without their texts.

    Attributes:
        source: The name of their source in messages.
        lang: Their language.
        asked: The pieces of each question.
        contexts: The pieces of the context of each question.
        spans_Q2: The first and the last piece of each answer in its context (-1: the answer shares
            no piece).
        hashes: The fingerprints of all questions of the source.
        total: How many questions with an answer the source has.
        unanswerable: How many without one.
        unknown: How many pieces are the tokenizer's unknown one, and how many pieces there are, of
            questions and different contexts.
    """

    source: str
    lang: str
    asked: MappedTexts
    contexts: MappedTexts
    spans_Q2: np.ndarray
    hashes: npt.NDArray[np.int64]
    total: int
    unanswerable: int
    unknown: tuple[int, int]

    def __len__(self) -> int:
        return len(self.spans_Q2)

    def fingerprints(self) -> npt.NDArray[np.int64]:
        """Return a hash of each question with its context, then of each id."""
        return self.hashes

    def texts(self) -> Texts:
        """Return what windows are made of, and report the unknown pieces, while caveats are
        collected.
        """
        if (heard := listener()) is not None:
            unknown, pieces = self.unknown
            heard.read(self.lang, pieces, unknown)
        return Texts(self.asked, self.contexts, self.spans_Q2, (self.lang, self.lang))


def write_questions(
    questions: Questions, lang: str, tokenizer: Any, folder: Path
) -> dict[str, object]:
    """Write what `read_questions` reads.

    Args:
        questions: The training questions.
        lang: Their language.
        tokenizer: The tokenizer that makes the pieces.
        folder: Takes the files.

    Returns:
        The numbers of questions, of different contexts and of all their pieces, and of unknown ones
        among these.

    Raises:
        DataError: No answer stands where it says.
    """
    placed = answered(questions).rows
    number_of: dict[str, int] = {}
    for row in placed:
        number_of.setdefault(row.context, len(number_of))
    context_of = np.array([number_of[row.context] for row in placed], np.int32)
    divide = partial(_write, folder, tokenizer, lang)
    with collecting() as found:  # the trainings that read the pieces count the unknown ones
        divide(_ASKED, [row.question for row in placed])
        spans_Q2 = _located(placed, context_of, partial(divide, _CONTEXTS, list(number_of)))
    np.save(folder / "spans.npy", spans_Q2)
    np.save(folder / "context_of.npy", context_of)
    np.save(folder / "fingerprints.npy", questions.fingerprints())
    counts = {"pieces": found.pieces[lang], "unknown": found.unknown[lang]}
    notes = {"source": questions.source, "lang": lang, "unanswerable": questions.unanswerable}
    record = {**notes, **counts, "total": len(questions)}
    (folder / _RECORD).write_text(json.dumps(record), encoding="utf-8")
    return {"questions": len(placed), "contexts": len(number_of), **counts}


def _located(
    placed: Sequence[Question], context_of: np.ndarray, divide: Callable[[Look], None]
) -> np.ndarray:
    """Find the first and the last piece of each answer, while `divide` passes the pieces of each
    context.
    """
    spans_Q2 = np.full((len(placed), 2), -1, np.int32)
    answers: dict[int, list[int]] = {}
    for number, context in enumerate(context_of.tolist()):
        answers.setdefault(context, []).append(number)

    def look(context: int, pieces: TextPieces) -> None:
        for number in answers[context]:
            spans_Q2[number] = span_of(placed[number], pieces)

    divide(look)
    return spans_Q2


def _write(
    folder: Path,
    tokenizer: Any,
    lang: str,
    name: str,
    texts: Sequence[str],
    look: Look | None = None,
) -> None:
    """Write the pieces of texts; `look` takes the number and the pieces of each text."""
    ids, lengths = array("i"), array("i")
    for number, pieces in enumerate(text_pieces(tokenizer, texts, lang)):
        if look is not None:
            look(number, pieces)
        ids.frombytes(pieces.ids.astype(np.int32).tobytes())
        lengths.append(len(pieces))
    (folder / name).mkdir()
    np.save(folder / name / "ids.npy", np.frombuffer(ids, np.int32))
    np.save(folder / name / "offsets.npy", offsets_of(np.frombuffer(lengths, np.int32)))


def read_questions(folder: Path, lang: str, source: str | None) -> DividedQuestions:
    """Return the questions that `write_questions` wrote, mapped.

    Args:
        folder: The folder that was written.
        lang: Their language.
        source: The name of their source in messages (None: that which was written).

    Raises:
        DataError: The folder does not have the questions of the language.
    """
    file = folder / _RECORD
    record = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if record.get("lang") != lang:
        raise DataError(
            folder,
            f"does not have the pieces of questions in {lang}",
            remedy="Remove the folder, and run the grid again to make it",
        )
    asked, contexts = (
        (map_array(folder / name, "ids"), map_array(folder / name, "offsets"))
        for name in (_ASKED, _CONTEXTS)
    )
    return DividedQuestions(
        source or record["source"],
        lang,
        MappedTexts(*asked),
        MappedTexts(*contexts, map_array(folder, "context_of")),
        map_array(folder, "spans"),
        map_array(folder, "fingerprints"),
        record["total"],
        record["unanswerable"],
        (record["unknown"], record["pieces"]),
    )
