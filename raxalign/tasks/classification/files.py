"""Rows of natural language inference from local files: tab-separated with or without a header, or
one JSON object per line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from raxalign.corpora.readers.inspection import Refusals, Report, refuse
from raxalign.corpora.readers.lines import read_lines
from raxalign.errors import DataError
from raxalign.tasks.classification.rows import LABELS, Row, Rows

_NUMBERS = {
    **{label: i for i, label in enumerate(LABELS)},
    **{str(i): i for i in range(3)},
    "contradictory": 2,
}
_UNLABELLED = {"-", "-1", ""}
"""What MultiNLI writes where the annotators did not agree."""
_TEXTS = {"premise": ("sentence1", "premise"), "hypothesis": ("sentence2", "hypo", "hypothesis")}
_NAMES = {
    **_TEXTS,
    "label": ("gold_label", "label"),
    "language": ("language",),
    "id": ("pairid",),
    "prompt": ("promptid",),
}
"""The names of each column in published files, the first one before the others; a text's may end in
``_`` and a language.
"""
_WITHOUT_HEADER = {"premise": 0, "hypothesis": 1, "label": 2}
_JSON = (".jsonl", ".ndjson", ".json")
_NEEDED = (
    "A file needs premise, hypothesis and label (or sentence1, sentence2 and gold_label;"
    " sentence1_{lang} for the texts of one language)"
)
_HIDDEN = "Accuracies need labels; XTREME's test files have none, XNLI's own (xnli.test.tsv) have"

Record = tuple[int, Mapping[str, str]]
"""(line, role -> text) of a row; the roles are the keys of `_NAMES`."""


def read_file(path: Path, lang: str, *, one_language: bool) -> Rows:
    """The rows of a file for one language; see `examples`."""
    found = list(examples(path, lang, one_language=one_language))
    return Rows(str(path), [row for row in found if row is not None], found.count(None))


def examples(
    path: Path, lang: str, *, one_language: bool, report: Report = refuse
) -> Iterator[Row | None]:
    """The rows of a file for one language, streamed; None for each row without a label (``-``,
    ``-1`` or empty).

    A file called .jsonl, .ndjson or .json holds one object per line, any other is tab-separated
    without quoting: with a header, columns by name in any order (XNLI's, MultiNLI's, myXNLI's);
    without, premise, hypothesis, label. Labels are names or 0, 1, 2. A `language` column picks the
    rows of `lang`, and columns like ``sentence1_my`` its texts; without either the file is of one
    language, which the caller says it is (`one_language`). Faults of a row go to `report`, as a
    `DataError` with file and line; what leaves nothing to read is raised.
    """
    if not path.is_file():
        raise DataError(path, "there is no such file")
    reader = _Reader(path, lang, one_language, Refusals(report))
    with path.open("rb") as file:
        lines = enumerate(read_lines(file, path), 1)
        yield from reader.rows(
            reader.objects(lines) if path.suffix in _JSON else reader.cells(lines)
        )
    reader.require_rows()


@dataclass
class _Reader:
    """Reads one file for one language; counts what it found."""

    path: Path
    lang: str
    one_language: bool
    refused: Refusals
    found: int = 0
    unlabelled: list[int] = field(default_factory=list)
    others: dict[str, None] = field(default_factory=dict)

    def rows(self, records: Iterator[Record]) -> Iterator[Row | None]:
        """The rows of the language."""
        for line, record in records:
            language = record.get("language")
            if language is not None and language.strip() != self.lang:
                self.others[language.strip()] = None
                continue
            name = record["label"].strip().lower()
            if name in _UNLABELLED:
                self.unlabelled.append(line)
                yield None
            elif name in _NUMBERS:
                self.found += 1
                ids = (record.get(role, "").strip() or None for role in ("id", "prompt"))
                id_, prompt = ids
                yield Row(
                    record["premise"], record["hypothesis"], _NUMBERS[name], id_, line, prompt
                )
            else:
                self.refuse(
                    line,
                    f"unknown label {record['label']!r}",
                    f"Labels are {', '.join(LABELS)}, or 0, 1, 2",
                )

    def cells(self, lines: Iterator[tuple[int, str]]) -> Iterator[Record]:
        """The records of a tab-separated file."""
        first = next(lines, None)
        if first is None:
            raise DataError(self.path, "the file is empty")
        names = first[1].split("\t")
        columns = self.columns(names) if _is_header(names) else _WITHOUT_HEADER
        if columns is _WITHOUT_HEADER:
            self.require_language(columns, 1)
            lines = chain([first], lines)
            if len(names) != 3:
                problem = "no labels: 2 columns" if len(names) == 2 else f"{len(names)} columns"
                remedy = (
                    _HIDDEN if len(names) == 2 else "Other columns need a header that names them"
                )
                raise DataError(
                    self.path,
                    f"{problem}, expected 3 (premise, hypothesis, label)",
                    line=1,
                    remedy=remedy,
                )
        for line, text in lines:
            cells = text.split("\t")
            if len(cells) == len(names):
                yield line, {role: cells[column] for role, column in columns.items()}
            elif cells != [""] and not self.is_other(cells, columns):
                told = (
                    "as in the header"
                    if columns is not _WITHOUT_HEADER
                    else "(premise, hypothesis, label)"
                )
                self.refuse(line, f"{len(cells)} columns, expected {len(names)} {told}")

    def is_other(self, cells: Sequence[str], columns: Mapping[str, int]) -> bool:
        """Whether a damaged row is of another language, which is not read."""
        at = columns.get("language", len(cells))
        return at < len(cells) and cells[at].strip() != self.lang

    def objects(self, lines: Iterator[tuple[int, str]]) -> Iterator[Record]:
        """The records of a file with one JSON object per line."""
        columns: dict[str, int] = {}
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
                columns = self.columns(known, line)
            values = list(entry.values())
            yield (
                line,
                {
                    role: "" if values[column] is None else str(values[column])
                    for role, column in columns.items()
                },
            )
        if line == 0:
            raise DataError(self.path, "the file is empty")

    def columns(self, names: Sequence[str], line: int = 1) -> dict[str, int]:
        """Role -> where it is among the names. Raises `DataError` where a text or the label is not
        there.
        """
        lowered = [name.strip().lower() for name in names]
        columns = {}
        for role, known in _NAMES.items():
            own = [f"{name}_{self.lang.lower()}" for name in known] if role in _TEXTS else []
            at = next((lowered.index(name) for name in (*own, *known) if name in lowered), None)
            if at is not None:
                columns[role] = at
        listed = ", ".join(names)
        if missing := [role for role in _TEXTS if role not in columns]:
            remedy = _NEEDED.replace("{lang}", self.lang)
            raise DataError(
                self.path,
                f"names no {' and no '.join(missing)} for {self.lang} among {listed}",
                line=line,
                remedy=remedy,
            )
        if "label" not in columns:
            raise DataError(
                self.path,
                f"no labels: names no label or gold_label among {listed}",
                line=line,
                remedy=_HIDDEN,
            )
        if any(lowered[columns[role]] in known for role, known in _TEXTS.items()):
            self.require_language(columns, line)
        return columns

    def require_language(self, columns: Mapping[str, int], line: int) -> None:
        """Refuses columns that do not say of which language the texts are, in a file that is given
        for several.
        """
        if "language" not in columns and not self.one_language:
            remedy = "Write {lang} in the path, or add the column"
            raise DataError(
                self.path,
                "is given for all languages, but has no `language` column",
                line=line,
                remedy=remedy,
            )

    def refuse(self, line: int, problem: str, remedy: str = "") -> None:
        """Reports a fault of one row."""
        self.refused(DataError(self.path, problem, line=line, remedy=remedy))

    def require_rows(self) -> None:
        """Refuses a file in which nothing was found, and nothing that would explain it."""
        if self.found or self.refused.count:
            return
        if self.unlabelled:
            told = (
                f"has no labelled rows for {self.lang}: each of its {len(self.unlabelled)} labels"
                " is empty or -"
            )
            raise DataError(self.path, told, line=self.unlabelled[0], remedy=_HIDDEN)
        others = f"; its column `language` has {', '.join(self.others)}" if self.others else ""
        raise DataError(self.path, f"has no labelled rows for {self.lang}{others}")


def _is_header(cells: Sequence[str]) -> bool:
    """Whether a first line names at least two of premise, hypothesis and label."""
    lowered = [cell.strip().lower() for cell in cells]
    roles = ("premise", "hypothesis", "label")
    return (
        sum(
            any(
                cell == name or cell.startswith(f"{name}_")
                for cell in lowered
                for name in _NAMES[role]
            )
            for role in roles
        )
        > 1
    )
