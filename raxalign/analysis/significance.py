"""Whether a difference is real: paired bootstrap, approximate randomisation, Holm's correction. No loop over rounds.

Every metric that the report tests is a mean over parts (directions, seeds) of a ratio of two sums over units: right answers over queries
for an accuracy, twice the entities found over entities given and there for F1, a score over questions for exact match. A unit is what can be
taken for independent of the others: a sentence for word pairs, a premise, a paragraph of questions. So resampling needs no more than two
numbers a part and unit, and for BLEU a third: the length of the reference, by which its brevity penalty is formed anew in every round.
Units that links hold together (both directions of a dictionary's entry) are drawn and exchanged together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ROUNDS = 1000
_CELLS = 4_000_000  # rounds x units at a time: 32 MB of weights; up to so many are also remembered


@dataclass(frozen=True)
class Sample:
    """What a system did: `gains` and `counts` (parts, units), and the `units` (their number) in ascending order.

    The metric is the mean over parts of sum(gains) / sum(counts), in percent or as a fraction as the gains are; where `wanted` (parts, units)
    is there, times BLEU's brevity penalty of sum(counts) against sum(wanted).

    `links` (links, 2) are pairs of units that are not independent of each other; a link may go over numbers that are no units here. What
    links hold together may differ between samples over the same units: samples that are compared are resampled by the links of both.
    """

    units: Ints
    gains: Floats
    counts: Floats
    wanted: Floats | None = None
    links: Ints | None = None

    @property
    def value(self) -> float:
        """The metric over all units."""
        return float(self.drawn(np.ones((1, len(self.units))))[0])

    def sums(self) -> tuple[Floats, ...]:
        """What the metric is formed of: gains, counts, and `wanted` where it is there."""
        return (self.gains, self.counts) if self.wanted is None else (self.gains, self.counts, self.wanted)

    def drawn(self, weights: Floats) -> Floats:
        """(rounds,): the metric where each unit counts so many times (rounds, units)."""
        return _metric(*(weights @ part.T for part in self.sums()))


@dataclass(frozen=True)
class Comparison:
    """Second minus first: the difference, its 95 % percentile interval, and two-sided p-values of the two tests; `units` were resampled."""

    difference: float
    low: float
    high: float
    p_bootstrap: float
    p_randomisation: float
    units: int


def stack(samples: Sequence[Sample]) -> Sample:
    """Several samples over the same units (one a seed) as one, whose value is the mean of theirs. Units that some lack are left out."""
    if len(samples) == 1:
        return samples[0]
    common = samples[0].units
    for sample in samples[1:]:
        common = np.intersect1d(common, sample.units, assume_unique=True)
    kept = [_restrict(sample, common) for sample in samples]
    wanted = [part.wanted for part in kept if part.wanted is not None]
    return Sample(
        common,
        np.concatenate([part.gains for part in kept]),
        np.concatenate([part.counts for part in kept]),
        np.concatenate(wanted) if len(wanted) == len(kept) else None,
        _links(kept),
    )


def examples_interval(sample: Sample, *, rounds: int = ROUNDS, seed: int = 0) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the metric over units (Efron & Tibshirani 1993, chapter 13)."""
    (sample,) = _joined(sample)
    values = np.concatenate([sample.drawn(weights) for weights in _resamples(len(sample.units), rounds, seed)])
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def compare(first: Sample, second: Sample, *, rounds: int = ROUNDS, seed: int = 0) -> Comparison:
    """Both tests of second minus first, over the units that both have.

    The bootstrap resamples units and asks how often the resampled difference is as far from the observed one as that is from nothing
    (Berg-Kirkpatrick et al. 2012); randomisation exchanges the two systems' answers unit by unit (Noreen 1989; Yeh 2000). Both p-values
    count the observed difference as one of the rounds, so that none is zero. Raises ValueError where no unit is shared.
    """
    common = np.intersect1d(first.units, second.units, assume_unique=True)
    if not len(common):
        raise ValueError("two samples over different units cannot be compared")
    a, b = _joined(_restrict(first, common), _restrict(second, common))
    difference = b.value - a.value
    differences = np.concatenate([b.drawn(weights) - a.drawn(weights) for weights in _resamples(len(a.units), rounds, seed)])
    low, high = np.percentile(differences, [2.5, 97.5])
    return Comparison(
        difference,
        float(low),
        float(high),
        _share(np.abs(differences - difference), abs(difference)),
        approximate_randomisation(a, b, rounds=rounds, seed=seed),
        len(a.units),
    )


