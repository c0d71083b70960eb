"""Labelled examples: from files and the hub, with pieces, and as parts of a training."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, overload

import numpy as np

from raxalign.arrays import Ints
from raxalign.caveats import LeftOut
from raxalign.corpora.readers.codes import own_code
from raxalign.corpora.readers.columns import read_columns, read_objects
from raxalign.corpora.readers.hub import check_columns
from raxalign.corpora.readers.inspection import Refusals, Report, refuse
from raxalign.corpora.text.dataset import DatasetWriter, read_metadata, read_table
from raxalign.corpora.text.words import Sentence
from raxalign.encoders.models.pieces import Pieces, write_pieces
from raxalign.errors import DataError
from raxalign.languages import same_language
from raxalign.lazy import pa, pc
from raxalign.tasks.classifiers.scheme import Columns, LabelScheme
from raxalign.tasks.transfer.params import HubSet, Split
from raxalign.tasks.transfer.rows import TaskRows

_Texts = Sequence[Sequence[str]] | Pieces
"""Texts that white space divides into words, or their pieces."""
TEXTS = ("first", "second")
_BATCH = 8192
_COLUMNS, _FINGERPRINTS = "examples", "fingerprints.npy"


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

    def texts(self) -> tuple[str, ...]:
        """Return the texts by which a copy is recognised."""
        return self.first, self.second or ""


EntryT = TypeVar("EntryT")


class LazyList(Sequence[EntryT]):
    """Entries that are made one by one.

    >>> squares = LazyList(4, lambda place: place * place)
    >>> len(squares), squares[1:3], squares[-1]
    (4, [1, 4], 9)
    """

    def __init__(self, count: int, make: Callable[[int], EntryT]) -> None:
        """`make` returns the entry of a place from 0 to `count` - 1."""
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, which: int) -> EntryT: ...
    @overload
    def __getitem__(self, which: slice) -> list[EntryT]: ...
    def __getitem__(self, which: int | slice) -> EntryT | list[EntryT]:
        """Return an entry, or a list of some."""
        if isinstance(which, slice):
            return [self._make(place) for place in range(*which.indices(self._count))]
        return self._make(range(self._count)[which])


_FIELDS = tuple(entry.name for entry in fields(Example))


class ExampleTable(LazyList[Example]):
    """Examples in an Arrow table, made one by one when they are read."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table.num_rows, lambda place: next(_examples(table.slice(place, 1))))
        self.table = table

    @classmethod
    def of(cls, rows: Iterable[Example]) -> ExampleTable:
        """Keep examples, which are read once."""
        given, batches = iter(rows), []
        schema = pa.schema({**dict.fromkeys(_FIELDS, pa.string()), "line": pa.int64()})
        while part := list(islice(given, _BATCH)):
            columns = [pa.array([getattr(row, f.name) for row in part], f.type) for f in schema]
            batches.append(pa.record_batch(columns, schema=schema))
        return cls(pa.Table.from_batches(batches, schema))

    def __iter__(self) -> Iterator[Example]:
        for batch in self.table.to_batches(max_chunksize=_BATCH):
            yield from _examples(batch)


def _examples(table: Any) -> Iterator[Example]:
    columns = (table.column(name).to_pylist() for name in _FIELDS)
    for first, second, label, line, id_, group in zip(*columns, strict=True):
        yield Example(first, second, sys.intern(label), line, id_, group)


