"""Labelled examples of one text or of two, and how training examples are recognised among those
that are evaluated.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from raxalign.errors import DataError
from raxalign.running import Sentence
from raxalign.tasks.transfer.fingerprints import among, fingerprint, normal

if TYPE_CHECKING:
    from raxalign.tasks.transfer.divided_rows import DividedTexts


@dataclass(frozen=True)
class Example:
    """One example of one text (`second` is None) or of two; `id` and `group` are what the file
    calls it and its group, or None; `line` is its 1-based line or row in the source.
    """

    first: str
    second: str | None
    label: str
    line: int
    id: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class Divided:
    """What was made of examples before: their fingerprints, and the pieces of their first and of
    their second texts (None where they have one text).
    """

    fingerprints: npt.NDArray[np.int64]
    firsts: DividedTexts
    seconds: DividedTexts | None


@dataclass(frozen=True)
class Examples:
    """The examples of one language and split; those without a label are left out and counted.

    Where they are `divided`, `rows` are without their texts: they are read by their columns.
    """

    source: str
    rows: Sequence[Example]
    unlabelled: int = 0
    divided: Divided | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, n: int | None) -> Examples:
        """Returns the first n of them."""
        return Examples(self.source, self.rows[:n], self.unlabelled)

    def without(self, others: Iterable[Examples]) -> Examples:
        """Returns the examples whose texts are in none of the others."""
        known = np.concatenate([other.fingerprints() for other in others])
        fresh = ~among(self.fingerprints()[: len(self)], known)
        kept = [row for row, keep in zip(self.rows, fresh, strict=True) if keep]
        return Examples(self.source, kept, self.unlabelled)

    def words(self) -> tuple[list[Sentence], list[Sentence] | None]:
        """Returns the first and the second texts (None where there are none), divided at white
        space; the tokenizer divides further, and alone divides a text without spaces.
        """
        return [Sentence.of_text(row.first) for row in self.rows], seconds(self.rows)

    def fingerprints(self) -> npt.NDArray[np.int64]:
        """Hashes each example's texts (case, white space and Unicode forms do not count), and the
        id of each that has one.
        """
        if self.divided is not None:
            return self.divided.fingerprints
        texts, ids = fingerprints(self.rows)
        return np.concatenate([texts, ids])

    def numbers(self, labels: Sequence[str]) -> npt.NDArray[np.int64]:
        """Returns the place of each example's label among `labels`; labels that are not there have
        numbers after these.
        """
        places = {label: i for i, label in enumerate(labels)}
        numbers = [places.setdefault(row.label, len(places)) for row in self.rows]
        return np.array(numbers, dtype=np.int64)


def seconds(rows: Sequence[Example]) -> list[Sentence] | None:
    """Returns the words of the second texts; None where the examples have one text."""
    texts = [row.second for row in rows if row.second is not None]
    return [Sentence.of_text(text) for text in texts] if len(texts) == len(rows) else None


def fingerprints(rows: Iterable[Example]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Hashes the texts of each example, and the id of each that has one; the examples are read once
    and not kept.
    """
    texts, ids = array("q"), array("q")
    for row in rows:
        texts.append(fingerprint("text", normal(row.first), normal(row.second or "")))
        if row.id is not None:
            ids.append(fingerprint("id", row.id))
    return np.array(texts, dtype=np.int64), np.array(ids, dtype=np.int64)


def refuse_overlap(
    trained: npt.NDArray[np.int64], evaluated: Examples, *, repeats: bool = False
) -> npt.NDArray[np.bool_]:
    """Finds the examples that were trained on, by their texts and ids.

    Args:
        trained: the fingerprints of training examples, in any order; sorted ones take the least
            time.
        evaluated: the examples that are evaluated.
        repeats: whether honest data repeats texts, as short requests do.

    Returns:
        whether each example was trained on.

    Raises:
        DataError: one was, or where data repeats texts, more than half were.
    """
    known = among(evaluated.fingerprints(), trained)
    texts, ids = known[: len(evaluated)], known[len(evaluated) :]
    named = [i for i, row in enumerate(evaluated.rows) if row.id is not None]
    seen = texts.copy()
    seen[[named[i] for i in np.flatnonzero(ids)]] = True
    hits = int(seen.sum())
    if hits and not (repeats and 2 * hits <= len(evaluated)):
        same = "text" if texts.any() else "id"
        raise DataError(
            evaluated.source,
            f"{hits} of {len(evaluated)} rows are training rows too (the same {same})",
            line=evaluated.rows[int(np.flatnonzero(seen)[0])].line,
            remedy="Take them out of the training file, or evaluate on another one",
        )
    return seen