def approximate_randomisation(first: Sample, second: Sample, *, rounds: int = ROUNDS, seed: int = 0) -> float:
    """The two-sided p-value of exchanging the answers of two samples over the same units, unit by unit.

    Samples with different numbers of parts (seeds) are first reduced to their means over parts' shares, so that each unit has one answer a side.
    """
    first, second = _joined(first, second)
    alike = first.gains.shape == second.gains.shape and (first.wanted is None) == (second.wanted is None)
    a, b = (first, second) if alike else (_flat(first), _flat(second))
    observed = abs(b.value - a.value)
    found = []
    for swapped in _exchanges(len(a.units), rounds, seed):
        left = [part.sum(1) + swapped @ (other - part).T for part, other in zip(a.sums(), b.sums(), strict=True)]
        right = [part.sum(1) + swapped @ (other - part).T for part, other in zip(b.sums(), a.sums(), strict=True)]
        found.append(np.abs(_metric(*right) - _metric(*left)))
    return _share(np.concatenate(found), observed)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's (1979) step-down adjustment over a family of tests.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _metric(gains_RP: Floats, counts_RP: Floats, wanted_RP: Floats | None = None) -> Floats:
    """(rounds,): the mean over parts of gains / counts; a part of which a round has drawn nothing is left out of its mean."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(counts_RP > 0, gains_RP / counts_RP, np.nan)
        if wanted_RP is not None:
            ratios = ratios * _brevity(counts_RP, wanted_RP)
        drawn = np.isfinite(ratios)
        sums = np.where(drawn, ratios, 0.0).sum(1)
        return np.asarray(np.where(drawn.any(1), sums / np.maximum(drawn.sum(1), 1), 0.0), dtype=np.float64)


def _brevity(counts: Floats, wanted: Floats) -> Floats:
    """BLEU's penalty of an output that is shorter than its reference."""
    return np.asarray(np.exp(np.minimum(0.0, 1 - wanted / counts)))


def _share(values: Floats, observed: float) -> float:
    """How many of the rounds reach the observed value, which counts as one; equal to 1e-12, as sums in another order differ."""
    return float((1 + np.count_nonzero(values >= observed - 1e-12)) / (1 + len(values)))


def _resamples(units: int, rounds: int, seed: int) -> Iterable[Floats]:
    """How often each unit is drawn (rounds, units), in parts of bounded size."""
    return _remembered(_draw, units, rounds, seed) if units * rounds <= _CELLS else _draw(units, rounds, seed)


def _exchanges(units: int, rounds: int, seed: int) -> Iterable[Floats]:
    """Which units are exchanged (rounds, units), as 0 and 1."""
    return _remembered(_toss, units, rounds, seed) if units * rounds <= _CELLS else _toss(units, rounds, seed)


@lru_cache(maxsize=4)  # the cells of a column are over the same units: drawing is dearer than adding up
def _remembered(make: Callable[[int, int, int], Iterator[Floats]], units: int, rounds: int, seed: int) -> tuple[Floats, ...]:
    return tuple(make(units, rounds, seed))


def _draw(units: int, rounds: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng([seed, 1])
    for some in _parts(units, rounds):
        drawn = rng.integers(0, units, size=(some, units)) + np.arange(some)[:, None] * units
        yield np.bincount(drawn.ravel(), minlength=some * units).reshape(some, units).astype(np.float64)


def _toss(units: int, rounds: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng([seed, 2])
    for some in _parts(units, rounds):
        yield rng.integers(0, 2, size=(some, units), dtype=np.int8).astype(np.float64)


def _parts(units: int, rounds: int) -> Iterator[int]:
    size = max(1, _CELLS // max(units, 1))
    for begin in range(0, rounds, size):
        yield min(size, rounds - begin)


def _links(samples: Sequence[Sample]) -> Ints | None:
    """The links of all samples together."""
    given = [sample.links for sample in samples if sample.links is not None]
    return np.concatenate(given) if given else None


def _joined(*samples: Sample) -> Sequence[Sample]:
    """Samples over the same units, those added up that the links of any of the samples hold together; the smallest names them all."""
    links = _links(samples)
    if links is None:
        return samples
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    units = samples[0].units
    nodes = np.unique(np.concatenate([units, links.ravel()]))
    ends = tuple(np.searchsorted(nodes, links).T)
    _, component = connected_components(coo_array((np.ones(len(links)), ends), shape=(len(nodes), len(nodes))), directed=False)
    _, first, group = np.unique(component[np.searchsorted(nodes, units)], return_index=True, return_inverse=True)
    names, place = np.unique(units[first][group], return_inverse=True)
    return [_over(names, [np.stack([np.bincount(place, row, len(names)) for row in part]) for part in sample.sums()]) for sample in samples]


def _over(units: Ints, sums: Sequence[npt.NDArray[Any]], links: Ints | None = None) -> Sample:
    """A sample of what `Sample.sums` names, over other units."""
    gains, counts, *wanted = sums
    return Sample(units, gains, counts, wanted[0] if wanted else None, links)


def _restrict(sample: Sample, units: Ints) -> Sample:
    """The sample over some of its units (both ascending)."""
    if len(units) == len(sample.units):
        return sample
    chosen = np.searchsorted(sample.units, units)
    return _over(units, [part[:, chosen] for part in sample.sums()], sample.links)


def _flat(sample: Sample) -> Sample:
    """One part whose value is the sample's: each unit's share in the mean over parts, over the number of units."""
    totals = sample.counts.sum(1, keepdims=True)
    parts = sample.gains / np.where(totals > 0, totals, 1.0)
    if sample.wanted is not None:
        parts = parts * _brevity(np.maximum(totals, 1.0), sample.wanted.sum(1, keepdims=True))
    shares = parts.mean(0, keepdims=True)
    return Sample(sample.units, shares, np.full_like(shares, 1.0 / shares.shape[1]))
