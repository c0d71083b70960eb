"""Rows of natural language inference: premise, hypothesis and label, from files, the hub or the
phrasebook.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from raxalign.corpora.readers.hub import check_columns, load_rows
from raxalign.errors import DataError
from raxalign.tasks.transfer.fingerprints import fingerprint, normal

LABELS = ("entailment", "neutral", "contradiction")
"""Their numbers are those of the hub's data sets."""


@dataclass(frozen=True)
class Row:
    """One example; `id` is what the file names it by, and `prompt` its premise, or None; `line` is
    its 1-based line or row in `source`.
    """

    premise: str
    hypothesis: str
    label: int
    id: str | None
    line: int
    prompt: str | None = None


@dataclass(frozen=True)
class Rows:
    """The examples of one language and split; rows without a label are left out and counted."""

    source: str
    rows: Sequence[Row]
    unlabelled: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, n: int | None) -> Rows:
        """The first n of them."""
        return Rows(self.source, self.rows[:n], self.unlabelled)

    def without(self, others: Iterable[Rows]) -> Rows:
        """The rows whose text stands in none of the others."""
        known = np.concatenate([other.fingerprints() for other in others])
        fresh = ~np.isin(self.fingerprints()[: len(self)], known)
        return Rows(
            self.source,
            [row for row, keep in zip(self.rows, fresh, strict=True) if keep],
            self.unlabelled,
        )

    def words(self) -> tuple[list[list[str]], list[list[str]]]:
        """Premises and hypotheses, divided at white space; the tokenizer divides further, and all
        of a text without spaces.
        """
        return [row.premise.split() for row in self.rows], [
            row.hypothesis.split() for row in self.rows
        ]

    def fingerprints(self) -> npt.NDArray[np.int64]:
        """A hash of each row's text (case, white space and Unicode forms do not count), and of the
        id of each that has one.
        """
        texts, ids = fingerprints(self.rows)
        return np.concatenate([texts, ids])


def fingerprints(rows: Iterable[Row]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(a hash of each row's text, a hash of the id of each that has one); the rows are read once
    and not kept.
    """
    texts, ids = array("q"), array("q")
    for row in rows:
        texts.append(fingerprint("text", normal(row.premise), normal(row.hypothesis)))
        if row.id is not None:
            ids.append(fingerprint("id", row.id))
    return np.array(texts, dtype=np.int64), np.array(ids, dtype=np.int64)


def refuse_overlap(trained: npt.NDArray[np.int64], evaluated: Rows) -> None:
    """Raises `DataError` where a row that is evaluated was trained on; `trained` are fingerprints,
    sorted or not.
    """
    known = np.isin(evaluated.fingerprints(), trained)
    if not known.any():
        return
    texts, ids = known[: len(evaluated)], known[len(evaluated) :]
    named = [i for i, row in enumerate(evaluated.rows) if row.id is not None]
    hits = sorted({*np.flatnonzero(texts).tolist(), *(named[i] for i in np.flatnonzero(ids))})
    same = "text" if texts.any() else "id"
    raise DataError(
        evaluated.source,
        f"{len(hits)} of {len(evaluated)} rows are training rows too (the same {same})",
        line=evaluated.rows[hits[0]].line,
        remedy="Take them out of the training file, or evaluate on another one",
    )


def read_hub(name: str, lang: str, split: str, revision: str | None, cache: Path | None) -> Rows:
    """The rows of a hub data set (or of a local copy of its repository) with a configuration a
    language. Raises `DataError`, `TransientError`.
    """
    hub_split = "validation" if split == "dev" else split
    where = f"{name}/{lang}:{hub_split}"
    table = load_rows(name, lang, hub_split, revision, cache)
    names = ("premise", "hypothesis", "label")
    check_columns(where, table, names)
    columns = [table[name] for name in names]
    rows = [
        Row(a, b, int(c), None, i)
        for i, (a, b, c) in enumerate(zip(*columns, strict=True), 1)
        if c in (0, 1, 2)
    ]
    if not rows:
        raise DataError(where, "has no labelled rows")
    return Rows(where, rows, len(table) - len(rows))
