"""Correlation of two measures over languages, with its number of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Correlation:
    """Pearson's r and Spearman's rho of `n` points; both are None for less than three points, or
    where one side does not vary.
    """

    pearson: float | None
    spearman: float | None
    n: int


def correlate(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Pearson's and Spearman's correlation; ties have their mean rank.

    >>> correlate([1, 2, 3], [1, 2, 4]).spearman
    1.0
    """
    if len(x) != len(y):
        raise ValueError(f"{len(x)} and {len(y)} values")
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return Correlation(None, None, len(x))
    return Correlation(_pearson(x, y), _pearson(_ranks(x), _ranks(y)), len(x))


def _pearson(x: Sequence[float], y: Sequence[float]) -> float:
    return round(float(np.corrcoef(x, y)[0, 1]), 12)


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [
        (ordered.index(value) + len(ordered) - 1 - ordered[::-1].index(value)) / 2
        for value in values
    ]
