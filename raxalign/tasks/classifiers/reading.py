"""Labelled examples from local files, and from data sets of the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from raxalign.corpora.readers.codes import own_code
from raxalign.corpora.readers.columns import read_columns, read_objects
from raxalign.corpora.readers.hub import check_columns
from raxalign.corpora.readers.inspection import Refusals, Report, refuse
from raxalign.errors import DataError
from raxalign.languages import same_language
from raxalign.tasks.classifiers.examples import Example, Examples, ExampleTable, with_texts
from raxalign.tasks.classifiers.scheme import ROLES, LabelScheme, Role
from raxalign.tasks.transfer.params import HubSet, Split
from raxalign.tasks.transfer.rows import left_out

_JSON = (".jsonl", ".ndjson", ".json")
_HIDDEN = "Accuracies need labels; XTREME's test files have none, XNLI's own (xnli.test.tsv) have"

Record = tuple[int, Mapping[Role, str]]
"""(line, role -> text) of a row."""


class ExampleFile:
    """A local file, from which the examples of one language and split are read.

    `alone` says that the file is of this language alone, so that it needs no column for the
    language.
    """

    def __init__(
        self, path: Path, lang: str, split: Split, scheme: LabelScheme, *, alone: bool
    ) -> None:
        self.path, self.lang, self.split, self.alone = path, lang, split, alone
        self.scheme, self.names = scheme, scheme.columns
        self.language = own_code(lang, scheme.languages)
        self.refused = Refusals()
        self.unlabelled: list[int] = []
        self.others: dict[str, None] = {}

    def read(self, report: Report = refuse) -> Examples:
        """Read all examples; those without a label (``-``, ``-1`` or empty) or a text are counted.

        A file called .jsonl, .ndjson or .json holds one object per line, any other has columns
        (`read_columns`): with a header that names them in any order, or without one. A column
        for the language picks the rows of the language, a column for the split those of the split,
        and columns like ``sentence1_my`` the texts of a language. Faults of a row go to `report`,
        as a `DataError` with file and line; what leaves nothing to read is raised.
        """
        if not self.path.is_file():
            raise DataError(self.path, "there is no such file")
        self.refused = Refusals(report)
        records = self._objects if self.path.suffix in _JSON else self._cells
        lost = list[int]()
        rows = ExampleTable.of(with_texts(self._rows(records()), self.names.no_text, lost))
        if not len(rows) and not self.refused.count:
            told = f"has no labelled rows for {self.lang}"
            if self.unlabelled:
                told += f": each of its {len(self.unlabelled)} labels is empty or -"
                raise DataError(self.path, told, line=self.unlabelled[0], remedy=_HIDDEN)
            others = f"; its column `language` has {', '.join(self.others)}" if self.others else ""
            raise DataError(self.path, f"{told}{others}")
        remarks = left_out(len(lost), "a text is lacking")
        return Examples(str(self.path), rows, len(self.unlabelled), remarks=remarks)

    def _rows(self, records: Iterator[Record]) -> Iterator[Example]:
        """Yield the labelled examples of the language and split."""
        for line, record in records:
            language = record.get("language")
            if language is not None and not self._is_own(language):
                self.others[language.strip()] = None
            elif "split" in record and not self.scheme.of_split(record["split"], self.split):
                continue
            elif self.scheme.is_unlabelled(record["label"]):
                self.unlabelled.append(line)
            elif (label := self.scheme.label(record["label"])) is not None:
                id_, group = (record.get(role, "").strip() or None for role in ("id", "group"))
                yield Example(record["first"], record.get("second"), label, line, id_, group)
            else:
                remedy = f"Labels are {self.scheme.known()}"
                if line == 1:
                    remedy += f". If it is a header's: a{self._needed()[1:]}"
                self._refuse(line, f"unknown label {record['label']!r}", remedy)

    def _cells(self) -> Iterator[Record]:
        """Yield the records of a file in columns."""
        lines = read_columns(self.path)
        first = next(lines, None)
        if first is None:
            raise DataError(self.path, "the file is empty")
        names, expected = first[1], "as in the header"
        if not self._is_header(names):
            lines, given = chain([first], lines), names
            names = list(self.names.order or map(self.names.shown, self.names.needed))
            expected = f"({', '.join(names)})"
            if len(given) != len(names):
                hidden = len(given) == len(names) - 1 and not self.names.order
                remedy = _HIDDEN if hidden else "Other columns need a header that names them"
                told = f"{_counted(given)}, expected {len(names)} {expected}"
                told = f"no labels: {told}" if hidden else told
                raise DataError(self.path, told, line=1, remedy=remedy)
        columns = self._columns(names)
        for line, cells in lines:
            if len(cells) == len(names):
                yield line, {role: cells[column] for role, column in columns.items()}
            elif cells != [""]:
                at = columns.get("language", len(cells))
                if at >= len(cells) or self._is_own(cells[at]):  # others are not read
                    self._refuse(line, f"{_counted(cells)}, expected {len(names)} {expected}")

    def _is_own(self, language: str) -> bool:
        """Return whether a cell of the column `language` is the file's language."""
        return language.strip() == self.language or same_language(language.strip(), self.language)

    def _objects(self) -> Iterator[Record]:
        """Yield the records of a file with one JSON object per line."""
        columns: dict[Role, int] = {}
        known = list[str]()
        for line, entry in read_objects(self.path, self.refused):
            if list(entry) != known:  # mostly all objects have the same keys
                known = list(entry)
                columns = self._columns(known, line)
            values = ["" if value is None else str(value) for value in entry.values()]
            yield line, {role: values[column] for role, column in columns.items()}
        if not known and not self.refused.count:
            raise DataError(self.path, "the file is empty")

    def _refuse(self, line: int, problem: str, remedy: str = "") -> None:
        self.refused(DataError(self.path, problem, line=line, remedy=remedy))

    def _is_header(self, cells: Sequence[str]) -> bool:
        """Return whether a first line names at least two of the columns that every file has."""
        lowered = [cell.strip().lower() for cell in cells]

        def named(name: str) -> bool:
            return any(cell == name or cell.startswith(f"{name}_") for cell in lowered)

        return sum(any(map(named, self._lowered(role))) for role in self.names.needed) > 1

    def _lowered(self, role: Role) -> list[str]:
        return [name.lower() for name in self.names.names(role)]

    def _columns(self, names: Sequence[str], line: int = 1) -> dict[Role, int]:
        """Return the place of each column among the names. Raises `DataError` where a text or the
        label is missing, or nothing says of which language the texts are.
        """
        lowered, columns = [name.strip().lower() for name in names], dict[Role, int]()
        for role in ROLES:
            known = self._lowered(role)
            if role in self.names.texts:
                known = [f"{name}_{self.language.lower()}" for name in known] + known
            at = next((lowered.index(name) for name in known if name in lowered), None)
            if at is not None:
                columns[role] = at
        told, remedy, listed = "", "", f"among {', '.join(names)}"
        plain = any(
            lowered[columns[r]] in self._lowered(r) for r in self.names.texts if r in columns
        )
        if missing := [self.names.shown(r) for r in self.names.texts if r not in columns]:
            told = f"names no {' and no '.join(missing)} for {self.lang} {listed}"
            remedy = self._needed()
        elif "label" not in columns:
            known = list(reversed(self.names.names("label")))
            told, remedy = f"no labels: names no {' or '.join(known)} {listed}", _HIDDEN
        elif plain and "language" not in columns and not self.alone:
            shown = self.names.shown("language")
            told = f"is given for all languages, but has no `{shown}` column"
            place = f"the task's `data.{self.split}` in the grid"
            remedy = f"Write {{lang}} in {place}, or add the column"
        if told:
            raise DataError(self.path, told, line=line, remedy=remedy)
        return columns

    def _needed(self) -> str:
        """Return what a file needs, in a sentence."""
        shown = [self.names.shown(role) for role in self.names.needed]
        first = [self.names.names(role)[0] for role in self.names.needed]
        either = f"or {_listed(first)}; " if first != shown else ""
        own = f"{first[0]}_{self.language} for the texts of one language"
        return f"A file needs {_listed(shown)} ({either}{own})"


