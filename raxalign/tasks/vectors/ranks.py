"""The rank of the best right answer among all candidates, with ties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from raxalign import lazy
from raxalign.similarity import Measure, scaled, scored

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ROWS = 1024
"""Queries whose similarities are in memory together."""


@dataclass(frozen=True)
class Ranks:
    """For every query (Q,): the `rank` of its best gold candidate (NaN for a query without one),
    that candidate (-1 without one), and the nearest of all.
    """

    rank: Floats
    gold: Ints
    found: Ints

    @classmethod
    def none(cls, queries: int) -> Ranks:
        """Return ranks that are yet to be filled in."""
        return cls(
            np.full(queries, np.nan), np.full(queries, -1, np.int64), np.zeros(queries, np.int64)
        )


def best_gold_ranks(
    queries_QH: torch.Tensor,
    candidates_CH: torch.Tensor,
    gold_P2: Ints,
    *,
    measure: Measure,
    k: int = 10,
) -> Ranks:
    """Rank the best gold candidate of each query, 1 for the nearest.

    Among g nearer candidates and E of the best gold one's own similarity, m of them gold, the rank
    is g + (E + 1) / (m + 1): the mean over all orders of the tied ones, which with one gold
    candidate is their average rank. Candidates of identical vectors always tie. Neighbourhoods of
    hubness terms are all queries, those without a gold pair included.

    Args:
        queries_QH: float (Q, H).
        candidates_CH: float (C, H).
        gold_P2: pairs (P, 2) of a query's number and that of a candidate which is right for it.
        measure: the measure of similarity.
        k: the number of nearest vectors in a hubness term.
    """
    sides = scaled(queries_QH.float(), candidates_CH.float(), measure)
    candidates, kind = torch.unique(sides.candidates, dim=0, return_inverse=True)
    many = torch.bincount(kind, minlength=len(candidates)).double()
    first = torch.full((len(candidates),), len(kind), device=kind.device).scatter_reduce_(
        0, kind, torch.arange(len(kind), device=kind.device), "amin"
    )
    penalties = sides.penalties(candidates, k)
    found = Ranks.none(len(queries_QH))
    gold_P2 = gold_P2[np.argsort(gold_P2[:, 0], kind="stable")]
    for start in range(0, len(queries_QH), ROWS):
        scores = scored(sides.queries[start : start + ROWS], candidates, penalties)
        part = slice(start, start + len(scores))
        found.found[part] = first[scores.argmax(1)].cpu().numpy()
        here = slice(*np.searchsorted(gold_P2[:, 0], [part.start, part.stop]))
        found.rank[part], found.gold[part] = _ranked(
            scores, many, kind, gold_P2[here, 0] - start, gold_P2[here, 1]
        )
    return found


def _ranked(
    scores: torch.Tensor, many: torch.Tensor, kind: torch.Tensor, rows: Ints, gold: Ints
) -> tuple[Floats, Ints]:
    """Return (ranks, best gold candidates) of the queries of some rows of scores over distinct
    vectors.
    """
    device = scores.device
    rows_P, gold_P = (torch.from_numpy(part.astype(np.int64)).to(device) for part in (rows, gold))
    worth_P = scores[rows_P, kind[gold_P]]
    best = scores.new_full((len(scores),), -torch.inf).scatter_reduce_(0, rows_P, worth_P, "amax")
    winners = worth_P == best[rows_P]
    nearer = (scores > best[:, None]).double() @ many
    equal = (scores == best[:, None]).double() @ many
    right = torch.zeros(len(scores), dtype=torch.float64, device=device).index_add_(
        0, rows_P, winners.double()
    )
    ranks = nearer + (equal + 1) / (right + 1)
    chosen = torch.full((len(scores),), len(kind), device=device).scatter_reduce_(
        0, rows_P[winners], gold_P[winners], "amin"
    )
    asked = torch.isfinite(best)
    return (
        torch.where(asked, ranks, torch.nan).cpu().numpy(),
        torch.where(asked, chosen, -1).cpu().numpy(),
    )
