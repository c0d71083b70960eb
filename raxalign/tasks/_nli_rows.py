"""Rows of natural language inference: premise, hypothesis and label, from files, the hub or the phrasebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from raxalign.corpora._hub import check_columns, load_rows
from raxalign.corpora._lines import read_lines
from raxalign.errors import DataError
from raxalign.tasks._fingerprints import fingerprint, normal

LABELS = ("entailment", "neutral", "contradiction")
"""Their numbers are those of the hub's data sets."""

_NUMBERS = {**{label: i for i, label in enumerate(LABELS)}, **{str(i): i for i in range(3)}, "contradictory": 2}
_UNLABELLED = {"-", "-1", ""}
"""What MultiNLI writes where the annotators did not agree."""
_NAMES = {
    "premise": ("premise", "sentence1"),
    "hypothesis": ("hypothesis", "hypo", "sentence2"),
    "label": ("label", "gold_label"),
    "language": ("language",),
    "id": ("pairid",),
}


@dataclass(frozen=True)
class Row:
    """One example; `id` is what the file names it by, or None; `line` is its 1-based line or row in `source`."""

    premise: str
    hypothesis: str
    label: int
    id: str | None
    line: int


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
        return Rows(self.source, [row for row, keep in zip(self.rows, fresh, strict=True) if keep], self.unlabelled)

    def words(self) -> tuple[list[list[str]], list[list[str]]]:
        """Premises and hypotheses, divided at white space; the tokenizer divides further, and all of a text without spaces."""
        return [row.premise.split() for row in self.rows], [row.hypothesis.split() for row in self.rows]

    def fingerprints(self) -> npt.NDArray[np.int64]:
        """A hash of each row's text (case, white space and Unicode forms do not count), and of the id of each that has one."""
        found = [fingerprint("text", normal(row.premise), normal(row.hypothesis)) for row in self.rows]
        found += [fingerprint("id", row.id) for row in self.rows if row.id is not None]
        return np.array(found, dtype=np.int64)


def refuse_overlap(trained: npt.NDArray[np.int64], evaluated: Rows) -> None:
    """Raises `DataError` where a row that is evaluated was trained on; `trained` are fingerprints, sorted or not."""
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


def read_tsv(path: Path, lang: str, *, one_language: bool) -> Rows:
    """The rows of a tab-separated file: with a header, columns by name (XNLI's and MultiNLI's names); without, premise, hypothesis, label.

    There is no quoting. A `language` column picks the rows of `lang`; without one, the file is of one language, which the caller says it
    is (`one_language`). Labels are names or 0, 1, 2. Raises `DataError` with file and line.
    """
    if not path.is_file():
        raise DataError(path, "there is no such file")
    with path.open("rb") as file:
        cells: Iterator[list[str]] = (line.split("\t") for line in read_lines(file, path))
        first = next(cells, None)
        if first is None:
            raise DataError(path, "the file is empty")
        header = _header(first)
        if header is None:
            header, cells, begin = {"premise": 0, "hypothesis": 1, "label": 2}, chain([first], cells), 1
        else:
            begin = 2
        if "language" not in header and not one_language:
            raise DataError(path, "is given for all languages, but has no `language` column", remedy="Write {lang} in the path, or add the column")
        width = len(first) if begin == 2 else 3
        return _collect(path, _in_language(enumerate(cells, begin), header, lang), header, width, lang)


def _header(cells: Sequence[str]) -> dict[str, int] | None:
    """Where the columns are, or None for a first line that names no premise, hypothesis and label."""
    lowered = [cell.strip().lower() for cell in cells]
    found = {role: lowered.index(name) for role, names in _NAMES.items() for name in names if name in lowered}
    return found if {"premise", "hypothesis", "label"} <= found.keys() else None


def _in_language(rows: Iterable[tuple[int, list[str]]], header: Mapping[str, int], lang: str) -> Iterator[tuple[int, list[str]]]:
    column = header.get("language")
    return ((line, cells) for line, cells in rows if column is None or len(cells) <= column or cells[column].strip() == lang)


def _collect(path: Path, cells_by_line: Iterable[tuple[int, list[str]]], header: Mapping[str, int], width: int, lang: str) -> Rows:
    rows, unlabelled = [], 0
    for line, cells in cells_by_line:
        if cells == [""]:
            continue
        if len(cells) != width:
            raise DataError(path, f"{len(cells)} columns, expected {width} (premise, hypothesis, label)", line=line)
        name = cells[header["label"]].strip().lower()
        if name in _UNLABELLED:
            unlabelled += 1
            continue
        if name not in _NUMBERS:
            raise DataError(path, f"unknown label {cells[header['label']]!r}", line=line, remedy=f"Labels are {', '.join(LABELS)}, or 0, 1, 2")
        id_ = cells[header["id"]].strip() or None if "id" in header else None
        rows.append(Row(cells[header["premise"]], cells[header["hypothesis"]], _NUMBERS[name], id_, line))
    if not rows:
        raise DataError(path, f"has no labelled rows for {lang}")
    return Rows(str(path), rows, unlabelled)


def read_hub(name: str, lang: str, split: str, revision: str | None, cache: Path | None) -> Rows:
    """The rows of a hub data set (or of a local copy of its repository) with a configuration a language. Raises `DataError`, `TransientError`."""
    hub_split = "validation" if split == "dev" else split
    where = f"{name}/{lang}:{hub_split}"
    table = load_rows(name, lang, hub_split, revision, cache)
    names = ("premise", "hypothesis", "label")
    check_columns(where, table, names)
    columns = [table[name] for name in names]
    rows = [Row(a, b, int(c), None, i) for i, (a, b, c) in enumerate(zip(*columns, strict=True), 1) if c in (0, 1, 2)]
    if not rows:
        raise DataError(where, "has no labelled rows")
    return Rows(where, rows, len(table) - len(rows))
