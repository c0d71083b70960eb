"""Sentences of words as columns: what word aligners read without one Python string per word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, overload

from raxalign.arrays import Int32s, Ints, offsets_of
from raxalign.corpora.text.sentences import (
    cells,
    read_sentences,
    sentence_columns,
    text_columns,
    words_type,
)
from raxalign.lazy import np, pa, pc

_NAME = "words"


class Words(Sequence[Sequence[str]]):
    """A sequence of sentences, each a list of words, over an Arrow column; words are also there as
    numbers into a vocabulary. `read` returns sentences with their running text.

    >>> words = Words.of([["Das", "Haus"], ["das"]])
    >>> words.codes.tolist(), words.vocabulary.to_pylist(), words.offsets.tolist()
    ([0, 1, 2], ['Das', 'Haus', 'das'], [0, 2, 3])
    >>> words.folded(lowercase=True)[0].tolist()
    [0, 1, 0]
    """

    def __init__(self, column: pa.ChunkedArray, running: pa.Table | None = None) -> None:
        """`running` has a column of texts, one of the words' starts and one of their ends, with
        null where the text of a sentence is not known (None: no text is).
        """
        self.column, self.running = column, running

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]]) -> Words:
        """The sentences as columns (as they are, where they are that already)."""
        if isinstance(sentences, Words):
            return sentences
        rows = [cells(_NAME, sentence) for sentence in sentences]
        return cls.of_table(pa.Table.from_pylist(rows, pa.schema(sentence_columns(_NAME))), _NAME)

    @classmethod
    def of_table(cls, table: pa.Table, name: str) -> Words:
        """The sentences of a column of words, with their running text where the table has it."""
        columns = list(text_columns(name))
        if not set(columns[:2]) <= set(table.column_names):
            return cls(table.column(name))
        if columns[2] not in table.column_names:  # written before words had ends of their own
            table = table.append_column(columns[2], pa.nulls(len(table), pa.list_(pa.int32())))
        return cls(table.column(name), table.select(columns))

    @classmethod
    def join(cls, parts: Sequence[Words]) -> Words:
        """The sentences of all parts, one after the other; nothing is copied."""
        chunks = [chunk for part in parts for chunk in part.column.chunks]
        return cls(pa.chunked_array(chunks, words_type()), pa.concat_tables(map(_running, parts)))

    def read(self, rows: Ints) -> list[list[str]]:
        """The sentences of some rows; a `Sentence` where the running text is known."""
        table = _running(self).append_column(_NAME, self.column)
        return read_sentences(table.take(rows), _NAME)

    def __len__(self) -> int:
        return len(self.column)

    def __iter__(self) -> Iterator[Sequence[str]]:
        for chunk in self.column.chunks:
            for start in range(0, len(chunk), 4096):
                yield from chunk.slice(start, 4096).to_pylist()

    @overload
    def __getitem__(self, index: int) -> Sequence[str]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[str]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.column[index].as_py()

    @cached_property
    def lengths(self) -> Ints:
        """The number of words of each sentence."""
        return np.asarray(pc.list_value_length(self.column).to_numpy(), np.int64)

    @cached_property
    def offsets(self) -> Ints:
        """Where each sentence begins in `codes`, int64 (n + 1,)."""
        return offsets_of(self.lengths)

    @property
    def codes(self) -> Int32s:
        """The words of all sentences as numbers into `vocabulary`."""
        return self._encoded[0]

    @property
    def vocabulary(self) -> pa.Array:
        """The different words, in order of their first occurrence."""
        return self._encoded[1]

    @cached_property
    def _encoded(self) -> tuple[Int32s, pa.Array]:
        encoded = pc.list_flatten(self.column).dictionary_encode().unify_dictionaries()
        if not encoded.num_chunks:
            return np.zeros(0, np.int32), pa.array([], pa.string())
        codes = np.concatenate(
            [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
        )
        return codes.astype(np.int32, copy=False), encoded.chunk(0).dictionary

    def folded(self, *, lowercase: bool) -> tuple[Int32s, int]:
        """The words as numbers, equal where they differ in case only; and how many there are."""
        if not lowercase:
            return self.codes, len(self.vocabulary)
        numbers: dict[str, int] = {}
        lowered = map(str.lower, self.vocabulary.to_pylist())
        fold = np.array([numbers.setdefault(word, len(numbers)) for word in lowered], np.int32)
        return fold[self.codes], len(numbers)


def _running(words: Words) -> pa.Table:
    """The columns of running text of some sentences, null where the text is not known."""
    texts = text_columns(_NAME)
    if words.running is None:
        nulls = [pa.nulls(len(words), kind) for kind in texts.values()]
        return pa.table(dict(zip(texts, nulls, strict=True)))
    return words.running.rename_columns(list(texts))
