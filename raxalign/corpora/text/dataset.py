"""Arrow datasets on disk in the layout of Hugging Face's `datasets`, written as a stream and read
memory-mapped, without importing it.

A folder holds `data-00000-of-00001.arrow` (an Arrow IPC stream), `dataset_info.json` and, written
last, `state.json`: `datasets.load_from_disk` opens it. Our own metadata is JSON under the schema's
key ``raxalign``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from raxalign.corpora.text.words import look_up_form
from raxalign.errors import DataError
from raxalign.lazy import pa, pc
from raxalign.store.key import Json, file_digest

METADATA_KEY = b"raxalign"
_DATA, _STATE, _INFO = "data-00000-of-00001.arrow", "state.json", "dataset_info.json"


class DatasetWriter:
    """Writes one dataset as a stream of record batches; a context manager.

    `metadata` may be added to until the end (counts are known only then). When the block raises, or
    a batch does not fit `schema`, the folder is left without anything that opens as a dataset.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "data"
    >>> schema = pa.schema({"words": pa.list_(pa.string())})
    >>> with DatasetWriter(folder, schema, {"lang": "de"}) as writer:
    ...     writer.write({"words": [["ein", "Haus"], ["ja"]]})
    >>> read_table(folder).num_rows, read_metadata(folder)
    (2, {'lang': 'de'})
    """

    def __init__(self, folder: Path, schema: pa.Schema, metadata: Mapping[str, Json]) -> None:
        self.folder, self.schema = Path(folder), schema.remove_metadata()
        self.metadata: dict[str, Json] = dict(metadata)
        self.n_rows = 0
        self._features = {field.name: _feature(field.type) for field in self.schema}

    def __enter__(self) -> DatasetWriter:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in (_STATE, _INFO, _DATA):
            (self.folder / name).unlink(missing_ok=True)
        self._part = self.folder / f"{_DATA}.part"
        self._begun_with = self._full_schema()
        self._stream = pa.ipc.new_stream(str(self._part), self._begun_with)
        return self

    def write(self, columns: Mapping[str, Sequence[Any]] | pa.RecordBatch) -> None:
        """Appends one record batch: a list for each column, or a batch of the schema's types.
        Raises `ValueError` where they differ.
        """
        if not isinstance(columns, pa.RecordBatch):
            if set(columns) != set(self.schema.names):
                raise ValueError(
                    f"{self.folder}: columns {sorted(columns)} were given,"
                    f" {sorted(self.schema.names)} are expected"
                )
            columns = pa.RecordBatch.from_arrays(
                [pa.array(columns[f.name], f.type) for f in self.schema], schema=self.schema
            )
        if not columns.schema.equals(self.schema, check_metadata=False):
            raise ValueError(
                f"{self.folder}: a batch of {columns.schema} does not fit {self.schema}"
            )
        self._stream.write_batch(columns.replace_schema_metadata(self._begun_with.metadata))
        self.n_rows += columns.num_rows

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._stream.close()
            if kind is None:
                self._publish()
        finally:
            self._part.unlink(missing_ok=True)

    def _publish(self) -> None:
        """Name the data and write two JSON files; `state.json`, which opening needs, comes last."""
        data, schema = self.folder / _DATA, self._full_schema()
        if schema.metadata == self._begun_with.metadata:
            self._part.replace(data)
        else:
            with (
                pa.ipc.open_stream(pa.memory_map(str(self._part))) as batches,
                pa.ipc.new_stream(str(data), schema) as stream,
            ):
                for batch in batches:
                    stream.write_batch(batch.replace_schema_metadata(schema.metadata))
        texts = ("citation", "description", "homepage", "license")
        info = dict.fromkeys(texts, "") | {"features": self._features}
        state: dict[str, Json] = {
            "_data_files": [{"filename": _DATA}],
            "_fingerprint": file_digest(data)[:16],
            **dict.fromkeys(("_format_columns", "_format_type", "_split")),
            "_format_kwargs": {},
            "_output_all_columns": False,
        }
        (self.folder / _INFO).write_text(json.dumps(info, indent=2), encoding="utf-8")
        (self.folder / _STATE).write_text(json.dumps(state, indent=2), encoding="utf-8")

    def _full_schema(self) -> pa.Schema:
        ours = json.dumps(self.metadata, ensure_ascii=False, sort_keys=True)
        theirs = json.dumps({"info": {"features": self._features}})
        return self.schema.with_metadata(
            {b"huggingface": theirs.encode(), METADATA_KEY: ours.encode()}
        )


def read_table(folder: Path) -> pa.Table:
    """Return the rows of a dataset folder, memory-mapped: nothing is copied until it is used.
    Raises `DataError` where it cannot be opened.
    """
    return pa.concat_tables(
        [_opened(file, lambda stream: stream.read_all()) for file in _data_files(Path(folder))]
    )


def _opened(file: Path, read: Callable[[Any], Any]) -> Any:
    """What `read` makes of the stream of a data file."""
    try:
        return read(pa.ipc.open_stream(pa.memory_map(str(file))))
    except (OSError, pa.ArrowException) as error:
        raise _damaged(file, error) from error


def check_whole(folder: Path) -> None:
    """Read every value of a dataset that was made elsewhere. Raises `DataError` where its bytes do
    not fit each other: positions that point out of the file would end the process when they are
    used.
    """
    try:
        read_table(folder).validate(full=True)
    except pa.ArrowException as error:
        raise _damaged(folder, error) from error


def word_counts(folder: Path, column: str, lang: str) -> Counter[str]:
    """Return how often each word of a language occurs in a column of lists of words, in the form in
    which words are looked up.
    """
    found: Counter[str] = Counter()
    for chunk in read_table(folder).column(column).chunks:
        counted = pc.value_counts(pc.list_flatten(chunk))
        words, counts = (counted.field(name).to_pylist() for name in ("values", "counts"))
        for word, count in zip(words, counts, strict=True):
            found[look_up_form(word, lang)] += count
    return found


def read_metadata(folder: Path) -> dict[str, Any]:
    """Return the metadata that `DatasetWriter` was given, empty for others; reads the schema."""
    metadata = _opened(_data_files(Path(folder))[0], lambda stream: stream.schema.metadata) or {}
    loaded: dict[str, Any] = json.loads(metadata.get(METADATA_KEY, b"{}"))
    return loaded


def _data_files(folder: Path) -> list[Path]:
    state = folder / _STATE
    try:
        files = [
            folder / entry["filename"]
            for entry in json.loads(state.read_text(encoding="utf-8"))["_data_files"]
        ]
    except FileNotFoundError as error:
        remedy = "Name a folder that raxalign wrote (`raxalign pairs`)"
        raise DataError(folder, f"is not a dataset: it has no {_STATE}", remedy=remedy) from error
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise _damaged(state, error) from error
    if not files:
        raise DataError(state, "the dataset has no data files")
    return files


def _damaged(file: Path, error: Exception) -> DataError:
    return DataError(file, f"the dataset cannot be read ({error})")


def _feature(kind: pa.DataType) -> dict[str, Any]:
    """The type in the words of `datasets.Features`."""
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        length = {"length": kind.list_size} if pa.types.is_fixed_size_list(kind) else {}
        return {"feature": _feature(kind.value_type), **length, "_type": "List"}
    names = {pa.float16(): "float16", pa.float32(): "float32", pa.float64(): "float64"}
    return {"dtype": names.get(kind, str(kind)), "_type": "Value"}