@dataclass(frozen=True)
class Examples(TaskRows[Example]):
    """The examples of one language and split; those without a label or a text are left out.

    `pieces` are those of their texts, where they were made before (``first``, ``second``). The
    examples are then without these texts, and are read by their columns.
    """

    pieces: Mapping[str, Pieces] = field(default_factory=dict)
    UNLABELLED: ClassVar = "without a label"
    TEXTLESS: ClassVar = "without a text"

    @cached_property
    def table(self) -> pa.Table:
        """Return the examples by columns."""
        rows = self.rows if isinstance(self.rows, ExampleTable) else ExampleTable.of(self.rows)
        return rows.table

    def first(self, n: int | None) -> Self:
        """Return the first n of them."""
        if n is None:
            return self
        rows, more = ExampleTable(self.table.slice(0, n)), max(len(self) - n, 0)
        return replace(self, rows=rows, unasked=self.unasked + more)

    @property
    def text_names(self) -> Sequence[str]:
        """Return which texts the examples have."""
        paired = "second" in self.pieces if self.pieces else not self.table["second"].null_count
        return TEXTS if paired else TEXTS[:1]

    def texts(self, name: str, places: np.ndarray | None = None) -> _Texts:
        """Return the first or the second texts of some examples (None: of all), divided at white
        space; the tokenizer divides further, and alone divides a text without spaces. Where their
        pieces were made before, these are returned.
        """
        if name in self.pieces:
            return replace(self.pieces[name], chosen=places)
        texts = self.table[name] if places is None else self.table[name].take(pa.array(places))
        return LazyList(len(texts), lambda i: Sentence.of_text(texts[i].as_py()))

    def label_names(self) -> list[str]:
        """Return the labels that examples have."""
        found: list[str] = self.table["label"].unique().to_pylist()
        return found

    def numbers(self, labels: Sequence[str]) -> Ints:
        """Return the place of each example's label among `labels`; others come after these."""
        known = pa.array(dict.fromkeys([*labels, *self.label_names()]), pa.string())
        found = pc.index_in(self.table["label"], known).to_numpy()
        return np.asarray(found, np.int64)

    @classmethod
    def of_rows(cls, source: str, rows: Iterable[Example]) -> Examples:
        """Keep examples, which are read once."""
        return cls(source, ExampleTable.of(rows))

    @classmethod
    def of_file(
        cls,
        path: Path,
        place: tuple[str, Split],
        scheme: LabelScheme,
        report: Report,
        *,
        alone: bool,
    ) -> Examples:
        """Read those of a language and split from a local file (see `ExampleFile`)."""
        return ExampleFile(path, *place, scheme, alone=alone).read(report)

    @classmethod
    def of_hub(cls, found: HubSet, split: str, scheme: LabelScheme, cache: Path | None) -> Examples:
        """Read the labelled examples of a data set of the hub, or of a local copy of its
        repository. Raises as `HubSet.read` does, and `DataError` where a column is missing, or a
        label is unknown.

        Labels are text, or numbers; a number means the name that the data set has for it, or else
        the label at that place.
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
        left = LeftOut()

        def rows() -> Iterator[Example]:
            for i, cell in enumerate(values["label"]):
                label = _label(where, i + 1, cell, scheme, names)
                if left.keep(label is not None, cls.UNLABELLED):
                    texts = [values[role][i] for role in scheme.columns.texts]
                    first, second = [*("" if t is None else str(t) for t in texts), None][:2]
                    own = {r: str(values[r][i]) for r in ("id", "group") if r in values}
                    id_, group = own.get("id"), own.get("group")
                    yield Example(str(first), second, str(label), i + 1, id_, group)

        kept = ExampleTable.of(_with_texts(rows(), scheme.columns.no_text, left))
        if not len(kept):
            raise DataError(where, "has no labelled rows")
        return Examples(where, kept, left)

    @staticmethod
    def parts(
        given: Mapping[str, Examples],
        labels: Sequence[str],
        pivot: str,
        code_switching: str,
        *,
        whole: bool = True,
    ) -> list[ExamplePart]:
        """Return the training examples of all languages, one unit per original example; `given`
        holds them by language, parallel to the pivot's where languages are mixed.

        With `sentence` switching (Pan et al. 2021, 3.3) each (p_xx, h_xx) of another language than
        the pivot becomes the two examples (p_xx, h_en) and (p_en, h_xx) of one unit, and is not
        used itself; the pivot's own stay. Raises `DataError` where examples are not parallel;
        without `whole` those that have no counterpart are left out.
        """
        parts, begin = list[ExamplePart](), 0
        for lang, own in given.items():
            numbers, places = own.numbers(labels), dict[str, np.ndarray]()
            mixes = [(lang, lang)]
            if lang != pivot and code_switching != "none":
                places[lang], places[pivot] = own.counterparts(given[pivot], whole=whole)
                mixes, numbers = [(lang, pivot), (pivot, lang)], numbers[places[lang]]
            units = np.arange(begin, begin + len(numbers))
            for mix in mixes:
                names = zip(own.text_names, mix, strict=False)
                texts = [given[of].texts(name, places.get(of)) for name, of in names]
                parts.append(ExamplePart(mix, texts, numbers, units))
            begin += len(units)
        return parts

    def counterparts(self, pivot: Examples, *, whole: bool) -> tuple[Ints, Ints]:
        """Return the places of these examples, and those of the pivot's examples of the same lines:
        their labels agree, and their ids where both have one. Raises `DataError` with file and
        line.
        """
        if whole and len(self) != len(pivot):
            told = f"{len(self)} labelled rows, but {pivot.source} has {len(pivot)}"
            raise DataError(self.source, told, remedy=_REMEDY)
        lines, others = (side.table["line"].to_numpy() for side in (self, pivot))
        order = np.argsort(others, kind="stable")
        at = np.searchsorted(others[order], lines, side="right") - 1
        there = (at >= 0) & (others[order][at] == lines)
        own, theirs = np.flatnonzero(there), order[at[there]]
        missing = len(lines) if not whole or there.all() else int(np.argmin(there))
        faults = [(missing, f"{pivot.source} has no row in this line")]
        for name in ("id", "label"):
            mine, other = self.table[name].take(own), pivot.table[name].take(theirs)
            differs = pc.fill_null(pc.not_equal(mine, other), False).to_numpy()
            if differs.any():
                i = int(np.argmax(differs))
                told = f"the {name} is {mine[i].as_py()}, but {other[i].as_py()} in {pivot.source}"
                faults.append((int(own[i]), told))
        place, told = min(reversed(faults), key=lambda fault: fault[0])
        if place < len(lines):
            raise DataError(self.source, told, line=int(lines[place]), remedy=_REMEDY)
        if not len(own):
            told = f"no row has a counterpart in {pivot.source}"
            raise DataError(self.source, told, remedy=_REMEDY)
        return own, theirs

    def write(self, lang: str, tokenizer: Any, threads: int, folder: Path) -> dict[str, Any]:
        """Write training examples as pieces, and columns without texts."""
        np.save(folder / _FINGERPRINTS, self.fingerprints())
        texts = list(self.text_names)
        notes = {"source": self.source, **self.dropped, "texts": texts}
        _write(self.table.drop_columns(list(TEXTS)), folder / _COLUMNS, notes)
        with tempfile.TemporaryDirectory(prefix="texts-", dir=folder) as work:
            _write(self.table.select(texts), Path(work), {})
            columns = dict.fromkeys(texts, lang)
            return write_pieces(tokenizer, Path(work), columns, threads, folder, Pieces.OF_ROWS)

    @classmethod
    def prepared(cls, folder: Path, lang: str, source: str | None) -> Examples:
        """Return the examples that `write` wrote, mapped."""
        notes = read_metadata(folder / _COLUMNS)
        # what an earlier version wrote does not name its texts
        names = notes.get("texts") or [n for n in TEXTS if n == "first" or (folder / n).exists()]
        return Examples(
            source or notes["source"],
            ExampleTable(read_table(folder / _COLUMNS)),
            hashes=np.load(folder / _FINGERPRINTS, mmap_mode="r"),
            pieces={name: cls.mapped(folder / name, lang) for name in names},
            **cls.as_dropped(notes, cls.UNLABELLED, notes.get("unlabelled", 0)),
        )


def _with_texts(rows: Iterable[Example], no_text: str, left: LeftOut) -> Iterator[Example]:
    """Yield the examples of which no text is blank, or `no_text`."""
    for row in rows:
        texts = [row.first] if row.second is None else [row.first, row.second]
        blank = {"", no_text} & {text.strip() for text in texts}
        if left.keep(not blank, Examples.TEXTLESS):
            yield row


def _write(table: pa.Table, folder: Path, metadata: dict[str, Any]) -> None:
    with DatasetWriter(folder, table.schema, metadata) as writer:
        for batch in table.to_batches():
            writer.write(batch)


@dataclass(frozen=True)
class ExamplePart:
    """Examples whose first texts share a language, and second ones too; `numbers` are those of
    their labels, `units` numbers what must be in one batch (one example or two).
    """

    langs: tuple[str, str]
    texts: Sequence[_Texts]
    numbers: np.ndarray
    units: np.ndarray


_REMEDY = (
    "Sentence-level code-switching needs training files that are translations of the pivot's,"
    " line by line"
)


_JSON = (".jsonl", ".ndjson", ".json")
_HIDDEN = "Accuracies need labels; XTREME's test files have none, XNLI's own (xnli.test.tsv) have"

Record = tuple[int, Mapping[str, str]]
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
        self.refused, self.left = Refusals(), LeftOut()
        self.unlabelled = 0  # the line of the first row without a label
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
        rows = ExampleTable.of(_with_texts(self._rows(records()), self.names.no_text, self.left))
        if not len(rows) and not self.refused.count:
            told = f"has no labelled rows for {self.lang}"
            if hidden := self.left[Examples.UNLABELLED]:
                told += f": each of its {hidden} labels is empty or -"
                raise DataError(self.path, told, line=self.unlabelled, remedy=_HIDDEN)
            others = f"; its column `language` has {', '.join(self.others)}" if self.others else ""
            raise DataError(self.path, f"{told}{others}")
        return Examples(str(self.path), rows, self.left)

    def _rows(self, records: Iterator[Record]) -> Iterator[Example]:
        """Yield the labelled examples of the language and split."""
        for line, record in records:
            language = record.get("language")
            if language is not None and not self._is_own(language):
                self.others[language.strip()] = None
            elif "split" in record and not self.scheme.of_split(record["split"], self.split):
                continue
            elif not self.left.keep(
                not self.scheme.is_unlabelled(record["label"]), Examples.UNLABELLED
            ):
                self.unlabelled = self.unlabelled or line
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
        columns: dict[str, int] = {}
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

    def _lowered(self, role: str) -> list[str]:
        return [name.lower() for name in self.names.names(role)]

    def _columns(self, names: Sequence[str], line: int = 1) -> dict[str, int]:
        """Return the place of each column among the names. Raises `DataError` where a text or the
        label is missing, or nothing says of which language the texts are.
        """
        lowered, columns = [name.strip().lower() for name in names], dict[str, int]()
        for role in Columns.ROLES:
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
