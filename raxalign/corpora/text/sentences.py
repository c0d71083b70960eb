"""Columns of sentences in a dataset: words, the running text that they stand in, and where each of
them starts and ends.

A column ``src`` of words has the columns ``src_text``, ``src_starts`` and ``src_ends`` with it. All
are null where the text of a sentence is not known, and `src_ends` where the words stand in the text
as they are. Datasets of other programs may be without these columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

from raxalign.corpora.text.words import Sentence
from raxalign.errors import DataError
from raxalign.lazy import pa


def words_type() -> pa.DataType:
    """Return the type of a column of words."""
    return pa.list_(pa.string())


def text_columns(column: str) -> dict[str, pa.DataType]:
    """Return the names and types of the columns that hold the running text of a column of words.

    >>> list(text_columns("src"))
    ['src_text', 'src_starts', 'src_ends']
    """
    places = pa.list_(pa.int32())
    return {f"{column}_text": pa.string(), f"{column}_starts": places, f"{column}_ends": places}


def sentence_columns(column: str) -> dict[str, pa.DataType]:
    """Return the names and types of all columns of sentences: words and running text."""
    return {column: words_type(), **text_columns(column)}


def cells(column: str, words: Sequence[str]) -> dict[str, Any]:
    """Return what the row of a sentence holds in the columns of `sentence_columns`.

    >>> cells("src", Sentence.of_text("Ja, gern."))
    {'src': ['Ja,', 'gern.'], 'src_text': 'Ja, gern.', 'src_starts': (0, 4), 'src_ends': None}
    >>> cells("src", ["ja"])
    {'src': ['ja'], 'src_text': None, 'src_starts': None, 'src_ends': None}
    """
    known: tuple[Any, ...] = (None, None, None)
    if isinstance(words, Sentence):
        known = words.text, words.starts, words.ends
    return {column: words, **dict(zip(text_columns(column), known, strict=True))}


def read_sentences(table: pa.Table, column: str) -> list[list[str]]:
    """Return the sentences of a column of words: a `Sentence` where the table has the running text,
    otherwise a list of words. A column of strings holds running text, which white space divides.

    Raises `DataError` where a text does not have a start, or an end, for each word.
    """
    if pa.types.is_string(table.schema.field(column).type):
        return [Sentence.of_text(text) for text in table.column(column).to_pylist()]
    words: list[list[str]] = table.column(column).to_pylist()
    text_of, starts_of, ends_of = text_columns(column)
    if not {text_of, starts_of} <= set(table.column_names):
        return words
    texts, starts = (table.column(name).to_pylist() for name in (text_of, starts_of))
    there = ends_of in table.column_names and table.column(ends_of).null_count < len(table)
    ends = table.column(ends_of).to_pylist() if there else repeat(None, len(table))
    return [
        own if text is None else _sentence(own, text, places, f"{column}, row {row}")
        for row, (own, text, *places) in enumerate(zip(words, texts, starts, ends, strict=True))
    ]


def sentence_chunks(table: pa.Table, column: str, size: int) -> Iterator[list[list[str]]]:
    """Yield the sentences of a column as `read_sentences` returns them, `size` at a time."""
    for start in range(0, len(table), size):
        yield read_sentences(table.slice(start, size), column)


def _sentence(
    words: list[str], text: str, places: Sequence[list[int] | None], where: str
) -> Sentence:
    starts, ends = places
    for found, what in ((starts or (), "starts"), (words if ends is None else ends, "ends")):
        if len(found) != len(words):
            raise DataError(
                "sentences", f"{where}: {len(words)} words have {len(found)} {what} in their text"
            )
    return Sentence(words, text, starts or (), ends)
