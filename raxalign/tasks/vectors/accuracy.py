"""Accuracies of dependent examples: a mean, with a standard error over whole sentences.

The two directions of a search between a language and the pivot, as metrics and predictions name
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from raxalign import lazy
from raxalign.measured import Measured

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = lazy.load("numpy")


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


def accuracy(correct: npt.NDArray[np.bool_]) -> float:
    """Return the share of examples that are right; there is at least one."""
    return float(correct.mean())


def mean_accuracy(
    parts: Sequence[tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]],
) -> tuple[float, float | None]:
    """Return the mean of several accuracies, and its standard error clustered by sentence.

    Word pairs of one sentence share their context, and both directions ask about the same pairs, so
    the binomial error of independent examples would be too small. With u_s the sum over the parts
    of a sentence's residuals (right answers minus accuracy times examples) divided by the part's
    examples, the variance is S/(S-1) sum u_s^2 over S sentences: the linearised variance of a ratio
    (Cochran 1977, eq. 6.4), the common cluster-robust one.

    Args:
        parts: for each accuracy, what was right (examples,) and the sentence of each example
            (examples,); no part is empty.

    Returns:
        the mean, and its standard error (None where there is only one sentence).

    >>> mean_accuracy([(np.array([True, True, False, False]), np.array([0, 0, 1, 1]))])
    (0.5, 0.5)
    """
    sentences, units = np.unique(np.concatenate([rows for _, rows in parts]), return_inverse=True)
    residuals, values, begin = np.zeros(len(sentences)), [], 0
    for correct, rows in parts:
        value = accuracy(correct)
        residuals += np.bincount(
            units[begin : begin + len(rows)],
            (correct - value) / len(correct) / len(parts),
            len(sentences),
        )
        values.append(value)
        begin += len(rows)
    many = len(sentences)
    error = float(np.sqrt(many / (many - 1) * np.square(residuals).sum())) if many > 1 else None
    return float(np.mean(values)), error
