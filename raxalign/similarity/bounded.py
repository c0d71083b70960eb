"""The best candidate of every query, looked for only where a bound leaves room for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import lazy_loader as lazy

from raxalign.similarity.hubness_terms import Crowd
from raxalign.similarity.tiling import Factored

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


_COSTLY = 6
"""How many times as long a candidate takes where it is computed with its group alone, roughly."""

_BLOCK = 4096
"""Queries, and candidates, of a product with all candidates."""


def best_of_groups(
    queries: Factored,
    candidates: Factored,
    penalties: torch.Tensor,
    crowd: Crowd,
    factor: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return for every query (n,) the number of the candidate with the largest 2 s - penalty, the
    first of equals.

    No candidate of a group scores above twice the group's peak less its smallest penalty. The group
    with the largest bound is computed first, then every other whose bound reaches the best score.

    Args:
        queries: the queries, n vectors, in any order.
        candidates: the candidates, m vectors, in any order.
        penalties: what is subtracted for each candidate (m,), in their order.
        crowd: the queries' peaks among the candidates, in their orders.
        factor: similarities over those of the peaks, for each query (n,), in their order; None
            where they are the same.
    """
    least = _least_of_groups(penalties, crowd.group)
    bounds_GN = crowd.peaks * (2 if factor is None else 2 * factor)
    bounds_GN -= least[:, None]
    best = _Best(queries, candidates, penalties)
    first = bounds_GN.argmax(0)
    counts = torch.bincount(first, minlength=len(least)).tolist()
    for group, some in enumerate(torch.split(first.argsort(), counts)):
        best.look(some, group * crowd.group, crowd.group)
    # A product may round one similarity differently from another product.
    bounds_GN += _slack(bounds_GN)
    bounds_GN.scatter_(0, first[None], -math.inf)
    everywhere = (bounds_GN >= best.scores).sum(0) * _COSTLY > len(bounds_GN)
    bounds_GN[:, everywhere] = -math.inf
    for group, bounds in enumerate(bounds_GN):
        best.look((bounds >= best.scores).nonzero()[:, 0], group * crowd.group, crowd.group)
    for some in torch.split(everywhere.nonzero()[:, 0], _BLOCK):
        for start in range(0, len(candidates), _BLOCK):
            best.look(some, start, _BLOCK)
    return best.numbers


def _least_of_groups(penalties: torch.Tensor, group: int) -> torch.Tensor:
    """Return the smallest penalty of every group of candidates (groups,)."""
    short = -len(penalties) % group
    padded = torch.nn.functional.pad(penalties, (0, short), value=math.inf)
    return padded.view(-1, group).amin(1)


def _slack(bounds: torch.Tensor) -> torch.Tensor:
    """Return how far two roundings of one score may differ."""
    lowest, highest = bounds.aminmax()
    return torch.maximum(lowest.abs(), highest.abs()) * (16 * torch.finfo(bounds.dtype).eps)


class _Best:
    """The best candidate of every query so far: its score and its number."""

    def __init__(self, queries: Factored, candidates: Factored, penalties: torch.Tensor) -> None:
        self.queries, self.candidates, self.penalties = queries, candidates, penalties
        self.names = candidates.numbers()
        self.scores = penalties.new_full((len(queries),), -math.inf)
        self.numbers = self.names.new_full((len(queries),), len(penalties))

    def look(self, some: torch.Tensor, start: int, count: int) -> None:
        """Look at some neighbouring candidates for some queries, given by their places."""
        if not len(some):
            return
        here = slice(start, start + count)
        scores = self.queries.take(some) @ self.candidates.rows(start, start + count).T
        scores = scores.mul_(2).sub_(self.penalties[here])
        peaks, places = scores.max(1)
        numbers = self.names[here][places]
        before, known = self.scores[some], self.numbers[some]
        better = (peaks > before) | ((peaks == before) & (numbers < known))
        self.scores[some] = torch.where(better, peaks, before)
        self.numbers[some] = torch.where(better, numbers, known)
