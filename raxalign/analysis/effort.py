"""What a search finds for its effort: the best of so many trials, so far and as expected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 1000
_LEVEL = 0.95


def best_so_far(values: Sequence[float]) -> list[float]:
    """Return the largest of the values up to each one.

    >>> best_so_far([0.2, 0.5, 0.3])
    [0.2, 0.5, 0.5]
    """
    return [float(value) for value in np.maximum.accumulate(np.asarray(values, dtype=float))]


def expected_best(values: Sequence[float], most: int | None = None) -> list[float]:
    """Return the expected largest of n values, for n from 1 to `most` (None: their number).

    The n values are drawn with replacement from those that are given (Dodge et al. 2019, "Show Your
    Work", equation 2): sum over v of v (P(V <= v)^n - P(V < v)^n).

    >>> expected_best([0.0, 1.0])
    [0.5, 0.75]
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    below = np.arange(len(ordered) + 1) / len(ordered)
    count = np.arange(1, (most or len(ordered)) + 1)[:, None]
    weights = below[1:] ** count - below[:-1] ** count
    return [float(value) for value in weights @ ordered]


def expected_best_interval(
    values: Sequence[float], *, seed: int = 0
) -> tuple[list[float], list[float]]:
    """Return the lower and upper ends of the 95 % bootstrap intervals of `expected_best`.

    Args:
        values: The values of all trials.
        seed: The seed of the resampling.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.choice(np.asarray(values, dtype=float), size=(RESAMPLES, len(values)))
    curves = np.array([expected_best(list(sample)) for sample in drawn])
    ends = [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]
    low, high = np.quantile(curves, ends, axis=0)
    return [float(value) for value in low], [float(value) for value in high]