def _counted(cells: Sequence[str]) -> str:
    return f"{len(cells)} column{'s'[: len(cells) != 1]}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]])


def read_hub(found: HubSet, split: str, scheme: LabelScheme, cache: Path | None) -> Examples:
    """Read the labelled examples of a data set of the hub, or of a local copy of its repository.
    Raises as `HubSet.read` does, and `DataError` where a column is missing, or a label is unknown.

    Labels are text, or numbers; a number means the name that the data set has for it, or else the
    label at that place.
    """
    where, table = found.read(split, cache)
    lowered = {name.lower(): name for name in table.column_names}
    needed = scheme.columns.needed
    columns = {
        role: lowered[name]
        for role in (*needed, "id", "group")
        for name in reversed(scheme.columns.names(role))
        if name in lowered
    }
    check_columns(where, table, [scheme.columns.shown(r) for r in needed if r not in columns])
    names = getattr(table.features[columns["label"]], "names", None)
    values = {role: table[column] for role, column in columns.items()}

    def rows() -> Iterator[Example]:
        for i, cell in enumerate(values["label"]):
            label = _label(where, i + 1, cell, scheme, names)
            if label is not None:
                texts = (values[role][i] for role in scheme.columns.texts)
                first, second = [*("" if text is None else str(text) for text in texts), None][:2]
                id_, group = (str(values[r][i]) if r in values else None for r in ("id", "group"))
                yield Example(str(first), second, label, i + 1, id_, group)

    lost = list[int]()
    kept = ExampleTable.of(with_texts(rows(), scheme.columns.no_text, lost))
    if not len(kept):
        raise DataError(where, "has no labelled rows")
    n, remarks = len(table) - len(kept) - len(lost), left_out(len(lost), "a text is lacking")
    return Examples(where, kept, n, remarks=remarks)


def _label(
    where: str, row: int, cell: object, scheme: LabelScheme, names: Sequence[str] | None
) -> str | None:
    """The label of a row, None where it has none."""
    label, named = None, names is not None and isinstance(cell, int)
    if cell is None or scheme.is_unlabelled(str(cell)) or (named and cell == -1):
        return None
    if names is not None and isinstance(cell, int) and 0 <= cell < len(names):
        label = scheme.label(names[cell])
    label = label or scheme.label(str(cell))
    if label is None:
        remedy = f"Labels are {scheme.known()}"
        raise DataError(where, f"unknown label {cell!r}", line=row, remedy=remedy)
    return label
