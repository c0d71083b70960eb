"""How close the vectors of translations are, among all pairs: MEXA, retrieval, margin, hubness and
CKA of one layer.

With x_i and y_i the vectors of pair i in the language and in the pivot, and s_ij the cosine of y_i
and x_j, in float64; a zero vector has cosine 0 with all. k nearest neighbours are by that cosine,
in the other language, the own translation included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from raxalign.arrays import Bools, Floats, Ints
from raxalign.lazy import np
from raxalign.sample import Array

_BLOCK = 1024  # queries whose cosines with all candidates are in memory at once
_TIE = 1e-12  # cosines of equal vectors differ by rounding


@dataclass(frozen=True)
class _Search:
    """What queries find: the cosine `own` with the translation, the largest one with any other
    candidate (`best`), the mean of the k largest (`near`), each (N,), and how many queries have
    each candidate among their k nearest (`occurrences`, (N,)).
    """

    own: Floats
    best: Floats
    near: Floats
    occurrences: Ints


@dataclass(frozen=True)
class PairMeasures:
    """The measures of pairs of unit vectors (N, H), which are at least two."""

    src_NH: Floats
    tgt_NH: Floats
    k: int

    @classmethod
    def of(cls, src_NH: Array, tgt_NH: Array, k: int) -> PairMeasures:
        """Return the measures of the vectors of pairs, in a language and in the pivot; `k` is at
        most the number of pairs.
        """
        return cls(unit_vectors(src_NH), unit_vectors(tgt_NH), min(k, len(src_NH)))

    @cached_property
    def _searches(self) -> tuple[_Search, _Search]:
        """To the pivot and from it."""
        return _search(self.src_NH, self.tgt_NH, self.k), _search(self.tgt_NH, self.src_NH, self.k)

    def mexa(self) -> Floats:
        """Return 1 for each pair whose s_ii is larger than all others of its row and its column, 0
        for other ones (Kargaran et al. 2024).
        """
        return np.asarray(self._found(_TIE)[0] & self._found(_TIE)[1], np.float64)

    def retrieval(self) -> Floats:
        """Return the share of the two directions in which no other candidate is nearer than the
        translation, for each pair: 0, one half or 1.
        """
        return np.asarray(np.mean(self._found(-_TIE), axis=0), np.float64)

    def margin(self) -> Floats:
        """Return s_ii minus the mean cosine of x_i and y_i with their k nearest neighbours, for
        each pair (Artetxe & Schwenk 2019, the margin `distance`).
        """
        to, back = self._searches
        return to.own - (to.near + back.near) / 2

    def hubness(self) -> float | None:
        """Return the skewness of N_k, the number of queries that have a candidate among their k
        nearest neighbours, the mean of both directions (Radovanović et al. 2010); None where
        all candidates are neighbours.
        """
        if self.k >= len(self.src_NH):
            return None
        return float(np.mean([skewness(found.occurrences) for found in self._searches]))

    def _found(self, lead: float) -> tuple[Bools, Bools]:
        """Whether s_ii exceeds all others by a lead, in both directions."""
        to, back = self._searches
        return to.own > to.best + lead, back.own > back.best + lead


OF_PAIRS: Mapping[str, Callable[[PairMeasures], Floats]] = {
    "mexa": PairMeasures.mexa,
    "retrieval": PairMeasures.retrieval,
    "margin": PairMeasures.margin,
}
"""The measures that have one value per pair, whose mean is theirs."""


def unit_vectors(vectors_NH: Array) -> Floats:
    """Return vectors (N, H) of length 1 in float64, or 0."""
    wide = np.asarray(vectors_NH, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(lengths > 0, lengths, 1.0)


def _search(queries_NH: Floats, candidates_NH: Floats, k: int) -> _Search:
    n = len(queries_NH)
    own, best, near = np.empty(n), np.empty(n), np.empty(n)
    occurrences = np.zeros(n, np.int64)
    for start in range(0, n, _BLOCK):
        part = slice(start, start + _BLOCK)
        cosines_BN = queries_NH[part] @ candidates_NH.T
        rows = np.arange(len(cosines_BN))
        nearest_BK = np.argpartition(-cosines_BN, k - 1, axis=1)[:, :k]
        near[part] = np.take_along_axis(cosines_BN, nearest_BK, 1).mean(1)
        occurrences += np.bincount(nearest_BK.ravel(), minlength=n)
        own[part] = cosines_BN[rows, start + rows]
        cosines_BN[rows, start + rows] = -np.inf
        best[part] = cosines_BN.max(1)
    return _Search(own, best, near, occurrences)


def skewness(values: Array) -> float:
    """Return the third standardised moment; 0 where all values are the same.

    >>> round(skewness(np.array([0, 0, 0, 4])), 4)
    1.1547
    """
    apart = np.asarray(values, np.float64) - np.mean(values)
    spread = float(np.sqrt(np.mean(apart**2)))
    return float(np.mean(apart**3)) / spread**3 if spread > 0 else 0.0


def linear_cka(first_NH: Array, second_NH: Array) -> float | None:
    """Return linear CKA, |Y^T X|² / (|X^T X| |Y^T Y|) with centred coordinates (Kornblith et al.
    2019); None where the vectors of a side are all the same.

    It is biased upwards where there are few vectors for their width.
    """
    x, y = (np.asarray(side, np.float64) - np.mean(side, 0) for side in (first_NH, second_NH))
    own = float(np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))
    return float(np.sum((y.T @ x) ** 2)) / own if own > 0 else None


def unbiased_cka(first_NH: Array, second_NH: Array) -> float | None:
    """Return linear CKA with the unbiased estimator of HSIC (Song et al. 2012), as in Nguyen
    et al. (2021); None below four vectors, or where a side has no estimate above 0.
    """
    if len(first_NH) < 4:
        return None
    # HSIC does not depend on the means, and numbers about 0 round less
    x, y = (np.asarray(side, np.float64) - np.mean(side, 0) for side in (first_NH, second_NH))
    own = _hsic(x, x) * _hsic(y, y)
    return _hsic(x, y) / float(np.sqrt(own)) if own > 0 else None


def _hsic(x: Floats, y: Floats) -> float:
    """The unbiased HSIC of linear kernels K and L without diagonals, of centred vectors (N, H)."""
    n, squares_x, squares_y = len(x), np.sum(x**2, 1), np.sum(y**2, 1)
    product = float(np.sum((y.T @ x) ** 2) - squares_x @ squares_y)  # tr(KL)
    rows_x, rows_y = x @ x.sum(0) - squares_x, y @ y.sum(0) - squares_y  # K1, L1
    apart = float(rows_x.sum() * rows_y.sum()) / ((n - 1) * (n - 2))
    return (product + apart - 2 / (n - 2) * float(rows_x @ rows_y)) / (n * (n - 3))
