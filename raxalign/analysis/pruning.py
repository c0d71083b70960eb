"""Which trials of a search end early, by their scores at the dev selections of a training: pure
arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from raxalign.config.search import Pruner


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
    return is_rung(pruner, here) and _falls(max(own), at_this, pruner.eta)


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


def _falls(value: float, others: Sequence[float], eta: int) -> bool:
    """Whether a value is not among the best 1/η of a rung, itself included (Li et al. 2020,
    "A System for Massively Parallel Hyperparameter Tuning", as the stopping rule of Optuna and Ray
    Tune: of fewer than η values the best one goes on).
    """
    ranked = sorted([*others, value], reverse=True)
    return value < ranked[max(len(ranked) // eta - 1, 0)]
