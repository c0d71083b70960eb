"""The rows of one language and split, the hashes by which a row is known again, and pieces of rows
that were made before.
"""

from __future__ import annotations

import hashlib
import unicodedata
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from raxalign.arrays import Bools, Ints
from raxalign.caveats import Caveats, LeftOut
from raxalign.encoders.models.pieces import Pieces
from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.lazy import np

RowT = TypeVar("RowT", bound=Any)
"""A row has `texts()`, by which a copy is recognised, its `id` in the whole data set (None: nothing
names it), and its 1-based `line` or row in the source (None: the source has none).
"""


@dataclass(frozen=True)
class TaskRows(Generic[RowT]):
    """Rows of one language and split, what of their source is not among them without the user's
    asking, and their fingerprints where these were made before: rows are then without their texts.
    `unasked` counts the rows beyond those that were asked for, and `said` are remarks on what is
    read otherwise than it is written.
    """

    source: str
    rows: Sequence[RowT]
    left_out: LeftOut = field(default_factory=LeftOut)
    hashes: Ints | None = None
    unasked: int = field(default=0, kw_only=True)
    said: tuple[str, ...] = field(default=(), kw_only=True)
    noun: ClassVar[str] = "rows"

    def __len__(self) -> int:
        return len(self.rows)

    def write(self, lang: str, tokenizer: Any, threads: int, folder: Path) -> Mapping[str, object]:
        """Divide rows in a language into pieces by a tokenizer and a number of processes, and write
        these and the fingerprints of rows into a folder. Return the numbers of rows, words and
        pieces, and of unknown ones among these.
        """
        raise NotImplementedError(f"{type(self).__name__} are divided where they are trained on")

    @classmethod
    def prepared(cls, folder: Path, lang: str, source: str | None) -> Self:
        """Return the rows of a folder that `write` filled, in a language; `source` is their name in
        messages (None: that which was written). Raises `DataError` for another language.
        """
        raise NotImplementedError(f"{cls.__name__} are divided where they are trained on")

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said of the rows: what was left out of the source, or read otherwise."""
        return (*self.said, *self.left_out.remarks(self.noun, len(self) + self.unasked))

    @property
    def note(self) -> dict[str, str]:
        """The note on the remarks in a record; empty where there are none."""
        return Caveats.warning(self.remarks)

    @property
    def dropped(self) -> dict[str, Any]:
        """What a folder of pieces records of the remarks; `as_dropped` reads it."""
        return {"dropped": self.left_out, "unasked": self.unasked, "remarks": self.said}

    @staticmethod
    def as_dropped(record: Mapping[str, Any], why: str, lost: int) -> dict[str, Any]:
        """Return the fields of rows that `dropped` recorded. What an earlier version recorded
        counts the `lost` rows of one kind alone, and has sentences on the others.
        """
        counts = LeftOut(record.get("dropped", {why: lost} if lost else {}))
        unasked, said = record.get("unasked", 0), tuple(record.get("remarks", ()))
        return {"left_out": counts, "unasked": unasked, "said": said}

    @staticmethod
    def no_pieces(folder: Path, what: str) -> DataError:
        """Return the fault of a folder that was prepared for something else."""
        remedy = "Remove the folder, and run the grid again to make it"
        return DataError(folder, f"does not have the subword tokens of {what}", remedy=remedy)

    @staticmethod
    def mapped(folder: Path, lang: str) -> Pieces:
        """Return the pieces of texts that are in a folder, mapped. Raises `DataError` where it has
        none of the language.
        """
        found = Pieces.mapped(folder, lang)
        if found is None:
            raise TaskRows.no_pieces(folder, f"texts in {lang}")
        return found

    @staticmethod
    def encoded(encoder: TransformerEncoder, sides: Sequence[Pieces]) -> RowSource:
        """Return the rows that an encoder makes of texts, or of first and second texts, by whose
        tokenizer the pieces were made. Unknown pieces are reported while caveats are collected.
        """
        for side in sides:
            side.report(side.lang, encoder.tokenizer.unk_token_id)
        return RowSource.of(encoder, sides)

    def first(self, n: int | None) -> Self:
        """Return the first n of them."""
        if n is None:
            return self
        return replace(self, rows=self.rows[:n], unasked=self.unasked + max(len(self) - n, 0))

    def without(self, others: Sequence[TaskRows[RowT]]) -> Self:
        """Return the rows whose texts are in none of the others."""
        known = np.concatenate([np.zeros(0, np.int64), *(rows.fingerprints() for rows in others)])
        seen, left = among(self.fingerprints()[: len(self)], known), LeftOut(self.left_out)
        rows = zip(self.rows, seen, strict=True)
        kept = [row for row, no in rows if left.keep(not no, "in a split that is evaluated too")]
        return replace(self, rows=kept, left_out=left)

    def fingerprints(self) -> Ints:
        """Hash the texts of each row (case, white space and Unicode forms do not count), then the
        id of each that has one. Rows are read once and not kept.
        """
        if self.hashes is not None:
            return self.hashes
        texts, ids = array("q"), array("q")
        for row in self.rows:
            texts.append(fingerprint("text", *map(_normal, row.texts())))
            if row.id is not None:
                ids.append(fingerprint("id", row.id))
        return np.concatenate([np.array(texts, np.int64), np.array(ids, np.int64)])

    def seen_in(self, trained: Ints, allowed: float = 0.0) -> Bools:
        """Return whether each row was trained on, by texts and ids. `trained` are the fingerprints
        of training rows; sorted ones take the least time.

        Raises `DataError` where more were than the share that is `allowed`. Honest data has some
        where texts are short: requests recur, and so do headlines. More than half means the
        training file, or a part of it.
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


def _normal(text: str) -> str:
    """The text without case, white space and Unicode's forms, which may differ between copies."""
    return "".join(unicodedata.normalize("NFKC", text).lower().split())


def fingerprint(*parts: str) -> int:
    """A signed 64-bit hash of strings."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def unit(words: Iterable[str]) -> int:
    """Hashes the words of the pivot's sentence to 63 bits, so that examples with one such sentence
    can be resampled together.
    """
    return (fingerprint(*words) >> 1) & 0x7FFF_FFFF_FFFF_FFFF


def among(found: Ints, known: Ints) -> Bools:
    """Whether each hash is one of those that are known; these may have any order, but sorted ones
    take the least time.

    >>> among(np.array([5, 1, 9]), np.array([9, 2, 5])).tolist()
    [True, False, True]
    """
    if not len(known):
        return np.zeros(len(found), bool)
    ordered = known if bool((known[:-1] <= known[1:]).all()) else np.sort(known)
    places = np.searchsorted(ordered, found)
    return np.asarray(ordered[np.minimum(places, len(ordered) - 1)] == found)
