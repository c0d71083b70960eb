"""The words of a bilingual dictionary as queries and candidates: entries, ranks, predictions and
metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from raxalign.corpora.readers.dictionary import read_dictionary
from raxalign.measured import count, share
from raxalign.tasks.vectors.accuracy import SearchDirection, with_directions
from raxalign.tasks.vectors.linked_words import Bools
from raxalign.tasks.vectors.ranks import Floats, Ints, Ranks

_CUTS = (1, 5, 10)


@dataclass(frozen=True)
class Entries:
    """A dictionary, lower-cased: its words on both sides, and the entries (E, 2) as numbers of
    those, each once.
    """

    src: Sequence[str]
    tgt: Sequence[str]
    pairs: Ints

    @classmethod
    def read(cls, path: Path, *, swap: bool) -> Entries:
        """Read a dictionary file; `swap` where the pivot's word comes first."""
        entries = list(
            dict.fromkeys(
                (src.lower(), tgt.lower()) for src, tgt in read_dictionary(path, swap=swap)
            )
        )
        numbers = [
            {word: i for i, word in enumerate(dict.fromkeys(entry[side] for entry in entries))}
            for side in (0, 1)
        ]
        pairs = np.array(
            [[numbers[0][src], numbers[1][tgt]] for src, tgt in entries], dtype=np.int64
        )
        return cls(list(numbers[0]), list(numbers[1]), pairs)

    def both_among(self, src_known: Bools, tgt_known: Bools) -> Bools:
        """Return which entries (E,) have both words among the known ones of each side."""
        return src_known[self.pairs[:, 0]] & tgt_known[self.pairs[:, 1]]

    def only(self, src_known: Bools, tgt_known: Bools) -> Entries:
        """Return the known words alone, numbered anew, and the entries that are left."""
        pairs = self.pairs[self.both_among(src_known, tgt_known)]
        src, tgt = (
            [word for word, has in zip(words, known, strict=True) if has]
            for words, known in ((self.src, src_known), (self.tgt, tgt_known))
        )
        numbers = [np.cumsum(known) - 1 for known in (src_known, tgt_known)]
        return Entries(src, tgt, np.stack([numbers[i][pairs[:, i]] for i in (0, 1)], axis=1))


@dataclass(frozen=True)
class RankedWords:
    """The ranks of one direction, with the words that they are about."""

    direction: SearchDirection
    queries: Sequence[str]
    candidates: Sequence[str]
    ranks: Ranks

    def table(self, label: str) -> pa.Table:
        """Make one row per query that has a translation among the candidates."""
        asked = np.flatnonzero(~np.isnan(self.ranks.rank))
        rank = self.ranks.rank[asked]
        columns = {
            "lang": [label] * len(asked),
            "split": ["test"] * len(asked),
            "direction": [self.direction] * len(asked),
            "query": [self.queries[i] for i in asked.tolist()],
            "gold": [self.candidates[i] for i in self.ranks.gold[asked].tolist()],
            "found": [self.candidates[i] for i in self.ranks.found[asked].tolist()],
            "rank": rank,
            "correct": rank <= 1,
        }
        return pa.table(columns, schema=predictions_schema())


_STRINGS = ("lang", "split", "direction", "query", "gold", "found")


def predictions_schema() -> pa.Schema:
    """Return the columns of the predictions."""
    return pa.schema(
        [
            *((name, pa.string()) for name in _STRINGS),
            ("rank", pa.float64()),
            ("correct", pa.bool_()),
        ]
    )


MEASURED = (
    *with_directions(
        share("mrr", "Mean of 1 / rank over the queries, the mean of both directions."),
        *(
            share(
                f"precision_at_{cut}",
                f"Share of queries whose rank is at most {cut}, the mean of both directions.",
            )
            for cut in _CUTS
        ),
    ),
    count("mrr_pairs", "Number of queries of both directions."),
)
"""What retrieval of dictionary words reports."""
MEANS = ("mrr", *(f"precision_at_{cut}" for cut in _CUTS))
"""The metrics that have means over languages."""


def rank_metrics(ranks: Sequence[Floats]) -> dict[str, float]:
    """Return values by metric, of the ranks to and from the pivot.

    Queries without a gold candidate (NaN) are left out.
    """
    if not ranks:
        return {}
    asked = [part[~np.isnan(part)] for part in ranks]
    both = {"mrr": [float((1 / part).mean()) for part in asked]}
    both |= {
        f"precision_at_{cut}": [float((part <= cut).mean()) for part in asked] for cut in _CUTS
    }
    values: dict[str, float] = {}
    for name, (to_pivot, from_pivot) in both.items():
        values |= {
            name: (to_pivot + from_pivot) / 2,
            f"{name}_to_pivot": to_pivot,
            f"{name}_from_pivot": from_pivot,
        }
    return {**values, "mrr_pairs": float(sum(len(part) for part in asked))}
