"""Word pairs on disk: the Arrow schema, and what has to hold for its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raxalign.arrays import offsets_of
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import WORDS_TYPE, read_sentences, text_columns
from raxalign.errors import DataError
from raxalign.pairing.aligners.base import Links
from raxalign.pairing.words import Words
from raxalign.running import Sentence

LINKS_TYPE = pa.list_(pa.int32())

PAIRS_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("src", WORDS_TYPE),
        ("tgt", WORDS_TYPE),
        ("src_links", LINKS_TYPE),
        ("tgt_links", LINKS_TYPE),
    ]
)
"""The columns that every word-pair dataset has, one row per sentence pair: link k joins word
``src[src_links[k]]`` with word ``tgt[tgt_links[k]]``, positions 0-based.
"""

FULL_SCHEMA = pa.schema([*PAIRS_SCHEMA, *text_columns("src").items(), *text_columns("tgt").items()])
"""The columns that are written: those of `PAIRS_SCHEMA`, and the running text of both sides."""

TYPES_SCHEMA = pa.schema([("src", pa.string()), ("tgt", pa.string())])
"""A row a pair of word types (surface forms, cased), each once."""


def read_pairs(folder: Path) -> pa.Table:
    """The word pairs of a dataset folder, memory-mapped. Raises `DataError` where it is neither of
    `FULL_SCHEMA` nor of `PAIRS_SCHEMA`, which has no running text.
    """
    table = read_table(folder)
    schema = table.schema.remove_metadata()
    if not (schema.equals(FULL_SCHEMA) or schema.equals(PAIRS_SCHEMA)):
        raise DataError(
            folder, f"is not a word-pair dataset: its columns are {', '.join(table.schema.names)}"
        )
    return table


def links_of(table: pa.Table) -> Links:
    """The columns `src_links` and `tgt_links` in compact form. Raises `DataError` with the row's id
    where their lengths differ.
    """
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
            start >= 0 and words.text.startswith(word, start)
            for word, start in zip(words, words.starts, strict=True)
        ):
            raise _fault(table, row, f"has words in {name} that are not in {name}_text")


def link_columns(links: Links) -> tuple[pa.Array, pa.Array]:
    """The two columns of links, without a Python object a link."""
    offsets = pa.array(links.offsets.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(links.src)), pa.ListArray.from_arrays(
        offsets, pa.array(links.tgt)
    )


def _flat(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    return np.asarray(pc.list_flatten(column).to_numpy(), np.int32)


def _fault(table: pa.Table, row: int, problem: str) -> DataError:
    return DataError("word pairs", f"row {row} (id {table.column('id')[row]}) {problem}")
