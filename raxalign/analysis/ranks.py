"""Ranks of methods, from the comparisons of all pairs of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rank:
    """The rank of a method, from 1, by its value, and the `best` and the `worst` that it may have:
    with 95 % confidence, the true ranks of all methods lie within theirs at once.
    """

    rank: int
    best: int
    worst: int


def ranks(values: Sequence[float], apart: Collection[tuple[int, int]]) -> list[Rank]:
    """Return the rank of each method by its value, of which larger ones are better. A method may
    rank below all that differ from it for the better, and above all that differ for the worse
    (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for ranks"). Pairs that are `apart` differ
    significantly, corrected over all pairs.

    >>> ranks([0.9, 0.5, 0.4], {(0, 1), (0, 2)})
    [Rank(rank=1, best=1, worst=1), Rank(rank=2, best=2, worst=3), Rank(rank=3, best=2, worst=3)]
    """
    found = []
    for one, value in enumerate(values):
        others = [other for pair in apart if one in pair for other in pair if other != one]
        found.append(
            Rank(
                1 + sum(other > value for other in values),
                1 + sum(values[other] > value for other in others),
                len(values) - sum(values[other] < value for other in others),
            )
        )
    return found


def groups(values: Sequence[float], apart: Collection[tuple[int, int]]) -> list[list[int]]:
    """Return the largest groups of methods that follow each other by value, of which no two differ
    significantly: the bars of a critical-difference diagram (Demšar 2006), best method first.

    >>> groups([0.9, 0.5, 0.4], {(0, 1), (0, 2)})
    [[1, 2]]
    """
    order = sorted(range(len(values)), key=lambda one: -values[one])
    different = {frozenset(pair) for pair in apart}
    found: list[list[int]] = []
    for first in range(len(order)):
        last = first
        while last + 1 < len(order) and not any(
            frozenset((order[last + 1], one)) in different for one in order[first : last + 1]
        ):
            last += 1
        group = order[first : last + 1]
        if len(group) > 1 and not any(set(group) <= set(other) for other in found):
            found.append(group)
    return found
