"""The second pass of CSLS: the best candidate of every query, looked for only where a bound leaves
room for it.
"""

from __future__ import annotations

import math

from raxalign.lazy import torch
from raxalign.similarity.first_pass import Nearest
from raxalign.similarity.scaled_vectors import ScaledVectors


def best_candidates(
    queries: ScaledVectors, candidates: ScaledVectors, nearest: Nearest, penalties: torch.Tensor
) -> torch.Tensor:
    """Return for every query (n,), by its number, the number of the candidate with the largest
    2 s - penalty, the first of equals.

    The best of a query's nearest comes first. Of other candidates, none of a group scores above
    twice the group's peak, or the similarity of the last of the nearest, less its smallest penalty.
    Groups are computed again whose bound reaches the best score: first the one with the largest.

    Args:
        queries: the queries, n vectors.
        candidates: the candidates, m vectors.
        nearest: the queries' nearest and their peaks among the candidates.
        penalties: what is subtracted for each candidate (m,), by its place.
    """
    double = 2 * queries.query_factors()
    best = _Best(queries, candidates, penalties)
    best.start(nearest, double)
    bounds_GN = torch.minimum(nearest.peaks, nearest.values.amin(1)).mul_(double)
    bounds_GN -= _least_of_groups(penalties, nearest.group)[:, None]
    # A product may round one similarity differently from another product.
    lowest, highest = bounds_GN.aminmax()
    bounds_GN += torch.maximum(-lowest, highest) * (16 * torch.finfo(bounds_GN.dtype).eps)
    open_O = (bounds_GN.amax(0) >= best.scores).nonzero()[:, 0]
    if len(open_O):
        bounds_GO = bounds_GN[:, open_O]
        first_O = bounds_GO.argmax(0)
        counts = torch.bincount(first_O, minlength=len(bounds_GO)).tolist()
        for group, some in enumerate(torch.split(first_O.argsort(), counts)):
            best.look(open_O[some], group * nearest.group, nearest.group)
        bounds_GO.scatter_(0, first_O[None], -math.inf)
        for group, bounds_O in enumerate(bounds_GO):
            some = open_O[bounds_O >= best.scores[open_O]]
            best.look(some, group * nearest.group, nearest.group)
    return torch.empty_like(best.numbers).scatter_(0, queries.order, best.numbers)


def _least_of_groups(penalties: torch.Tensor, group: int) -> torch.Tensor:
    """Return the smallest penalty of every group of candidates (groups,)."""
    short = -len(penalties) % group
    padded = torch.nn.functional.pad(penalties, (0, short), value=math.inf)
    return padded.view(-1, group).amin(1)


class _Best:
    """The best candidate of every query so far, by the query's place: its score and its number."""

    def __init__(
        self, queries: ScaledVectors, candidates: ScaledVectors, penalties: torch.Tensor
    ) -> None:
        self.queries, self.candidates, self.penalties = queries, candidates, penalties
        self.scores, self.numbers = penalties.new_empty(0), candidates.order[:0]

    def start(self, nearest: Nearest, double: torch.Tensor) -> None:
        """Take in the nearest of every query; `double` is twice its factor."""
        scores = nearest.values * double[:, None] - self.penalties[nearest.places]
        self.scores, numbers = scores.amax(1), self.candidates.order[nearest.places]
        equal = scores == self.scores[:, None]
        self.numbers = torch.where(equal, numbers, len(self.candidates)).amin(1)

    def look(self, some: torch.Tensor, start: int, count: int) -> None:
        """Look at some neighbouring candidates for some queries, given by their places."""
        if not len(some):
            return
        here = slice(start, start + count)
        scores = self.queries.queries(some) @ self.candidates.take(here).T
        peaks, places = scores.mul_(2).sub_(self.penalties[here]).max(1)
        numbers = self.candidates.order[here][places]
        before, known = self.scores[some], self.numbers[some]
        better = (peaks > before) | ((peaks == before) & (numbers < known))
        self.scores[some] = torch.where(better, peaks, before)
        self.numbers[some] = torch.where(better, numbers, known)
