"""Labelled examples from local files: tab-separated with or without a header, or one JSON object
per line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from raxalign.corpora.readers.codes import own_code
from raxalign.corpora.readers.inspection import Refusals, Report, refuse
from raxalign.corpora.readers.lines import read_lines
from raxalign.errors import DataError
from raxalign.languages import same_language
from raxalign.tasks.classification.examples import Example, Examples
from raxalign.tasks.classification.scheme import ROLES, LabelScheme, Role, Split
from raxalign.tasks.classification.spooled import kept

_JSON = (".jsonl", ".ndjson", ".json")
_HIDDEN = "Accuracies need labels; XTREME's test files have none, XNLI's own (xnli.test.tsv) have"

Record = tuple[int, Mapping[Role, str]]
"""(line, role -> text) of a row."""


@dataclass(frozen=True)
class ExampleFile:
    """A local file and what is read of it: the examples of one language and split.

    `one_language` says that the file is of this language alone, so that it needs no column for the
    language.
    """

    path: Path
    lang: str
    split: Split
    one_language: bool
    scheme: LabelScheme

    def read(self) -> Examples:
        """Reads all examples; see `stream`."""
        unlabelled = 0

        def labelled() -> Iterator[Example]:
            nonlocal unlabelled
            for row in self.stream():
                if row is None:
                    unlabelled += 1
                else:
                    yield row

        rows = kept(labelled())
        return Examples(str(self.path), rows, unlabelled)

    def stream(self, report: Report = refuse) -> Iterator[Example | None]:
        """Streams the examples; None for each row without a label (``-``, ``-1`` or empty).

        A file called .jsonl, .ndjson or .json holds one object per line, any other is tab-separated
        without quoting: with a header that names the columns in any order, or without one. A column
        for the language picks the rows of the language, a column for the split those of the split,
        and columns like ``sentence1_my`` the texts of a language. Faults of a row go to `report`,
        as a `DataError` with file and line; what leaves nothing to read is raised.
        """
        if not self.path.is_file():
            raise DataError(self.path, "there is no such file")
        reader = _Reader(self, Refusals(report))
        with self.path.open("rb") as file:
            lines = enumerate(read_lines(file, self.path), 1)
            records = reader.objects if self.path.suffix in _JSON else reader.cells
            yield from reader.rows(records(lines))
        reader.require_rows()


@dataclass
class _Reader:
    """Reads one file for one language; counts what it found."""

    file: ExampleFile
    refused: Refusals
    found: int = 0
    unlabelled: list[int] = field(default_factory=list)
    others: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path, self.scheme = self.file.path, self.file.scheme
        self.header = _Header(self.file)

    def rows(self, records: Iterator[Record]) -> Iterator[Example | None]:
        """Yields the examples of the language and split."""
        for line, record in records:
            language = record.get("language")
            if language is not None and not self.header.is_of(language.strip()):
                self.others[language.strip()] = None
            elif "split" in record and not self.scheme.of_split(record["split"], self.file.split):
                continue
            elif self.scheme.is_unlabelled(record["label"]):
                self.unlabelled.append(line)
                yield None
            elif (label := self.scheme.label(record["label"])) is not None:
                self.found += 1
                id_ = record.get("id", "").strip() or None
                group = record.get("group", "").strip() or None
                yield Example(record["first"], record.get("second"), label, line, id_, group)
            else:
                told = f"unknown label {record['label']!r}"
                remedy = f"Labels are {self.scheme.known()}"
                if line == 1:
                    remedy += f". If it is a header's: a{self.header.needed()[1:]}"
                self.refuse(line, told, remedy)

    def cells(self, lines: Iterator[tuple[int, str]]) -> Iterator[Record]:
        """Yields the records of a tab-separated file."""
        first = next(lines, None)
        if first is None:
            raise DataError(self.path, "the file is empty")
        names = first[1].split("\t")
        expected = "as in the header"
        if self.header.is_one(names):
            columns = self.header.columns(names)
        else:
            order = self.scheme.columns.without_header()
            expected = f"({', '.join(order)})"
            self.header.require_width(names, order)
            names, columns = list(order), self.header.columns(order)
            lines = chain([first], lines)
        for line, text in lines:
            cells = text.split("\t")
            if len(cells) == len(names):
                yield line, {role: cells[column] for role, column in columns.items()}
            elif cells != [""] and not self.is_other(cells, columns):
                told = (
                    f"{len(cells)} column{'s'[: len(cells) != 1]}, expected {len(names)} {expected}"
                )
                self.refuse(line, told)

    def is_other(self, cells: Sequence[str], columns: Mapping[Role, int]) -> bool:
        """Whether a damaged row is of another language, which is not read."""
        at = columns.get("language", len(cells))
        return at < len(cells) and not self.header.is_of(cells[at].strip())

    def objects(self, lines: Iterator[tuple[int, str]]) -> Iterator[Record]:
        """Yields the records of a file with one JSON object per line."""
        columns: dict[Role, int] = {}
        known: list[str] = []
        line = 0
        for line, text in lines:
            if not text.strip():
                continue
            try:
                entry = json.loads(text)
            except json.JSONDecodeError as error:
                self.refuse(line, f"is not JSON ({error.msg})", "One object per line is expected")
                continue
            if not isinstance(entry, dict):
                self.refuse(line, "is not a JSON object")
                continue
            if list(entry) != known:  # mostly all objects have the same keys
                known = list(entry)
                columns = self.header.columns(known, line)
            values = ["" if value is None else str(value) for value in entry.values()]
            yield line, {role: values[column] for role, column in columns.items()}
        if line == 0:
            raise DataError(self.path, "the file is empty")

    def refuse(self, line: int, problem: str, remedy: str = "") -> None:
        """Reports a fault of one row."""
        self.refused(DataError(self.path, problem, line=line, remedy=remedy))

    def require_rows(self) -> None:
        """Refuses a file in which nothing was found, and nothing that would explain it."""
        if self.found or self.refused.count:
            return
        lang = self.file.lang
        if self.unlabelled:
            told = (
                f"has no labelled rows for {lang}: each of its {len(self.unlabelled)} labels"
                " is empty or -"
            )
            raise DataError(self.path, told, line=self.unlabelled[0], remedy=_HIDDEN)
        others = f"; its column `language` has {', '.join(self.others)}" if self.others else ""
        raise DataError(self.path, f"has no labelled rows for {lang}{others}")


class _Header:
    """The columns of a file by their names."""

    def __init__(self, file: ExampleFile) -> None:
        self.file, self.names = file, file.scheme.columns
        self.language = own_code(file.lang, file.scheme.languages)

    def is_of(self, language: str) -> bool:
        """Whether a cell of the column `language` is the file's language."""
        return language == self.language or same_language(language, self.language)

    def is_one(self, cells: Sequence[str]) -> bool:
        """Whether a first line names at least two of the columns that every file has."""
        lowered = [cell.strip().lower() for cell in cells]
        found = [
            any(
                cell == name or cell.startswith(f"{name}_")
                for cell in lowered
                for name in self._lowered(role)
            )
            for role in self.names.needed
        ]
        return sum(found) > 1

    def _lowered(self, role: Role) -> list[str]:
        return [name.lower() for name in self.names.names(role)]

    def columns(self, names: Sequence[str], line: int = 1) -> dict[Role, int]:
        """Finds the place of each column among the names. Raises `DataError` where a text or the
        label is missing.
        """
        lowered = [name.strip().lower() for name in names]
        columns = {}
        for role in ROLES:
            known = self._lowered(role)
            if role in self.names.texts:
                known = [f"{name}_{self.language.lower()}" for name in known] + known
            at = next((lowered.index(name) for name in known if name in lowered), None)
            if at is not None:
                columns[role] = at
        self._require(columns, names, line)
        if any(lowered[columns[role]] in self._lowered(role) for role in self.names.texts):
            self._require_language(columns, line)
        return columns

    def _require(self, columns: Mapping[Role, int], names: Sequence[str], line: int) -> None:
        listed, path = ", ".join(names), self.file.path
        if missing := [self.names.shown(r) for r in self.names.texts if r not in columns]:
            told = f"names no {' and no '.join(missing)} for {self.file.lang} among {listed}"
            raise DataError(path, told, line=line, remedy=self.needed())
        if "label" not in columns:
            either = " or ".join(reversed(self.names.names("label")))
            told = f"no labels: names no {either} among {listed}"
            raise DataError(path, told, line=line, remedy=_HIDDEN)

    def needed(self) -> str:
        """What a file needs, in a sentence."""
        shown, first = (
            [names(role) for role in self.names.needed]
            for names in (self.names.shown, lambda role: self.names.names(role)[0])
        )
        either = f"or {_listed(first)}; " if first != shown else ""
        own = f"{first[0]}_{self.language} for the texts of one language"
        return f"A file needs {_listed(shown)} ({either}{own})"

    def require_width(self, cells: Sequence[str], order: Sequence[str]) -> None:
        """Refuses a first line without a header that has other columns than are expected."""
        if len(cells) == len(order):
            return
        hidden = len(cells) == len(order) - 1 and not self.names.order
        problem = f"{'no labels: ' if hidden else ''}{len(cells)} column{'s'[: len(cells) != 1]}"
        remedy = _HIDDEN if hidden else "Other columns need a header that names them"
        told = f"{problem}, expected {len(order)} ({', '.join(order)})"
        raise DataError(self.file.path, told, line=1, remedy=remedy)

    def _require_language(self, columns: Mapping[Role, int], line: int) -> None:
        """Refuses columns that do not say of which language the texts are, in a file that is given
        for several.
        """
        if "language" not in columns and not self.file.one_language:
            raise DataError(
                self.file.path,
                f"is given for all languages, but has no `{self.names.shown('language')}` column",
                line=line,
                remedy=(
                    f"Write {{lang}} in the task's `data.{self.file.split}` in the grid, or add the"
                    " column"
                ),
            )


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]])
