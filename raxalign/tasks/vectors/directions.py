"""The two directions of a search: names, accuracies over both, and samples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from raxalign.arrays import Bools, Ints
from raxalign.lazy import np, pa
from raxalign.measured import Measured
from raxalign.sample import Sample, clusters_of, column, summed, units_of

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
    """Yield the declarations of means of both directions, and those of each direction."""
    yield from scores
    for score in scores:
        name = f"{score.name}_{{{'|'.join(DIRECTIONS)}}}"
        about = f"The value of `{score.name}` in one direction."
        yield Measured(name, about, score.better, "part", score.unit)


def mean_accuracy(parts: Sequence[tuple[Bools, Ints]]) -> tuple[float, float | None]:
    """Return the mean of several accuracies, and its standard error clustered by sentence (None
    where there is only one sentence).

    Word pairs of one sentence share their context, and both directions ask about the same pairs, so
    the binomial error of independent examples would be too small. With u_s the sum over the parts
    of a sentence's residuals (right answers minus accuracy times examples) divided by the part's
    examples, the variance is S/(S-1) sum u_s^2 over S sentences: the linearised variance of a ratio
    (Cochran 1977, eq. 6.4), the common cluster-robust one.

    Args:
        parts: for each accuracy, what was right (examples,) and the sentence of each example
            (examples,); no part is empty.

    >>> mean_accuracy([(np.array([True, True, False, False]), np.array([0, 0, 1, 1]))])
    (0.5, 0.5)
    """
    sentences, units = np.unique(np.concatenate([rows for _, rows in parts]), return_inverse=True)
    residuals, values, begin = np.zeros(len(sentences)), [], 0
    for correct, rows in parts:
        value = float(correct.mean())
        weights = (correct - value) / len(correct) / len(parts)
        residuals += np.bincount(units[begin : begin + len(rows)], weights, len(sentences))
        values.append(value)
        begin += len(rows)
    many = len(sentences)
    error = float(np.sqrt(many / (many - 1) * np.square(residuals).sum())) if many > 1 else None
    return float(np.mean(values)), error


def directed(table: pa.Table, metric: str) -> Sample | None:
    """Return the sample of a metric that is the mean of both directions, or that of one.

    With the columns `query` and `rank` it is the mean reciprocal rank or precision at k. A unit is
    then a query of a direction, linked to its `gold` translation, which is a query of the other
    one: both ask for the same entry of the dictionary, and linked units are one unit in a test.
    With `correct` alone it is `accuracy`.
    """
    name, direction = direction_of(metric)
    directions = column(table, "direction")
    chosen = directions == direction if direction else np.ones(len(table), dtype=bool)
    if {"rank", "query"} <= set(table.column_names):
        rank, cut = column(table, "rank").astype(float), re.fullmatch(r"precision_at_(\d+)", name)
        if name != "mrr" and cut is None:
            return None
        gains = 1.0 / rank if cut is None else (rank <= int(cut[1])).astype(float)
        units, links = clusters_of(table)
    elif name == "accuracy" and "correct" in table.column_names:
        gains, units, links = column(table, "correct").astype(float), units_of(table), None
    else:
        return None
    return summed(
        units[chosen], directions[chosen], gains[chosen], np.ones(int(chosen.sum())), links
    )
