"""Correlation of two measures over languages, with its number of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raxalign.arrays import Floats
from raxalign.lazy import np, special


@dataclass(frozen=True)
class Correlation:
    """Pearson's r and Spearman's rho of `n` points; None of under three, or of a constant side."""

    pearson: float | None
    spearman: float | None
    n: int

    @classmethod
    def of(cls, x: Sequence[float], y: Sequence[float]) -> Correlation:
        """Return Pearson's and Spearman's correlation; ties have their mean rank.

        >>> Correlation.of([1, 2, 3], [1, 2, 4]).spearman
        1.0
        """
        if len(x) != len(y):
            raise ValueError(f"{len(x)} and {len(y)} values")
        if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
            return cls(None, None, len(x))
        from scipy.stats import rankdata

        return cls(_pearson(x, y), _pearson(rankdata(x), rankdata(y)), len(x))


@dataclass(frozen=True)
class GroupedCorrelation:
    """The correlation of points that come in groups which are not independent in themselves, with
    Pearson's 95 % interval for groups like these (None: it cannot be formed).
    """

    found: Correlation
    groups: int
    interval: tuple[float, float] | None

    @classmethod
    def of(
        cls, x: Sequence[float], y: Sequence[float], groups: Sequence[str]
    ) -> GroupedCorrelation:
        """Correlate points whose groups are a sample, as the languages are of points by language
        and method.

        The interval leaves out one group at a time (the jackknife), on Fisher's z, with Student's t
        of one degree less than there are groups. Counting all points as independent would make it
        too narrow, as those of one language go together.
        """
        names = list(dict.fromkeys(groups))
        found = Correlation.of(x, y)
        if found.pearson is None or len(names) < 3:
            return cls(found, len(names), None)
        without = []
        for left in names:
            kept = [place for place, name in enumerate(groups) if name != left]
            without.append(Correlation.of([x[i] for i in kept], [y[i] for i in kept]).pearson)
        if any(r is None for r in without):
            return cls(found, len(names), None)
        zs = _fisher(np.array(without, np.float64))
        error = float(np.sqrt((len(zs) - 1) / len(zs) * np.square(zs - zs.mean()).sum()))
        half = float(special.stdtrit(len(zs) - 1, 0.975)) * error
        middle = float(_fisher(np.array(found.pearson)))
        ends = float(np.tanh(middle - half)), float(np.tanh(middle + half))
        return cls(found, len(names), ends)


def _fisher(correlations: Floats) -> Floats:
    """Fisher's z, for ±1 that of .999999."""
    return np.arctanh(np.clip(correlations, -0.999999, 0.999999))


def _pearson(x: Sequence[float], y: Sequence[float]) -> float:
    return round(float(np.corrcoef(x, y)[0, 1]), 12)
