"""Pairs of word types that are linked in training: what makes a word pair of the test *seen*."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raxalign.errors import DataError
from raxalign.pairing.aligners.base import Links
from raxalign.pairing.schema import links_of, read_pairs, types_schema
from raxalign.pairing.words import Words
from raxalign.store.key import Json


def linked_types(src: Words, tgt: Words, links: Links) -> pa.Table:
    """The different (source, target) surface forms that links join, of `types_schema`, in order of
    the sides' vocabularies.
    """
    rows = links.rows()
    s = src.codes[src.offsets[rows] + links.src].astype(np.int64)
    t = tgt.codes[tgt.offsets[rows] + links.tgt].astype(np.int64)
    size = max(1, len(tgt.vocabulary))
    pairs = np.unique(s * size + t)
    columns = [
        src.vocabulary.take(pa.array(pairs // size)),
        tgt.vocabulary.take(pa.array(pairs % size)),
    ]
    return pa.Table.from_arrays(columns, schema=types_schema())


def write_types(types: pa.Table, path: Path) -> int:
    """Writes a table of `types_schema` as an Arrow IPC file; returns its number of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.ipc.new_file(str(path), types_schema()) as file:
        file.write_table(types, max_chunksize=1 << 17)
    return int(types.num_rows)


def read_types(path: Path) -> pa.Table:
    """A table of `types_schema`, memory-mapped. Raises `DataError` where there is none."""
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(path, f"is not a table of word types ({error})") from error
    if not table.schema.remove_metadata().equals(types_schema()):
        raise DataError(
            path, f"is not a table of word types: its columns are {', '.join(table.schema.names)}"
        )
    return table


def build_seen(
    linked_types_files: Iterable[Path],
    pairs_folders: Iterable[Path],
    dictionaries: Iterable[Sequence[tuple[str, str]]],
    folder: Path,
) -> dict[str, Json]:
    """Writes `<folder>/types.arrow`, the word types linked in runs of the word aligner or in
    word-pair datasets, as they are written, and `<folder>/dictionary.arrow`, the entries of
    dictionaries in lower case, since an entry of a dictionary counts for a word in any case.

    `linked_types_files` are the `linked_types.arrow` of held-out runs, `pairs_folders` dataset
    folders, `dictionaries` entries (source, target). Rows are sorted by source, then target.
    """
    tables = [read_types(path) for path in linked_types_files]
    for pairs in pairs_folders:
        table = read_pairs(pairs)
        tables.append(
            linked_types(Words(table.column("src")), Words(table.column("tgt")), links_of(table))
        )
    entries = [_entries(dictionary) for dictionary in dictionaries]
    return {
        "types": write_types(_distinct(tables), folder / "types.arrow"),
        "dictionary_entries": write_types(_distinct(entries), folder / "dictionary.arrow"),
    }


def _distinct(tables: Sequence[pa.Table]) -> pa.Table:
    """Each pair of types once, sorted."""
    types = pa.concat_tables(tables) if tables else types_schema().empty_table()
    types = types.group_by(["src", "tgt"]).aggregate([]).select(["src", "tgt"])
    return types.take(pc.sort_indices(types, [("src", "ascending"), ("tgt", "ascending")]))


def _entries(dictionary: Sequence[tuple[str, str]]) -> pa.Table:
    columns = [
        pa.array([entry[side].lower() for entry in dictionary], pa.string()) for side in (0, 1)
    ]
    return pa.Table.from_arrays(columns, schema=types_schema())
