"""Words to pieces: bulk tokenisation of words that are already apart, special pieces, truncation,
batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raxalign.caveats import listener
from raxalign.errors import RaxalignError

CHUNK = 4096
"""Sentences tokenised by one call: bounds what the tokenizer's own objects take."""


@dataclass(frozen=True, slots=True)
class PieceRow:
    """The pieces of a sentence or of a pair, with special pieces. `words` maps pieces to words (-1:
    special, or a word that truncation cut in two), counted on through both sentences; pieces from
    `first` on belong to the second sentence; `n_words` counts all words.
    """

    ids: np.ndarray
    words: np.ndarray
    first: int
    n_words: int
    languages: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def langs(self) -> np.ndarray:
        """The index into `languages` of every piece: the first separator is the first sentence's,
        the last one the second's.
        """
        return (np.arange(len(self.ids)) >= self.first).astype(np.int64)

    segments = langs


@dataclass(frozen=True)
class Template:
    """The special pieces that a tokenizer puts before, between and after sentences."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after_single: tuple[int, ...]
    after_pair: tuple[int, ...]


def read_template(tokenizer: Any) -> Template:
    """The special pieces of a tokenizer's post-processor; where it has none, [CLS] a [SEP] b [SEP],
    or nothing for a tokenizer that has no such pieces, as most decoders' have none.
    """
    backend, word = tokenizer.backend_tokenizer, [["a"], ["b"]]
    backend.no_truncation()
    backend.no_padding()
    single = backend.encode(word[0], is_pretokenized=True)
    pair = backend.encode(*word, is_pretokenized=True)
    if single.sequence_ids.count(None) == 0:
        cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        if cls is None and sep is None and tokenizer.mask_token_id is None:
            return Template((), (), (), ())
        if cls is None or sep is None:
            raise RaxalignError("the tokenizer has no [CLS] and [SEP], or names for them")
        return Template((cls,), (sep,), (sep,), (sep,))
    before, after_single = _around(single, 0, 0)
    _, between = _around(pair, 0, 0)
    _, after_pair = _around(pair, 1, 1)
    return Template(before, between, after_single, after_pair)


def _around(encoding: Any, first: int, last: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special pieces straight before sequence `first` and straight after sequence `last`."""
    sequence = encoding.sequence_ids
    start, end = sequence.index(first), len(sequence) - sequence[::-1].index(last)
    stop = next((i for i in range(end, len(sequence)) if sequence[i] is not None), len(sequence))
    begin = next((i + 1 for i in range(start - 1, -1, -1) if sequence[i] is not None), 0)
    return tuple(encoding.ids[begin:start]), tuple(encoding.ids[end:stop])


def bulk_pieces(
    tokenizer: Any, sentences: Sequence[Sequence[str]], lang: str | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(ids, word of each piece) of every sentence, no special pieces. A word such as ``[SEP]`` in
    the text is text, not a special piece.

    Unknown pieces are counted for `lang` (None: not at all) while caveats are collected.
    """
    backend = tokenizer.backend_tokenizer
    for start in range(0, len(sentences), CHUNK):
        # The tokenizer is shared: earlier truncation or padding is still switched on.
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        try:
            encodings = backend.encode_batch(
                [list(s) for s in sentences[start : start + CHUNK]],
                is_pretokenized=True,
                add_special_tokens=False,
            )
        finally:
            backend.encode_special_tokens = False
        count_unknown(tokenizer, lang, encodings)
        for encoding in encodings:
            yield (
                np.array(encoding.ids, dtype=np.int32),
                np.array(encoding.word_ids, dtype=np.int32),
            )


def count_unknown(tokenizer: Any, lang: str | None, encodings: Sequence[Any]) -> None:
    """Report how many pieces of some encodings without special pieces are the tokenizer's unknown
    one, while caveats are collected.
    """
    found = listener()
    if found is None or lang is None or tokenizer.unk_token_id is None:
        return
    ids = [encoding.ids for encoding in encodings]
    found.read(lang, sum(map(len, ids)), sum(part.count(tokenizer.unk_token_id) for part in ids))


def cut(pieces: tuple[np.ndarray, np.ndarray], room: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `room` pieces; of a word that loses some of its pieces, the others stay as context
    and no longer count as a word (-1).
    """
    ids, words = pieces
    if len(ids) <= room:
        return ids, words
    kept = words[:room].copy()
    if room > 0 and words[room] == kept[-1]:
        kept[kept == kept[-1]] = -1
    return ids[:room], kept


def share(first: int, second: int, room: int) -> tuple[int, int]:
    """How many pieces two sentences keep in `room`: the longer one is cut first, then both.

    >>> share(10, 3, 8), share(10, 9, 8), share(2, 3, 8)
    ((5, 3), (4, 4), (2, 3))
    """
    if first + second <= room:
        return first, second
    shorter = min(first, second, room // 2)
    return (
        (shorter, min(second, room - shorter))
        if first <= second
        else (min(first, room - shorter), shorter)
    )


def token_batches(lengths: Sequence[int] | np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Indices of rows, longest first, in batches of at most `budget` pieces with padding (one row
    at least); ties keep input order.
    """
    lengths = np.asarray(lengths)
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, int(lengths[order[start]])))
        yield order[start : start + size]
        start += size
