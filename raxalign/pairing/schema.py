"""Word pairs on disk: their Arrow schema, what has to hold for their rows, and the pairs of word
types that are linked in training, which make a word pair of the test *seen*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from raxalign.arrays import distinct, offsets_of
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import read_sentences, text_columns, words_type
from raxalign.corpora.text.words import clean
from raxalign.errors import DataError
from raxalign.lazy import np, pa, pc
from raxalign.pairing.aligners.base import Links
from raxalign.pairing.words import Words
from raxalign.running import Sentence
from raxalign.store.key import Json


def pairs_schema() -> pa.Schema:
    """Return the columns that every word-pair dataset has, one row per sentence pair: link k joins
    word ``src[src_links[k]]`` with word ``tgt[tgt_links[k]]``, positions 0-based.
    """
    links = pa.list_(pa.int32())
    words = {"id": pa.int64(), "src": words_type(), "tgt": words_type()}
    return pa.schema({**words, "src_links": links, "tgt_links": links})


def full_schema() -> pa.Schema:
    """Return the columns that are written: those of `pairs_schema`, and the running text of both
    sides.
    """
    return pa.schema([*pairs_schema(), *text_columns("src").items(), *text_columns("tgt").items()])


def read_pairs(folder: Path) -> pa.Table:
    """Return the word pairs of a dataset folder, memory-mapped. Raises `DataError` where it does
    not have the columns of `pairs_schema`, or others than those of `full_schema`.
    """
    table = read_table(folder)
    fields = set(table.schema.remove_metadata())
    if not set(pairs_schema()) <= fields <= set(full_schema()):
        columns = ", ".join(table.schema.names)
        raise DataError(folder, f"is not a word-pair dataset: its columns are {columns}")
    return table


def links_of(table: pa.Table) -> Links:
    """Return a table's links in compact form. Raises `DataError` for a row of unequal columns."""
    columns = table.column("src_links"), table.column("tgt_links")
    counts, others = (np.asarray(pc.list_value_length(part).to_numpy(), int) for part in columns)
    differ = counts != others
    if differ.any():
        problem = "has different numbers of src_links and tgt_links"
        raise _fault(table, int(np.argmax(differ)), problem)
    src, tgt = (np.asarray(pc.list_flatten(part).to_numpy(), np.int32) for part in columns)
    return Links(offsets_of(counts), src, tgt)


def check(table: pa.Table) -> None:
    """Raise `DataError`, with the row's id, unless all links of the table are within their
    sentences, and all words at their starts in the running text.
    """
    links = links_of(table)
    rows = links.rows()
    for name, positions in (("src", links.src), ("tgt", links.tgt)):
        outside = (positions < 0) | (positions >= Words(table.column(name)).lengths[rows])
        if outside.any():
            k = int(np.argmax(outside))
            problem = f"has a link to word {positions[k]} of {name}, which has fewer words"
            raise _fault(table, int(rows[k]), problem)
        for row, words in enumerate(read_sentences(table, name)):
            if isinstance(words, Sentence) and not all(
                start >= 0
                and (words.text.startswith(word, start) or word in clean(words.text[start:end]))
                for word, (start, end) in zip(words, words.spans(), strict=True)
            ):
                raise _fault(table, row, f"has words in {name} that are not in {name}_text")


def link_columns(links: Links) -> tuple[pa.Array, pa.Array]:
    """Return the two columns of links, without a Python object per link."""
    offsets = pa.array(links.offsets.astype(np.int32))
    src, tgt = (
        pa.ListArray.from_arrays(offsets, pa.array(side)) for side in (links.src, links.tgt)
    )
    return src, tgt


def _fault(table: pa.Table, row: int, problem: str) -> DataError:
    return DataError("word pairs", f"row {row} (id {table.column('id')[row]}) {problem}")


def types_schema() -> pa.Schema:
    """Return the columns of linked word types: one row per pair of surface forms, cased."""
    return pa.schema([("src", pa.string()), ("tgt", pa.string())])


def linked_types(src: Words, tgt: Words, links: Links) -> pa.Table:
    """Return the different pairs of words that links join, in order of the vocabularies."""
    rows, size = links.rows(), max(1, len(tgt.vocabulary))
    s = src.codes[src.offsets[rows] + links.src].astype(np.int64)
    t = tgt.codes[tgt.offsets[rows] + links.tgt].astype(np.int64)
    pairs = distinct(s * size + t)
    columns = [
        src.vocabulary.take(pa.array(pairs // size)),
        tgt.vocabulary.take(pa.array(pairs % size)),
    ]
    return pa.Table.from_arrays(columns, schema=types_schema())


def write_types(types: pa.Table, path: Path) -> int:
    """Write a table of `types_schema` as an Arrow IPC file; return its number of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.ipc.new_file(str(path), types_schema()) as file:
        file.write_table(types, max_chunksize=1 << 17)
    return int(types.num_rows)


def read_types(path: Path) -> pa.Table:
    """Return a table of `types_schema`, memory-mapped. Raises `DataError` where there is none."""
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(path, f"is not a table of word types ({error})") from error
    if not table.schema.remove_metadata().equals(types_schema()):
        columns = ", ".join(table.schema.names)
        raise DataError(path, f"is not a table of word types: its columns are {columns}")
    return table


def build_seen(
    linked_types_files: Iterable[Path],
    pairs_folders: Iterable[Path],
    dictionaries: Iterable[Sequence[tuple[str, str]]],
    folder: Path,
) -> dict[str, Json]:
    """Write `<folder>/types.arrow`, the word types linked in runs of the word aligner or in
    word-pair datasets, as they are written, and `<folder>/dictionary.arrow`, the
    entries of dictionaries, which count for a word in any case.

    `linked_types_files` are the `linked_types.arrow` of held-out runs, `pairs_folders` dataset
    folders, `dictionaries` entries (source, target). Rows are sorted by source, then target.
    """
    tables = [read_types(path) for path in linked_types_files]
    for table in map(read_pairs, pairs_folders):
        src, tgt = (Words(table.column(name)) for name in ("src", "tgt"))
        tables.append(linked_types(src, tgt, links_of(table)))
    entries = [{"src": src, "tgt": tgt} for found in dictionaries for src, tgt in found]
    lowered = pa.Table.from_pylist(entries, types_schema())
    return {
        "types": write_types(_distinct(tables), folder / "types.arrow"),
        "dictionary_entries": write_types(_distinct([lowered]), folder / "dictionary.arrow"),
    }


def _distinct(tables: Sequence[pa.Table]) -> pa.Table:
    """Return each pair of types once, sorted."""
    types = pa.concat_tables(tables) if tables else types_schema().empty_table()
    types = types.group_by(["src", "tgt"]).aggregate([]).select(["src", "tgt"])
    return types.take(pc.sort_indices(types, [("src", "ascending"), ("tgt", "ascending")]))
