"""Precision at k of ranked answers."""

from __future__ import annotations

from pydantic import Field

from raxalign.lazy import pa
from raxalign.metrics.base import PerExample
from raxalign.sample import Array, column


class PrecisionAt(PerExample):
    """The share of queries whose right answer is among the first k, the mean of both directions.

    Relations: The task `dictionary_retrieval`, whose predictions have ranks, reports k = 1, 5 and
    10 by itself; choose it for another k.

    Example:
        tasks:
          dictionary_retrieval:
            dictionary: "dictionaries/{lang}-{pivot}.txt"
            metrics: {p3: {kind: precision_at, k: 3}}
    """

    VERSION = 1
    reads = frozenset({"rank"})
    unit = "share"

    class Params(PerExample.Params):
        """The depth of the list."""

        k: int = Field(5, ge=1)
        """Number of answers among which the right one may be."""

    params: Params

    def values(self, predictions: pa.Table) -> Array:
        """1 for each query whose right answer has rank k or better, 0 for the others."""
        return column(predictions, "rank") <= self.params.k
