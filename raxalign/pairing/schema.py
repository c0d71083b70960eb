"""Word pairs on disk: the Arrow schema, and what has to hold for its rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.arrays import offsets_of
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import read_sentences, text_columns, words_type
from raxalign.corpora.text.words import clean
from raxalign.errors import DataError
from raxalign.pairing.aligners.base import Links
from raxalign.pairing.words import Words
from raxalign.running import Sentence

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
else:
    np = lazy.load("numpy")
    pa = lazy.load("pyarrow")


def links_type() -> pa.DataType:
    """Return the type of a column of links."""
    return pa.list_(pa.int32())


def pairs_schema() -> pa.Schema:
    """Return the columns that every word-pair dataset has, one row per sentence pair: link k joins
    word ``src[src_links[k]]`` with word ``tgt[tgt_links[k]]``, positions 0-based.
    """
    return pa.schema(
        [
            ("id", pa.int64()),
            ("src", words_type()),
            ("tgt", words_type()),
            ("src_links", links_type()),
            ("tgt_links", links_type()),
        ]
    )


def full_schema() -> pa.Schema:
    """Return the columns that are written: those of `pairs_schema`, and the running text of both
    sides.
    """
    texts = [*text_columns("src").items(), *text_columns("tgt").items()]
    return pa.schema([*pairs_schema(), *texts])


def types_schema() -> pa.Schema:
    """Return the columns of linked word types: one row per pair of surface forms, cased."""
    return pa.schema([("src", pa.string()), ("tgt", pa.string())])


def read_pairs(folder: Path) -> pa.Table:
    """The word pairs of a dataset folder, memory-mapped. Raises `DataError` where it does not have
    the columns of `pairs_schema`, or others than those of `full_schema`.
    """
    table = read_table(folder)
    fields = set(table.schema.remove_metadata())
    if not set(pairs_schema()) <= fields <= set(full_schema()):
        raise DataError(
            folder, f"is not a word-pair dataset: its columns are {', '.join(table.schema.names)}"
        )
    return table


def links_of(table: pa.Table) -> Links:
    """The columns `src_links` and `tgt_links` in compact form. Raises `DataError` with the row's id
    where their lengths differ.
    """
    import pyarrow.compute as pc

    src, tgt = table.column("src_links"), table.column("tgt_links")
    counts = np.asarray(pc.list_value_length(src).to_numpy(), np.int64)
    differ = counts != np.asarray(pc.list_value_length(tgt).to_numpy(), np.int64)
    if differ.any():
        raise _fault(
            table, int(np.argmax(differ)), "has different numbers of src_links and tgt_links"
        )
    offsets = offsets_of(counts)
    return Links(offsets, _flat(src), _flat(tgt))


def check(table: pa.Table) -> None:
    """Raises `DataError`, with the row's id, unless all links of the table are within their
    sentences, and all words at their starts in the running text.
    """
    links = links_of(table)
    rows = links.rows()
    for name, positions in (("src", links.src), ("tgt", links.tgt)):
        outside = (positions < 0) | (positions >= Words(table.column(name)).lengths[rows])
        if outside.any():
            k = int(np.argmax(outside))
            raise _fault(
                table,
                int(rows[k]),
                f"has a link to word {positions[k]} of {name}, which has fewer words",
            )
        _check_text(table, name)


def _check_text(table: pa.Table, name: str) -> None:
    for row, words in enumerate(read_sentences(table, name)):
        if isinstance(words, Sentence) and not all(
            start >= 0
            and (words.text.startswith(word, start) or word in clean(words.text[start:end]))
            for word, (start, end) in zip(words, words.spans(), strict=True)
        ):
            raise _fault(table, row, f"has words in {name} that are not in {name}_text")


def link_columns(links: Links) -> tuple[pa.Array, pa.Array]:
    """The two columns of links, without a Python object a link."""
    offsets = pa.array(links.offsets.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(links.src)), pa.ListArray.from_arrays(
        offsets, pa.array(links.tgt)
    )


def _flat(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    import pyarrow.compute as pc

    return np.asarray(pc.list_flatten(column).to_numpy(), np.int32)


def _fault(table: pa.Table, row: int, problem: str) -> DataError:
    return DataError("word pairs", f"row {row} (id {table.column('id')[row]}) {problem}")
