"""Labelled examples: in Arrow columns, as files with pieces, and as parts of a training."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raxalign.arrays import Ints
from raxalign.corpora.text.dataset import DatasetWriter, read_metadata, read_table
from raxalign.encoders.models.flat_pieces import write_pieces
from raxalign.errors import DataError
from raxalign.running import Sentence
from raxalign.tasks.transfer.lazy_lists import ARRAYS, LazyList, PreparedTexts
from raxalign.tasks.transfer.rows import TaskRows

CodeSwitching = Literal["none", "sentence"]
Texts = Sequence[Sequence[str]] | PreparedTexts
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


_FIELDS = tuple(entry.name for entry in fields(Example))
_SCHEMA = pa.schema({**dict.fromkeys(_FIELDS, pa.string()), "line": pa.int64()})


class ExampleTable(LazyList[Example]):
    """Examples in an Arrow table, made one by one when they are read."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table.num_rows, lambda place: next(_examples(table.slice(place, 1))))
        self.table = table

    @classmethod
    def of(cls, rows: Iterable[Example]) -> ExampleTable:
        """Keep examples, which are read once."""
        given, batches = iter(rows), []
        while part := list(islice(given, _BATCH)):
            columns = [pa.array([getattr(row, f.name) for row in part], f.type) for f in _SCHEMA]
            batches.append(pa.record_batch(columns, schema=_SCHEMA))
        return cls(pa.Table.from_batches(batches, _SCHEMA))

    def __iter__(self) -> Iterator[Example]:
        for batch in self.table.to_batches(max_chunksize=_BATCH):
            yield from _examples(batch)


def _examples(table: Any) -> Iterator[Example]:
    columns = (table.column(name).to_pylist() for name in _FIELDS)
    for first, second, label, line, id_, group in zip(*columns, strict=True):
        yield Example(first, second, sys.intern(label), line, id_, group)


@dataclass(frozen=True)
class Examples(TaskRows[Example]):
    """The examples of one language and split; those without a label are left out and counted.

    `pieces` are those of their texts, where they were made before (``first``, ``second``). The
    examples are then without these texts, and are read by their columns.
    """

    pieces: Mapping[str, PreparedTexts] = field(default_factory=dict)

    @cached_property
    def table(self) -> pa.Table:
        """Return the examples by columns."""
        rows = self.rows if isinstance(self.rows, ExampleTable) else ExampleTable.of(self.rows)
        return rows.table

    def first(self, n: int | None) -> Self:
        """Return the first n of them."""
        return self if n is None else replace(self, rows=ExampleTable(self.table.slice(0, n)))

    @property
    def text_names(self) -> Sequence[str]:
        """Return which texts the examples have."""
        paired = "second" in self.pieces if self.pieces else not self.table["second"].null_count
        return TEXTS if paired else TEXTS[:1]

    def texts(self, name: str, places: np.ndarray | None = None) -> Texts:
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


def with_texts(rows: Iterable[Example], no_text: str, lost: list[int]) -> Iterator[Example]:
    """Yield the examples of which no text is blank, or `no_text`; `lost` gets the others' lines."""
    for row in rows:
        texts = [row.first] if row.second is None else [row.first, row.second]
        if {"", no_text} & {text.strip() for text in texts}:
            lost.append(row.line)
        else:
            yield row


def write_examples(
    rows: Examples, lang: str, tokenizer: Any, threads: int, folder: Path
) -> dict[str, Any]:
    """Write training examples (see `Head.write_prepared`) as pieces, and columns without texts."""
    np.save(folder / _FINGERPRINTS, rows.fingerprints())
    texts = list(rows.text_names)
    notes = {
        "source": rows.source,
        "unlabelled": rows.left_out,
        "remarks": rows.remarks,
        "texts": texts,
    }
    _write(rows.table.drop_columns(list(TEXTS)), folder / _COLUMNS, notes)
    with tempfile.TemporaryDirectory(prefix="texts-", dir=folder) as work:
        _write(rows.table.select(texts), Path(work), {})
        columns = dict.fromkeys(texts, lang)
        return write_pieces(tokenizer, Path(work), columns, threads, folder, ARRAYS)


def _write(table: pa.Table, folder: Path, metadata: dict[str, Any]) -> None:
    with DatasetWriter(folder, table.schema, metadata) as writer:
        for batch in table.to_batches():
            writer.write(batch)


