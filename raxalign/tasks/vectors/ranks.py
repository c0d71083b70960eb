"""The rank of the best right answer among all candidates, with ties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import lazy_loader as lazy
import numpy as np
import numpy.typing as npt

from raxalign.similarity import hubness

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
    that candidate (-1), and the nearest of all.
    """

    rank: Floats
    gold: Ints
    found: Ints


def best_gold_ranks(
    queries_QH: torch.Tensor,
    candidates_CH: torch.Tensor,
    gold_query: Ints,
    gold_candidate: Ints,
    *,
    measure: Literal["cosine", "csls"],
    k: int = 10,
) -> Ranks:
    """Ranks of the best gold candidate of each query, 1 for the nearest; pair p says that
    ``gold_candidate[p]`` is right for ``gold_query[p]``.

    Among g nearer candidates and E of the best gold one's own similarity, m of them gold, the rank
    is g + (E + 1) / (m + 1): the mean over all orders of the tied ones, which with one gold
    candidate is their average rank. Candidates of identical vectors always tie. For CSLS the
    neighbourhoods are all queries and all candidates, those without a gold pair included.
    """
    queries = torch.nn.functional.normalize(queries_QH.float(), dim=-1)
    candidates, kind = torch.unique(
        torch.nn.functional.normalize(candidates_CH.float(), dim=-1), dim=0, return_inverse=True
    )
    many = torch.bincount(kind, minlength=len(candidates)).double()
    first = torch.full((len(candidates),), len(kind), device=kind.device).scatter_reduce_(
        0, kind, torch.arange(len(kind), device=kind.device), "amin"
    )
    hubs = hubness(candidates, queries, k) if measure == "csls" else None
    ranks, golds, found = (
        np.full(len(queries), np.nan),
        np.full(len(queries), -1, np.int64),
        np.zeros(len(queries), np.int64),
    )
    order = np.argsort(gold_query, kind="stable")
    gold_query, gold_candidate = gold_query[order], gold_candidate[order]
    for start in range(0, len(queries), ROWS):
        scores = queries[start : start + ROWS] @ candidates.T
        scores = scores if hubs is None else 2 * scores - hubs
        part = slice(start, start + len(scores))
        found[part] = first[scores.argmax(1)].cpu().numpy()
        here = slice(*np.searchsorted(gold_query, [part.start, part.stop]))
        ranks[part], golds[part] = _ranked(
            scores, many, kind, gold_query[here] - start, gold_candidate[here]
        )
    return Ranks(ranks, golds, found)


def _ranked(
    scores: torch.Tensor, many: torch.Tensor, kind: torch.Tensor, rows: Ints, gold: Ints
) -> tuple[Floats, Ints]:
    """(ranks, best gold candidates) of the queries of some rows of scores over distinct vectors."""
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
