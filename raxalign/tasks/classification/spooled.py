"""Many examples without a Python object per example: the columns of a temporary file, which is
mapped.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, overload

from raxalign import lazy
from raxalign.running import Sentence
from raxalign.tasks.classification.examples import Example

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from raxalign.tasks.transfer.divided_rows import ChosenTexts
else:
    np = lazy.load("numpy")
    pa = lazy.load("pyarrow")

_IN_MEMORY = 50_000
"""Examples up to which there is a list of them."""
_CHUNK = 8192


def kept(rows: Iterable[Example]) -> Sequence[Example]:
    """Return examples as a list, or many as columns of a temporary file in the folder of `TMPDIR`,
    which goes with them.
    """
    given = iter(rows)
    first = list(islice(given, _IN_MEMORY + 1))
    return SpooledExamples.of(chain(first, given)) if len(first) > _IN_MEMORY else first


class SpooledExamples(Sequence[Example]):
    """Examples in a table, made one by one when they are read."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    @classmethod
    def of(cls, rows: Iterator[Example]) -> SpooledExamples:
        """Write examples to a temporary file, and map it."""
        kinds = {field.name: pa.string() for field in fields(Example)}
        schema = pa.schema({**kinds, "line": pa.int64()})
        handle, path = tempfile.mkstemp(prefix="raxalign-", suffix=".arrow")
        os.close(handle)
        try:
            with pa.ipc.new_stream(path, schema) as stream:
                while part := list(islice(rows, _CHUNK)):
                    columns = [[getattr(row, name) for row in part] for name in schema.names]
                    stream.write_batch(
                        pa.record_batch(
                            [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)],
                            schema=schema,
                        )
                    )
            return cls(pa.ipc.open_stream(pa.memory_map(path)).read_all())
        finally:
            os.unlink(path)  # noqa: PTH108  what is mapped stays until nothing reads it

    @classmethod
    def over(cls, rows: Sequence[Example]) -> SpooledExamples:
        """Return examples as they are where they are in a table, else written to one."""
        return rows if isinstance(rows, cls) else cls.of(iter(rows))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Example]:
        for batch in self.table.to_batches(max_chunksize=_CHUNK):
            yield from _examples(batch)

    @overload
    def __getitem__(self, which: int) -> Example: ...
    @overload
    def __getitem__(self, which: slice) -> SpooledExamples: ...
    def __getitem__(self, which: int | slice) -> Example | SpooledExamples:
        """Return an example, or some that follow each other."""
        if isinstance(which, slice):
            start, stop, _ = which.indices(len(self))
            return SpooledExamples(self.table.slice(start, max(stop - start, 0)))
        if not -len(self) <= which < len(self):
            raise IndexError(which)
        (found,) = _examples(self.table.slice(which % len(self), 1))
        return found

    def take(self, index: np.ndarray) -> Sequence[Example]:
        """Return the examples of these numbers."""
        return list(_examples(self.table.take(pa.array(index))))


def _examples(table: Any) -> Iterator[Example]:
    columns = (table.column(field.name).to_pylist() for field in fields(Example))
    for first, second, label, line, id_, group in zip(*columns, strict=True):
        yield Example(first, second, sys.intern(label), line, id_, group)


class Texts(Sequence[Sentence]):
    """The first or the second texts of some examples, divided into words when they are read."""

    def __init__(
        self,
        rows: Sequence[Example],
        chosen: np.ndarray | None,
        *,
        second: bool = False,
        divided: ChosenTexts | None = None,
    ) -> None:
        """`chosen` are the numbers of the examples (None: all of them), `divided` the pieces of the
        texts where these were made before. The texts themselves are then not there to read.
        """
        self.rows, self.chosen, self.second, self.divided = rows, chosen, second, divided

    def __len__(self) -> int:
        return len(self.rows) if self.chosen is None else len(self.chosen)

    @overload
    def __getitem__(self, which: int) -> Sentence: ...
    @overload
    def __getitem__(self, which: slice) -> list[Sentence]: ...
    def __getitem__(self, which: int | slice) -> Sentence | list[Sentence]:
        """Return a text, or a list of some."""
        if isinstance(which, int):
            return self._text(self.rows[which if self.chosen is None else int(self.chosen[which])])
        if self.chosen is None:
            found: Iterable[Example] = self.rows[which]
        elif isinstance(self.rows, SpooledExamples):
            found = self.rows.take(self.chosen[which])
        else:
            found = [self.rows[i] for i in self.chosen[which].tolist()]
        return [self._text(row) for row in found]

    def __iter__(self) -> Iterator[Sentence]:
        for start in range(0, len(self), _CHUNK):
            yield from self[start : start + _CHUNK]

    def _text(self, row: Example) -> Sentence:
        return Sentence.of_text((row.second or "") if self.second else row.first)


def labels(rows: Sequence[Example]) -> list[str]:
    """Return the labels of examples."""
    if not isinstance(rows, SpooledExamples):
        return [row.label for row in rows]
    found: list[str] = []
    for chunk in rows.table.column("label").chunks:
        coded = chunk.dictionary_encode()
        names = np.array([sys.intern(name) for name in coded.dictionary.to_pylist()], object)
        found += names[coded.indices.to_numpy()].tolist()
    return found


def column(rows: Sequence[Example], name: str) -> pa.ChunkedArray:
    """Return a field of all examples."""
    if isinstance(rows, SpooledExamples):
        return rows.table.column(name)
    kind = pa.int64() if name == "line" else pa.string()
    return pa.chunked_array([pa.array([getattr(row, name) for row in rows], kind)])


def has_seconds(rows: Sequence[Example]) -> bool:
    """Return whether all examples have a second text."""
    if isinstance(rows, SpooledExamples):
        return int(rows.table.column("second").null_count) == 0
    return all(row.second is not None for row in rows)
