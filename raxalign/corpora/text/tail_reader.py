"""The last sentence pairs of a corpus in little memory, to be gone through backwards."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from raxalign.corpora.base import SentencePair

_CHUNK = 4096
_SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "source": pa.large_string(),
        "target": pa.large_string(),
        "source_words": pa.list_(pa.string()),
        "target_words": pa.list_(pa.string()),
        "src_links": pa.list_(pa.int32()),
        "tgt_links": pa.list_(pa.int32()),
    }
)


@dataclass(frozen=True)
class Tail:
    """The end of a corpus: at least as many pairs as were asked for, in chunks that hold text as
    bytes, not as Python strings.

    `total` counts all pairs of the corpus; `whole` is true where all of them are here, and
    `has_links` where any pair that was read has gold links.
    """

    chunks: tuple[pa.RecordBatch, ...]
    total: int
    has_links: bool

    @property
    def whole(self) -> bool:
        """Whether no pair of the corpus was left out."""
        return bool(sum(chunk.num_rows for chunk in self.chunks) == self.total)

    def backwards(self) -> Iterator[SentencePair]:
        """Yield the pairs, the last one first."""
        for chunk in reversed(self.chunks):
            rows = zip(*(reversed(column.to_pylist()) for column in chunk.columns), strict=True)
            for number, source, target, source_words, target_words, src_links, tgt_links in rows:
                yield SentencePair(
                    number,
                    source,
                    target,
                    None if source_words is None else tuple(source_words),
                    None if target_words is None else tuple(target_words),
                    None if src_links is None else tuple(zip(src_links, tgt_links, strict=True)),
                )


def read_tail(pairs: Iterable[SentencePair], size: int | None) -> Tail:
    """Go through a corpus and keep its last `size` pairs (some more, up to a chunk); all of them
    for None.
    """
    kept: deque[pa.RecordBatch] = deque()
    pairs, total, n_kept, has_links = iter(pairs), 0, 0, False
    while chunk := list(islice(pairs, _CHUNK)):
        total, n_kept = total + len(chunk), n_kept + len(chunk)
        has_links = has_links or any(pair.links is not None for pair in chunk)
        kept.append(_packed(chunk))
        while size is not None and n_kept - kept[0].num_rows >= size and len(kept) > 1:
            n_kept -= kept.popleft().num_rows
    return Tail(tuple(kept), total, has_links)


def _packed(chunk: list[SentencePair]) -> pa.RecordBatch:
    columns = {
        "id": [pair.id for pair in chunk],
        "source": [pair.source for pair in chunk],
        "target": [pair.target for pair in chunk],
        "source_words": [pair.source_words for pair in chunk],
        "target_words": [pair.target_words for pair in chunk],
        "src_links": [None if pair.links is None else [i for i, _ in pair.links] for pair in chunk],
        "tgt_links": [None if pair.links is None else [j for _, j in pair.links] for pair in chunk],
    }
    return pa.RecordBatch.from_pydict(columns, schema=_SCHEMA)
