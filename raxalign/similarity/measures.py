"""The measures of similarity: their names in YAML, what each computes, and where it comes from; and
scores of every candidate by them, for what needs more than the nearest one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from raxalign.lazy import torch

Measure = Literal[
    "csls",
    "cosine",
    "dot",
    "euclidean",
    "margin",
    "inverted_softmax",
    "sinkhorn",
    "released_cao",
]
"""The names of the measures, as `measure:` of a task takes them."""

Scaling = Literal["unit", "none", "centered", "released_cao"]
Penalty = Literal["none", "hubness", "square", "margin", "softmax", "sinkhorn"]

TEMPERATURE = 0.05
"""By default: its inverse is the factor β = 20 of the inverted softmax in Bogolin et al. (2022)."""
ROUNDS = 10
"""How often `sinkhorn` makes the rows and then the columns of the plan sum to 1."""
_TINY = 1e-6
"""The least sum of two neighbourhoods that a similarity is divided by, so that what has only
neighbours at right angles has a score too.
"""


@dataclass(frozen=True)
class Definition:
    """What one measure computes.

    The score of a candidate y for a query x is s(x, y) without a penalty and 2 s(x, y) - p(y) with
    one, where s is the dot product of the scaled vectors. `about` is a phrase with its source.

    Of scalings `unit` divides each vector by its norm, `centered` takes the candidates' mean off
    both sides (which moves no distance and keeps rounding small), and `released_cao` divides
    queries by their norms and each whole side by its own. Of penalties p(y) `hubness` is the mean s
    of y and its k nearest vectors of the other side, `square` is y's squared norm, and `softmax`
    2 T log Σ exp(s(x', y) / T) over all queries x', with the temperature T; `sinkhorn` is 2 T times
    minus the logarithm of y's factor in the transport plan. With `margin` nothing is subtracted,
    but s(x, y) is divided by the mean of the hubness terms of x and y.
    """

    about: str
    scaling: Scaling
    penalty: Penalty = "none"

    @property
    def idle(self) -> set[str]:
        """The option `k`, where it does not change what the measure finds."""
        return set() if self.penalty in ("hubness", "margin") else {"k"}


MEASURES: Mapping[Measure, Definition] = {
    "csls": Definition(
        "2 cos(x, y) - r(x) - r(y), with r the mean cosine of the `k` nearest vectors of the other"
        " side (Conneau et al. 2018, eq. 3)",
        "unit",
        "hubness",
    ),
    "cosine": Definition("the cosine of the angle between two vectors", "unit"),
    "dot": Definition("the dot product", "none"),
    "euclidean": Definition("the smallest Euclidean distance", "centered", "square"),
    "margin": Definition(
        "the cosine divided by the mean of r(x) and r(y), the ratio margin (Artetxe and Schwenk"
        " 2019, eq. 2 and 3)",
        "unit",
        "margin",
    ),
    "inverted_softmax": Definition(
        "the probability of the query among all queries for the candidate, by the softmax of their"
        f" cosines / {TEMPERATURE} (Smith et al. 2017, eq. 9)",
        "unit",
        "softmax",
    ),
    "sinkhorn": Definition(
        "the share of the candidate in what the query sends in the optimal transport of all queries"
        " to all candidates, each of equal weight, by the cosine, with the entropy times"
        f" {TEMPERATURE} and {ROUNDS} iterations of Sinkhorn (Cuturi 2013, algorithm 1)",
        "unit",
        "sinkhorn",
    ),
    "released_cao": Definition(
        "what the circulating script of Cao et al. (2020) computes under the name of CSLS: nearly a"
        " dot product, because it divides a matrix by the norm of the whole and the queries by"
        " their own",
        "released_cao",
        "hubness",
    ),
}
"""The definition of every measure."""


_ROWS = 1024
"""Vectors whose similarities are in memory together."""


def products(
    vectors: torch.Tensor, others: torch.Tensor, *, apart: bool = False
) -> Iterator[torch.Tensor]:
    """Yield the dot products of some vectors (N, d) at a time with all others (M, d). With `apart`
    both are the same vectors, and none is near to itself.
    """
    for places in torch.split(torch.arange(len(vectors), device=vectors.device), _ROWS):
        block = vectors[places] @ others.T
        yield block.scatter(1, places[:, None], -torch.inf) if apart else block


def hubness(
    vectors: torch.Tensor, others: torch.Tensor, k: int, *, apart: bool = False
) -> torch.Tensor:
    """Return the mean similarity of every vector (N, d) to the k most similar of the others (M, d),
    (N,): r of CSLS (Conneau et al. 2018, eq. 3). `apart` is as in `products`.

    The similarity is the dot product, so that unit vectors give cosines; a k above M means all of
    them.
    """
    most = min(k, len(others) - apart)
    blocks = products(vectors, others, apart=apart)
    return torch.cat([block.topk(most, dim=1).values.mean(1) for block in blocks])


class Terms(NamedTuple):
    """What is subtracted for each of the `candidates` (C,), if anything is; or with `queries` (Q,)
    the hubness terms of both sides, by whose mean similarities are divided.
    """

    candidates: torch.Tensor | None
    queries: torch.Tensor | None = None

    @staticmethod
    def softmax(products_NQ: torch.Tensor) -> torch.Tensor:
        """Return what the inverted softmax subtracts for N candidates, (N,), by their similarities
        to all queries.
        """
        return 2 * TEMPERATURE * (products_NQ / TEMPERATURE).logsumexp(1)

    @staticmethod
    def transport(blocks: Callable[[], Iterable[torch.Tensor]], temperature: float) -> torch.Tensor:
        """Return what half of the terms of `sinkhorn` are for C candidates, (C,): -T log v, where
        the plan is diag(u) exp(s / T) diag(v). `blocks` begins anew with the similarities of some
        queries to all candidates (some, C), until all queries have come.

        A round divides each query's row of the plan by its sum, and then each candidate's column.
        """
        terms_C: torch.Tensor | float = 0.0
        for _ in range(ROUNDS):
            sums_C = torch.tensor(-torch.inf)
            for products in blocks():
                plan = (products - terms_C) / temperature
                plan -= plan.logsumexp(1, keepdim=True)
                sums_C = torch.logaddexp(sums_C.to(plan), plan.logsumexp(0))
            terms_C = terms_C + temperature * sums_C
        assert isinstance(terms_C, torch.Tensor)
        return terms_C

    def applied(
        self, products_QC: torch.Tensor, rows: slice | torch.Tensor = slice(None)
    ) -> torch.Tensor:
        """Return the scores (Q, C) of the similarities of scaled vectors, larger for more similar
        ones and comparable within a row: terms of the query alone are left out where they are
        subtracted. `rows` are those of these queries among all of them.
        """
        if self.candidates is None:
            return products_QC
        if self.queries is None:
            return 2 * products_QC - self.candidates
        return 2 * products_QC / (self.queries[rows, None] + self.candidates).clamp(min=_TINY)


@dataclass(frozen=True)
class Scaled:
    """The two sides as a measure multiplies them, `queries` (Q, H) and `candidates` (C, H), and the
    queries as they are multiplied in hubness terms, `crowd` (Q, H).
    """

    definition: Definition
    queries: torch.Tensor
    candidates: torch.Tensor
    crowd: torch.Tensor

    @classmethod
    def of(cls, queries_QH: torch.Tensor, candidates_CH: torch.Tensor, measure: Measure) -> Scaled:
        """Scale both sides as the measure asks."""
        definition = MEASURES[measure]
        queries, candidates = queries_QH, candidates_CH
        if definition.scaling == "centered" and len(candidates):
            center = candidates.mean(0)
            queries, candidates = queries - center, candidates - center
        crowd = queries
        if definition.scaling in ("unit", "released_cao"):
            queries = torch.nn.functional.normalize(queries, dim=-1)
        if definition.scaling == "unit":
            crowd, candidates = queries, torch.nn.functional.normalize(candidates, dim=-1)
        elif definition.scaling == "released_cao":
            tiny = torch.finfo(crowd.dtype).tiny
            crowd, candidates = (
                side / torch.linalg.matrix_norm(side).clamp_min(tiny)
                for side in (crowd, candidates)
            )
        return cls(definition, queries, candidates, crowd)

    def terms(self, candidates: torch.Tensor, k: int, *, apart: bool = False) -> Terms:
        """Return what scores of some scaled candidates (N, H) take besides products; `sinkhorn`
        has to be given all of them. `apart` says that candidates and queries are the same vectors,
        of which none is among its own neighbours.
        """
        penalty = self.definition.penalty
        if penalty in ("hubness", "margin"):
            around = None
            if penalty == "margin":
                around = hubness(self.queries, self.candidates, k, apart=apart)
            return Terms(hubness(candidates, self.crowd, k, apart=apart), around)
        if penalty == "softmax":
            blocks = products(candidates, self.crowd, apart=apart)
            return Terms(torch.cat([Terms.softmax(block) for block in blocks]))
        if penalty == "sinkhorn":
            each = partial(products, self.crowd, candidates, apart=apart)
            return Terms(2 * Terms.transport(each, TEMPERATURE))
        return Terms(candidates.square().sum(1) if penalty == "square" else None)

    def mutual_nearest(self) -> list[tuple[int, int]]:
        """Return the pairs (query, candidate) of a few vectors that are each other's nearest, the
        first of equals, in the order of the queries. All similarities are in memory at once.
        """
        if not len(self.queries) or not len(self.candidates):
            return []
        products_QC = self.queries @ self.candidates.T
        ahead, back = products_QC.argmax(1).tolist(), products_QC.T.argmax(1).tolist()
        return [(i, j) for i, j in enumerate(ahead) if back[j] == i]