def read_examples(folder: Path, lang: str, source: str | None) -> Examples:
    """Return the examples that `write_examples` wrote, mapped (see `Head.read_prepared`)."""
    notes = read_metadata(folder / _COLUMNS)
    # what an earlier version wrote does not name its texts
    names = notes.get("texts") or [n for n in TEXTS if n == "first" or (folder / n).exists()]
    return Examples(
        source or notes["source"],
        ExampleTable(read_table(folder / _COLUMNS)),
        notes["unlabelled"],
        np.load(folder / _FINGERPRINTS, mmap_mode="r"),
        {name: PreparedTexts.mapped(folder / name, lang) for name in names},
        remarks=tuple(notes.get("remarks", ())),
    )


@dataclass(frozen=True)
class ExamplePart:
    """Examples whose first texts share a language, and second ones too; `numbers` are those of
    their labels, `units` numbers what must be in one batch (one example or two).
    """

    langs: tuple[str, str]
    texts: Sequence[Texts]
    numbers: np.ndarray
    units: np.ndarray


def training_parts(
    given: Mapping[str, Examples],
    labels: Sequence[str],
    pivot: str,
    code_switching: CodeSwitching,
    *,
    whole: bool = True,
) -> list[ExamplePart]:
    """Return the training examples of all languages, one unit per original example; `given` holds
    them by language, parallel to the pivot's where languages are mixed.

    With `sentence` switching (Pan et al. 2021, 3.3) each (p_xx, h_xx) of another language than the
    pivot becomes the two examples (p_xx, h_en) and (p_en, h_xx) of one unit, and is not used
    itself; the pivot's own stay. Raises `DataError` where examples are not parallel; without
    `whole` those that have no counterpart are left out.
    """
    parts, begin = list[ExamplePart](), 0
    for lang, own in given.items():
        numbers, places = own.numbers(labels), dict[str, np.ndarray]()
        mixes = [(lang, lang)]
        if lang != pivot and code_switching != "none":
            places[lang], places[pivot] = counterparts(own, given[pivot], whole=whole)
            mixes, numbers = [(lang, pivot), (pivot, lang)], numbers[places[lang]]
        units = np.arange(begin, begin + len(numbers))
        for mix in mixes:
            names = zip(own.text_names, mix, strict=False)
            texts = [given[of].texts(name, places.get(of)) for name, of in names]
            parts.append(ExamplePart(mix, texts, numbers, units))
        begin += len(units)
    return parts


_REMEDY = (
    "Sentence-level code-switching needs training files that are translations of the pivot's,"
    " line by line"
)


def counterparts(examples: Examples, pivot: Examples, *, whole: bool) -> tuple[Ints, Ints]:
    """Return the places of examples, and those of the pivot's examples of the same lines: their
    labels agree, and their ids where both have one. Raises `DataError` with file and line.
    """
    if whole and len(examples) != len(pivot):
        told = f"{len(examples)} labelled rows, but {pivot.source} has {len(pivot)}"
        raise DataError(examples.source, told, remedy=_REMEDY)
    lines, others = (side.table["line"].to_numpy() for side in (examples, pivot))
    order = np.argsort(others, kind="stable")
    at = np.searchsorted(others[order], lines, side="right") - 1
    there = (at >= 0) & (others[order][at] == lines)
    own, theirs = np.flatnonzero(there), order[at[there]]
    missing = len(lines) if not whole or there.all() else int(np.argmin(there))
    faults = [(missing, f"{pivot.source} has no row in this line")]
    for name in ("id", "label"):
        mine, other = examples.table[name].take(own), pivot.table[name].take(theirs)
        differs = pc.fill_null(pc.not_equal(mine, other), False).to_numpy()
        if differs.any():
            i = int(np.argmax(differs))
            told = f"the {name} is {mine[i].as_py()}, but {other[i].as_py()} in {pivot.source}"
            faults.append((int(own[i]), told))
    place, told = min(reversed(faults), key=lambda fault: fault[0])
    if place < len(lines):
        raise DataError(examples.source, told, line=int(lines[place]), remedy=_REMEDY)
    if not len(own):
        told = f"no row has a counterpart in {pivot.source}"
        raise DataError(examples.source, told, remedy=_REMEDY)
    return own, theirs
