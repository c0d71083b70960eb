"""The best candidate of every query, looked for only where a bound leaves room for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from raxalign import lazy
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

    The best of a query's nearest comes first. Of other candidates, none of a group scores above
    twice the group's peak, or the similarity of the last of the nearest, less its smallest penalty.
    Groups are computed whose bound reaches the best score: first the one with the largest bound.

    Args:
        queries: the queries, n vectors, in any order.
        candidates: the candidates, m vectors, in any order.
        penalties: what is subtracted for each candidate (m,), in their order.
        crowd: the queries' nearest and their peaks among the candidates, in their orders.
        factor: similarities over those of the crowd, for each query (n,), in their order; None
            where they are the same.
    """
    double = torch.full_like(crowd.peaks[0], 2) if factor is None else 2 * factor
    best = _Best(queries, candidates, penalties)
    best.start(crowd, double)
    bounds_GN = torch.minimum(crowd.peaks, crowd.nearest.amin(1)).mul_(double)
    bounds_GN -= _least_of_groups(penalties, crowd.group)[:, None]
    # A product may round one similarity differently from another product.
    bounds_GN += _slack(bounds_GN)
    open_O = (bounds_GN.amax(0) >= best.scores).nonzero()[:, 0]
    if len(open_O):
        _look_again(best, open_O, bounds_GN[:, open_O], crowd.group)
    return best.numbers


def _look_again(best: _Best, open_O: torch.Tensor, bounds_GO: torch.Tensor, group: int) -> None:
    """Look at all groups whose bound reaches the best score of a query so far, for some queries."""
    first = bounds_GO.argmax(0)
    counts = torch.bincount(first, minlength=len(bounds_GO)).tolist()
    for number, some in enumerate(torch.split(first.argsort(), counts)):
        best.look(open_O[some], number * group, group)
    bounds_GO.scatter_(0, first[None], -math.inf)
    everywhere = (bounds_GO >= best.scores[open_O]).sum(0) * _COSTLY > len(bounds_GO)
    bounds_GO[:, everywhere] = -math.inf
    for number, bounds in enumerate(bounds_GO):
        some = (bounds >= best.scores[open_O]).nonzero()[:, 0]
        best.look(open_O[some], number * group, group)
    for some in torch.split(open_O[everywhere], _BLOCK):
        for start in range(0, len(best.names), _BLOCK):
            best.look(some, start, _BLOCK)


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

    def start(self, crowd: Crowd, double: torch.Tensor) -> None:
        """Take in the nearest of every query; `double` is twice its factor."""
        scores = crowd.nearest * double[:, None] - self.penalties[crowd.places]
        scores.masked_fill_(crowd.places < 0, -math.inf)
        self.scores = scores.amax(1)
        first = torch.where(
            scores < self.scores[:, None], len(self.names), self.names[crowd.places]
        )
        self.numbers = first.amin(1)

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
