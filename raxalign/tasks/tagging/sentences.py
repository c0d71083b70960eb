"""Tagged sentences, and how training sentences are recognised among those that are evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from raxalign.errors import DataError
from raxalign.running import Sentence
from raxalign.tasks.transfer.fingerprints import among, fingerprint, normal

MISMATCHED = "the numbers of words and of tags differ"


@dataclass(frozen=True, slots=True)
class Tagged:
    """A sentence with one tag per word; `line` is where it begins (1-based line of the file, or
    row), and `running` has its words in the running text, where the file has it.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int
    running: Sentence | None = None


@dataclass(frozen=True)
class Sentences:
    """The tagged sentences of one language and split; `left_out` counts the rows of the source
    that had other numbers of words and of tags.
    """

    source: str
    rows: Sequence[Tagged]
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, n: int | None) -> Sentences:
        """Returns the first n of them."""
        return replace(self, rows=self.rows[:n])

    def without(self, others: Sequence[Sentences]) -> Sentences:
        """Returns the sentences whose text is in none of the others."""
        if not others:
            return self
        known = among(
            self.fingerprints(), np.concatenate([other.fingerprints() for other in others])
        )
        kept = [row for row, there in zip(self.rows, known, strict=True) if not there]
        return replace(self, rows=kept)

    def words(self) -> list[Sequence[str]]:
        """Returns the words of every sentence, in their running text where it is known."""
        return [row.running or row.words for row in self.rows]

    def tags(self) -> set[str]:
        """Returns all tags that a word has."""
        return {tag for row in self.rows for tag in row.tags}

    def n_words(self) -> int:
        """Returns the number of words."""
        return sum(len(row.words) for row in self.rows)

    def numbers(self, labels: Sequence[str]) -> Iterator[npt.NDArray[np.int64]]:
        """Yields the places of each sentence's tags among `labels`."""
        number = {label: i for i, label in enumerate(labels)}
        for row in self.rows:
            yield np.array([number[tag] for tag in row.tags], dtype=np.int64)

    def fingerprints(self) -> npt.NDArray[np.int64]:
        """Hashes each sentence's text; case, white space and Unicode forms do not count."""
        return np.array(
            [fingerprint("text", normal("".join(row.words))) for row in self.rows], dtype=np.int64
        )


def left_out(n: int, place: str) -> dict[str, dict[str, object]]:
    """Returns the note on the rows of a place (``de/test``) that were left out, if any were."""
    said = f"{n:,} row{'s'[: n != 1]} {'is' if n == 1 else 'are'} left out: {MISMATCHED}"
    return {place: {"left_out": n, "warning": said}} if n else {}


def refuse_overlap(trained: npt.NDArray[np.int64], evaluated: Sentences) -> npt.NDArray[np.bool_]:
    """Finds the sentences that are training sentences too, by their text. Raises `DataError` where
    more than half are.

    Honest data has some: short requests recur (a third of the Facebook slots' English development
    set), and so do headlines. More than half means the training file, or a part of it.
    """
    seen = among(evaluated.fingerprints(), trained)
    if 2 * int(seen.sum()) > len(evaluated):
        raise DataError(
            evaluated.source,
            f"{int(seen.sum())} of {len(evaluated)} sentences are training sentences too",
            line=evaluated.rows[int(np.flatnonzero(seen)[0])].line,
            remedy="Evaluate on data that is not trained on",
        )
    return seen
