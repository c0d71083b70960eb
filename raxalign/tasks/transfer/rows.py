"""The rows of one language and split, and how training rows are recognised among those that are
evaluated.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from raxalign.errors import DataError
from raxalign.tasks.transfer.fingerprints import among, fingerprint, normal


class TaskRow(Protocol):
    """One row: `id` names it in the whole data set (None: nothing does), `line` is its 1-based line
    or row in the source (None: the source has none).
    """

    @property
    def id(self) -> str | None:
        """Return its name."""

    @property
    def line(self) -> int | None:
        """Return its line."""

    def texts(self) -> tuple[str, ...]:
        """Return the texts by which a copy of the row is recognised."""


RowT = TypeVar("RowT", bound=TaskRow)


@dataclass(frozen=True)
class TaskRows(Generic[RowT]):
    """Rows of one language and split.

    Attributes:
        source: The name of their source in messages.
        rows: The rows. Where they were prepared, they are without their texts.
        left_out: How many rows of the source are not among them.
        hashes: Their fingerprints, where these were made before.
    """

    source: str
    rows: Sequence[RowT]
    left_out: int = 0
    hashes: npt.NDArray[np.int64] | None = None
    noun: ClassVar[str] = "rows"

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, n: int | None) -> Self:
        """Return the first n of them."""
        return self if n is None else replace(self, rows=self.rows[:n])

    def without(self, others: Sequence[TaskRows[RowT]]) -> Self:
        """Return the rows whose texts are in none of the others."""
        known = np.concatenate([np.zeros(0, np.int64), *(rows.fingerprints() for rows in others)])
        seen = among(self.fingerprints()[: len(self)], known)
        return replace(self, rows=[row for row, no in zip(self.rows, seen, strict=True) if not no])

    def fingerprints(self) -> npt.NDArray[np.int64]:
        """Hash the texts of each row (case, white space and Unicode forms do not count), then the
        id of each that has one.
        """
        return hashed(self.rows) if self.hashes is None else self.hashes

    def seen_in(
        self, trained: npt.NDArray[np.int64], allowed: float = 0.0
    ) -> npt.NDArray[np.bool_]:
        """Find the rows that were trained on, by their texts and ids.

        Args:
            trained: The fingerprints of training rows; sorted ones take the least time.
            allowed: The share of the rows that may have been. Honest data has some where texts are
                short: requests recur, and so do headlines. More than half means the training file,
                or a part of it.

        Returns:
            Whether each row was trained on.

        Raises:
            DataError: More were than are allowed.
        """
        known = among(self.fingerprints(), trained)
        seen, ids = known[: len(self)].copy(), known[len(self) :]
        same = "text" if seen.any() else "id"
        named = [i for i, row in enumerate(self.rows) if row.id is not None] if ids.any() else []
        seen[[named[i] for i in np.flatnonzero(ids)]] = True
        hits = int(seen.sum())
        if hits > allowed * len(self):
            row = self.rows[int(np.flatnonzero(seen)[0])]
            told = f"{hits} of {len(self)} {self.noun} are training {self.noun} too"
            first = f", {row.id} the first" if row.line is None else ""
            raise DataError(
                self.source,
                f"{told} (the same {same}){first}",
                line=row.line,
                remedy="Take them out of the training file, or evaluate on another one",
            )
        return seen


def hashed(rows: Iterable[TaskRow]) -> npt.NDArray[np.int64]:
    """Return the fingerprints of rows, which are read once and not kept."""
    texts, ids = array("q"), array("q")
    for row in rows:
        texts.append(fingerprint("text", *map(normal, row.texts())))
        if row.id is not None:
            ids.append(fingerprint("id", row.id))
    return np.concatenate([np.array(texts, np.int64), np.array(ids, np.int64)])
