"""Whether a difference is real where both examples and training runs are chance: closed forms,
nothing is drawn.

Runs and units are two crossed random factors. With values v_r of R runs and influences psi_ru of
unit u on them (`analysis.runs`):

* the variance between runs, var(v_r) / R, is that of a mean over runs, noise of the examples within
  a run included;
* the variance over examples is n / (n - 1) times the sum over units of (mean over runs of psi_ru,
  of one system less the other)^2;
* the noise of an example within a run is in both, and is subtracted once: n / (n - 1) times the
  sum of (psi_ru - mean_r psi_ru)^2 / (R (R - 1)).

Their sum has the degrees of freedom of Satterthwaite (1946) and gives a t test and a t interval.
`benchmarks/significance.py` shows by simulation how often equal systems are called different.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from raxalign.analysis.runs import Floats, Ints, Runs, links_of, over, union

LEVEL = 0.05
ONE_RUN = "one run"
ONE_EXAMPLE = "one example"
_NOTHING = 1e-24  # a variance that is rounding error alone


@dataclass(frozen=True)
class Interval:
    """A 95 % interval over both kinds of chance, and the numbers of runs and of independent
    clusters of examples that it is computed from.
    """

    low: float
    high: float
    runs: int
    examples: int

    def holds(self, value: float) -> bool:
        """Return whether a value is inside."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Comparison:
    """System minus baseline: `difference` with its 95 % interval and two-sided p-value; these are
    None where `untested` says why.

    `runs` and `baseline_runs` went in; where `paired`, seed by seed, as both share what is trained.
    `examples` are independent clusters.
    """

    difference: float
    low: float | None
    high: float | None
    p: float | None
    runs: int
    baseline_runs: int
    examples: int
    paired: bool = False
    untested: str = ""


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of values with its 95 % interval and two-sided p-value against 0; these are
    None where `untested` says why. `runs` went in per value; `examples` are independent clusters.
    """

    value: float
    low: float | None
    high: float | None
    p: float | None
    runs: tuple[int, ...]
    examples: int
    untested: str = ""


@dataclass(frozen=True)
class Noise:
    """The variance of a mean over runs and examples, its degrees of freedom, and the number of
    clusters of examples.
    """

    variance: float
    freedom: float
    examples: int

    @property
    def quantile(self) -> float:
        """How many standard errors a 95 % interval reaches to each side."""
        from scipy.special import (
            ndtri,
            stdtrit,
        )  # scipy.stats would start torch where that is a lazy stub

        return float(
            ndtri(1 - LEVEL / 2)
            if math.isinf(self.freedom)
            else stdtrit(self.freedom, 1 - LEVEL / 2)
        )


def interval(runs: Runs, *, examples_alone: bool = False) -> Interval | None:
    """Return the 95 % interval of a mean over runs; None for one run of what has chance, and for
    one example.

    For a share it is Wilson's (1927) score interval, with the number of examples that the variance
    is worth and the quantile of Student's t; else Student's t interval. With `examples_alone` the
    runs count as given.
    """
    if examples_alone:
        runs = replace(
            runs,
            values=runs.values.mean(keepdims=True),
            influences=runs.influences.mean(0, keepdims=True),
            seeds=(None,),
            chance=False,
        )
    noise = _noise([runs]) if runs.testable else None
    if noise is None:
        return None
    value, counted = runs.mean(), (len(runs.seeds), noise.examples)
    if runs.share:
        return Interval(*_wilson(value, noise), *counted)
    half = noise.quantile * math.sqrt(noise.variance)
    return Interval(value - half, value + half, *counted)


def compare(baseline: Runs, system: Runs, *, paired: bool = False) -> Comparison:
    """System minus baseline.

    With `paired`, the runs of one seed share their training, and their differences are formed seed
    by seed, over the seeds that both have; else runs of the two are independent even if their seeds
    have equal numbers.
    """
    sides = [_differences(baseline, system)] if paired else [system, baseline]
    difference = sides[0].mean() - (0.0 if paired else sides[1].mean())
    counts = (len(sides[0].seeds), len(sides[-1].seeds))
    noise = _noise(sides) if all(side.testable for side in sides) else None
    if noise is None:
        clusters = _aligned(sides)[0].shape[1]
        why = ONE_EXAMPLE if all(side.testable for side in sides) else ONE_RUN
        return Comparison(difference, None, None, None, *counts, clusters, paired, why)
    low, high, p = _tested(difference, noise)
    if system.share and baseline.share:
        low, high = max(low, -1.0), min(high, 1.0)
    return Comparison(difference, low, high, p, *counts, noise.examples, paired)


def contrast(weighted: Sequence[tuple[float, Runs]]) -> Contrast:
    """Test a weighted sum of values whose runs are independent of each other.

    A difference of differences, for example, has the weights 1, -1, -1, 1. Equal examples enter
    each value's influence, so that what all values share cancels.

    Args:
        weighted: weights and the values over their runs.
    """
    weights, sides = [weight for weight, _ in weighted], [runs for _, runs in weighted]
    value = math.fsum(weight * runs.mean() for weight, runs in weighted)
    counts = tuple(len(runs.seeds) for runs in sides)
    testable = all(runs.testable for runs in sides)
    noise = _noise(sides, weights) if testable else None
    if noise is None:
        why = ONE_EXAMPLE if testable else ONE_RUN
        return Contrast(value, None, None, None, counts, _aligned(sides)[0].shape[1], why)
    return Contrast(value, *_tested(value, noise), counts, noise.examples)


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


def _differences(baseline: Runs, system: Runs) -> Runs:
    """System minus baseline as one system, seed by seed."""
    seeds = [seed for seed in system.seeds if seed in baseline.seeds]
    a, b = baseline.only(seeds), system.only(seeds)
    units = union([a.units, b.units])
    chance = a.chance or b.chance
    return Runs(
        tuple(seeds),
        b.values - a.values,
        units,
        over(units, b) - over(units, a),
        chance,
        links=links_of([a, b]),
    )


def _noise(sides: Sequence[Runs], weights: Sequence[float] = (1.0, -1.0)) -> Noise | None:
    """The noise of one side, or of a weighted sum of several (the first minus the second); None for
    less than two clusters of examples.
    """
    influences = _aligned(sides)
    n = influences[0].shape[1]
    if n < 2:
        return None
    means = [part.mean(0) for part in influences]
    apart = sum(weight * mean for weight, mean in zip(weights, means, strict=False))
    factor = n / (n - 1)
    examples, between, twice, spread = factor * float(apart @ apart), 0.0, 0.0, 0.0
    for weight, side, part, mean in zip(weights, sides, influences, means, strict=False):
        if side.chance:
            runs = len(side.values)
            own = weight**2 * float(side.values.var(ddof=1)) / runs
            between += own
            spread += own**2 / (runs - 1)
            within = factor * float(((part - mean) ** 2).sum()) / (runs * (runs - 1))
            twice += weight**2 * within
    variance = examples + max(0.0, between - twice)
    spread += examples**2 / (n - 1)
    freedom = (
        max(1.0, variance**2 / spread) if spread > 0 else math.inf
    )  # the subtraction may leave less than two runs have
    return Noise(variance, freedom, n)


def _tested(difference: float, noise: Noise) -> tuple[float, float, float]:
    """(low, high, p) of a difference.

    Where all examples say the same, there is no variance: p is then that of their signs, 2^(1 - n),
    and the interval that of Wilson at a share of 1.
    """
    from scipy.special import stdtr

    if noise.variance > _NOTHING:
        error = math.sqrt(noise.variance)
        half = noise.quantile * error
        return (
            difference - half,
            difference + half,
            2 * float(stdtr(noise.freedom, -abs(difference) / error)),
        )
    if abs(difference) < math.sqrt(_NOTHING):
        return difference, difference, 1.0
    squared = noise.quantile**2
    half = abs(difference) * squared / (noise.examples + squared)
    return difference - half, difference + half, 2.0 ** (1 - noise.examples)


def _wilson(value: float, noise: Noise) -> tuple[float, float]:
    inside = value * (1 - value)
    n = (
        inside / noise.variance
        if noise.variance > _NOTHING and inside > _NOTHING
        else float(noise.examples)
    )
    weight = noise.quantile**2 / n
    centre = (value + weight / 2) / (1 + weight)
    half = math.sqrt(weight * inside + weight**2 / 4) / (1 + weight)
    return max(0.0, min(centre - half, value)), min(
        1.0, max(centre + half, value)
    )  # rounding apart, the value is inside


def _aligned(sides: Sequence[Runs]) -> list[Floats]:
    """The influences (runs, clusters) of all sides over the same clusters: the units of any side,
    those together that links hold together.
    """
    units, links = union([side.units for side in sides]), links_of(sides)
    wide = [over(units, side) for side in sides]
    if links is None:
        return wide
    cluster = _clusters(units, links)
    count = int(cluster.max(initial=-1)) + 1
    return [np.stack([np.bincount(cluster, row, count) for row in part]) for part in wide]


def _clusters(units: Ints, links: Ints) -> Ints:
    """The number of each unit's cluster, from 0 without gaps."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    nodes = np.unique(np.concatenate([units, links.ravel()]))
    ends = tuple(np.searchsorted(nodes, links).T)
    _, component = connected_components(
        coo_array((np.ones(len(links)), ends), shape=(len(nodes), len(nodes))), directed=False
    )
    return np.asarray(
        np.unique(component[np.searchsorted(nodes, units)], return_inverse=True)[1], dtype=np.int64
    )
