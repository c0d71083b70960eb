"""What a search finds for its effort, and which of its trials end early: pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from statistics import median

from raxalign.config.search import Pruner
from raxalign.lazy import np

RESAMPLES = 1000
_LEVEL = 0.95


def best_so_far(values: Sequence[float]) -> list[float]:
    """Return the largest of the values up to each one.

    >>> best_so_far([0.2, 0.5, 0.3])
    [0.2, 0.5, 0.5]
    """
    return [float(value) for value in accumulate(values, max)]


def expected_best(values: Sequence[float]) -> list[float]:
    """Return the expected largest of n values, for n from 1 to their number.

    The n values are drawn with replacement from those that are given (Dodge et al. 2019, "Show Your
    Work", equation 2): sum over v of v (P(V <= v)^n - P(V < v)^n).

    >>> expected_best([0.0, 1.0])
    [0.5, 0.75]
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    below = np.arange(len(ordered) + 1) / len(ordered)
    count = np.arange(1, len(ordered) + 1)[:, None]
    weights = below[1:] ** count - below[:-1] ** count
    return [float(value) for value in weights @ ordered]


def expected_best_interval(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the lower and upper ends of the 95 % bootstrap intervals of `expected_best`."""
    rng = np.random.default_rng(0)
    drawn = rng.choice(np.asarray(values, dtype=float), size=(RESAMPLES, len(values)))
    curves = np.array([expected_best(list(sample)) for sample in drawn])
    ends = [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]
    low, high = np.quantile(curves, ends, axis=0)
    return [float(value) for value in low], [float(value) for value in high]


def prunes(pruner: Pruner, own: Sequence[float], others: Sequence[Sequence[float]]) -> bool:
    """Return whether a trial ends at its last dev selection.

    A trial stands there with its best score so far, since a training keeps the weights of its best
    selection. It is compared with the trials that have a score at this selection, the pruned ones
    among them.

    Args:
        pruner: The rule.
        own: The scores of the trial at its dev selections so far; larger ones are better.
        others: Those of the other trials of the study.
    """
    here = len(own)
    at_this = [max(scores[:here]) for scores in others if len(scores) >= here]
    if not pruner.prunes or here <= pruner.warmup or len(at_this) < pruner.startup:
        return False
    if pruner.name == "median":
        return max(own) < median(at_this)
    # a trial goes on among the best 1/η of a rung, itself included (Li et al. 2020, "A System for
    # Massively Parallel Hyperparameter Tuning", as the stopping rule of Optuna and Ray Tune: of
    # fewer than η values the best one goes on)
    ranked = sorted([*at_this, max(own)], reverse=True)
    return is_rung(pruner, here) and max(own) < ranked[max(len(ranked) // pruner.eta - 1, 0)]


def is_rung(pruner: Pruner, number: int) -> bool:
    """Return whether a dev selection (counted from 1) is a rung of ASHA: the first one after the
    warm-up, and from rung to rung `reduction` times as many.

    >>> rule = Pruner(name="asha", warmup=1, reduction=2)
    >>> [number for number in range(1, 10) if is_rung(rule, number)]
    [2, 4, 8]
    """
    rung = pruner.warmup + 1
    while rung < number:
        rung *= pruner.eta
    return rung == number
