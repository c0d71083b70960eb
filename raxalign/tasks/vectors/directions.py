"""The two directions of a search between a language and the pivot, as metrics and predictions name
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from raxalign.measured import Measured

SearchDirection = Literal["to_pivot", "from_pivot"]
"""`to_pivot` searches the pivot's side for queries of the other language."""

DIRECTIONS: tuple[SearchDirection, ...] = ("to_pivot", "from_pivot")


def direction_of(metric: str) -> tuple[str, SearchDirection | None]:
    """Return a metric without its direction, and the direction (None: the mean of both).

    >>> direction_of("mrr_to_pivot"), direction_of("mrr")
    (('mrr', 'to_pivot'), ('mrr', None))
    """
    for direction in DIRECTIONS:
        if metric.endswith(f"_{direction}"):
            return metric.removesuffix(f"_{direction}"), direction
    return metric, None


def with_directions(*scores: Measured) -> Iterator[Measured]:
    """Yield the declarations of scores that are means of both directions, and those of each
    direction.
    """
    yield from scores
    for score in scores:
        yield Measured(
            f"{score.name}_{{{'|'.join(DIRECTIONS)}}}",
            f"The value of `{score.name}` in one direction.",
            score.better,
            "part",
            score.unit,
        )
