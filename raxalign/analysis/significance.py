"""Whether a difference is real where both examples and training runs are chance: closed forms,
nothing is drawn.

Runs and units are two crossed random factors. With values v_r of R runs and influences psi_ru of
unit u on them (`Runs`):

* the variance between runs, var(v_r) / R, is that of a mean over runs, noise of the examples within
  a run included; the variance that it estimates is var(v_r) / R * (R - 1) / U, where U is
  distributed as chi-square with R - 1 degrees of freedom;
* the variance over examples is n / (n - 1) times the sum over units of (mean over runs of psi_ru,
  of one system less the other)^2;
* the noise of an example within a run is in both: n / (n - 1) times the sum of
  (psi_ru - mean_r psi_ru)^2 / (R (R - 1)). It is subtracted from that between runs, which cannot be
  less.

The p-value is the mean over U of that at the variance which follows from U: a generalised p-value
(Tsui & Weerahandi 1989). Few runs may agree by chance, and a variance that is taken for known, or
whose degrees of freedom are estimated from it, would then call chance a difference. The interval
has the differences whose p-value is at least .05. `benchmarks/significance.py` shows by simulation
how often equal systems are called different.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

from raxalign.arrays import Floats, Ints
from raxalign.lazy import np, special
from raxalign.measured import Measured
from raxalign.sample import Sample

NUMBER = Measured.undeclared("")


@dataclass(frozen=True)
class Runs:
    """A value over its runs: `values` (runs,) and their `influences` (runs, units), over `units` in
    ascending order.

    `seeds` name the runs. `chance` says whether another seed may give another value (which the plan
    knows, and one run does not show); `share`, whether values are shares; `limits`, the smallest
    and the largest value that there can be.
    """

    seeds: tuple[object, ...]
    values: Floats
    units: Ints
    influences: Floats
    chance: bool
    share: bool = False
    links: Ints | None = None
    limits: tuple[float, float] = (-math.inf, math.inf)

    ONE_RUN: ClassVar = "one run"
    ONE_EXAMPLE: ClassVar = "one example"
    """Why nothing is tested."""

    @classmethod
    def of(
        cls,
        samples: Mapping[object, Sequence[Sample]],
        *,
        chance: bool,
        measured: Measured = NUMBER,
    ) -> Runs:
        """Return the samples of each seed; where a seed has several (models of the pivot in an
        ``each`` grid), its value is the mean of theirs. With `chance`, another seed may give
        another value; `measured` is what is declared: shares have intervals of their own.
        """
        every = [sample for several in samples.values() for sample in several]
        units = union([sample.units for sample in every])
        influences = np.zeros((len(samples), len(units)))
        for row, several in zip(influences, samples.values(), strict=True):
            for sample in several:
                row[_places(units, sample.units)] += sample.influence() / len(several)
        values = [
            math.fsum(sample.value for sample in several) / len(several)
            for several in samples.values()
        ]
        share, links = measured.unit == "share", Runs.links_of(every)
        seeds, limits = tuple(samples), measured.limits
        return cls(seeds, np.array(values), units, influences, chance, share, links, limits)

    @property
    def testable(self) -> bool:
        """Whether the spread of what is chance can be seen: not in a single run that has chance."""
        return not self.chance or len(self.seeds) > 1

    def mean(self) -> float:
        """Return the mean over runs."""
        return float(self.values.mean())

    def only(self, seeds: Sequence[object]) -> Runs:
        """Return the runs of some seeds, in their order."""
        rows = [self.seeds.index(seed) for seed in seeds]
        return replace(
            self, seeds=tuple(seeds), values=self.values[rows], influences=self.influences[rows]
        )

    def over(self, units: Ints) -> Floats:
        """Return the influences over more units; those of units that were absent are 0."""
        if len(units) == len(self.units):
            return self.influences
        wide = np.zeros((len(self.seeds), len(units)))
        wide[:, np.searchsorted(units, self.units)] = self.influences
        return wide

    def minus(self, baseline: Runs) -> Runs:
        """Return the difference to a baseline as one system, seed by seed."""
        seeds = [seed for seed in self.seeds if seed in baseline.seeds]
        a, b = baseline.only(seeds), self.only(seeds)
        units = union([a.units, b.units])
        chance = a.chance or b.chance
        return Runs(
            tuple(seeds),
            b.values - a.values,
            units,
            b.over(units) - a.over(units),
            chance,
            links=Runs.links_of([a, b]),
        )

    @classmethod
    def mean_of(cls, languages: Sequence[Runs]) -> Runs:
        """Return the mean over languages, run by run, over the seeds that all have; a unit that
        several languages have is one unit.

        Raises ValueError where no seed is common to all.
        """
        first = languages[0].seeds
        seeds = [seed for seed in first if all(seed in other.seeds for other in languages)]
        if not seeds:
            raise ValueError("no seed is common to all languages")
        parts = [runs.only(seeds) for runs in languages]
        units = union([part.units for part in parts])
        influences = np.mean([part.over(units) for part in parts], axis=0)
        values = np.mean([part.values for part in parts], axis=0)
        chance, share = any(part.chance for part in parts), all(part.share for part in parts)
        links, limits = Runs.links_of(parts), parts[0].limits
        return cls(tuple(seeds), values, units, influences, chance, share, links, limits)

    @staticmethod
    def links_of(parts: Sequence[Sample] | Sequence[Runs]) -> Ints | None:
        """Return the links of all together; samples of one test set have the same, which count
        once.
        """
        given: list[Ints] = []
        for part in parts:
            links = part.links
            if links is not None and not any(np.array_equal(links, known) for known in given):
                given.append(links)
        return np.concatenate(given) if given else None

    @staticmethod
    def aligned(sides: Sequence[Runs]) -> list[Floats]:
        """Return the influences (runs, clusters) of all sides over the same clusters: the units of
        any side, those together that links hold together.
        """
        units, links = union([side.units for side in sides]), Runs.links_of(sides)
        wide = [side.over(units) for side in sides]
        if links is None:
            return wide
        cluster = _clusters(units, links)
        count = int(cluster.max(initial=-1)) + 1
        return [np.stack([np.bincount(cluster, row, count) for row in part]) for part in wide]


def union(several: Sequence[Ints]) -> Ints:
    """Return the units of any, ascending; the first one itself where all are equal."""
    first = several[0]
    if all(np.array_equal(first, other) for other in several[1:]):
        return first
    return np.unique(np.concatenate(list(several)))


def _places(units: Ints, some: Ints) -> slice | Ints:
    return slice(None) if len(some) == len(units) else np.searchsorted(units, some)


LEVEL = 0.05
NOTHING = 1e-24  # a variance that is rounding error alone
_EXACT = 1e-9  # of a p-value at the end of an interval
_STEPS = (-18.0, 10.0, 37)  # ends and number of the log odds at which U is taken
_FINE = 4  # variances that are told apart, per factor of e


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

    @classmethod
    def of(cls, runs: Runs, *, examples_alone: bool = False) -> Interval | None:
        """Return the 95 % interval of a mean over runs; None for one run of what has chance, and
        for one example.

        For a share it is Wilson's (1927) score interval, with the number of examples that the noise
        is worth; others end where the values do. With `examples_alone` the runs count as given.
        """
        if examples_alone:
            runs = replace(
                runs,
                values=runs.values.mean(keepdims=True),
                influences=runs.influences.mean(0, keepdims=True),
                seeds=(None,),
                chance=False,
            )
        spread = Spread.of([runs]) if runs.testable else None
        if spread is None:
            return None
        noise = spread.noise()
        value, counted = runs.mean(), (len(runs.seeds), noise.examples)
        if runs.share:
            return cls(*_wilson(value, noise), *counted)
        half = 0.0 if noise.absent else noise.half()
        low, high = runs.limits
        return cls(max(value - half, low), min(value + half, high), *counted)


@dataclass(frozen=True)
class Comparison:
    """System minus baseline: `difference` with its 95 % interval and two-sided p-value; these are
    None where `untested` says why.

    `runs` and `baseline_runs` went in; where `paired`, seed by seed, as both share what is trained.
    `examples` are independent clusters, and `spread` has the variances behind the test; of a side
    with a single run it does not know how runs differ.
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
    spread: Spread | None = field(default=None, repr=False)

    @property
    def is_zero(self) -> bool:
        """Whether no example differs in any run, so that no test could find anything, and it can
        leave a family (Tarone 1990).
        """
        same = self.spread is not None and self.spread.noise().absent
        return same and self.difference**2 <= NOTHING

    @classmethod
    def of(cls, baseline: Runs, system: Runs, *, paired: bool = False) -> Comparison:
        """Compare a system with a baseline: the system minus the baseline.

        With `paired`, the runs of one seed share their training, and their differences are formed
        seed by seed, over the seeds that both have; else runs of the two are independent even if
        their seeds have equal numbers.
        """
        sides = [system.minus(baseline)] if paired else [system, baseline]
        found = ContrastTest.of(list(zip((1.0, -1.0), sides, strict=False)))
        low, high = found.low, found.high
        if low is not None and high is not None and system.share and baseline.share:
            low, high = max(low, -1.0), min(high, 1.0)
        runs, baseline_runs = found.runs[0], found.runs[-1]
        return cls(
            *(found.value, low, high, found.p, runs, baseline_runs, found.examples, paired),
            untested=found.untested,
            spread=found.spread,
        )


@dataclass(frozen=True)
class ContrastTest:
    """A weighted sum of values with its 95 % interval and two-sided p-value against 0; these are
    None where `untested` says why. `runs` went in per value; `examples` are independent clusters,
    and `spread` has the variances behind the test.
    """

    value: float
    low: float | None
    high: float | None
    p: float | None
    runs: tuple[int, ...]
    examples: int
    untested: str = ""
    spread: Spread | None = field(default=None, repr=False)

    @classmethod
    def of(cls, weighted: Sequence[tuple[float, Runs]]) -> ContrastTest:
        """Test a weighted sum of values over runs that are independent of each other.

        A difference of differences, for example, has the weights 1, -1, -1, 1. Equal examples enter
        each value's influence, so that what all values share cancels.
        """
        weights, sides = [weight for weight, _ in weighted], [runs for _, runs in weighted]
        value = math.fsum(weight * runs.mean() for weight, runs in weighted)
        counts = tuple(len(runs.seeds) for runs in sides)
        spread, testable = Spread.of(sides, weights), all(runs.testable for runs in sides)
        if spread is None or not testable:
            clusters = Runs.aligned(sides)[0].shape[1] if spread is None else spread.clusters
            why = Runs.ONE_EXAMPLE if testable else Runs.ONE_RUN
            return cls(value, None, None, None, counts, clusters, why, spread)
        tested = _tested(value, spread.noise())
        return cls(value, *tested, counts, spread.clusters, spread=spread)


@dataclass(frozen=True)
class TrainedSide:
    """The variances of the mean over the `runs` of one side of a difference, times its squared
    weight: that `between` its runs, and the noise of an example `within` a run, which is in it.
    """

    runs: int
    between: float
    within: float
    weight: float = 1.0


@dataclass(frozen=True)
class Spread:
    """The variances behind a difference: that of the mean over the `examples` of all runs, over so
    many `clusters`, and those of its sides whose runs are chance.
    """

    examples: float
    clusters: int
    trained: tuple[TrainedSide, ...] = ()

    @classmethod
    def of(cls, sides: Sequence[Runs], weights: Sequence[float] = (1.0, -1.0)) -> Spread | None:
        """Return what varies behind one side, or behind a weighted sum of several (the first minus
        the second); None for less than two clusters of examples. The variances of a side with one
        run are 0 where its runs are chance, since one run does not show them.
        """
        influences = Runs.aligned(sides)
        n = influences[0].shape[1]
        if n < 2:
            return None
        factor, apart, trained = n / (n - 1), np.zeros(n), []
        for weight, side, part in zip(weights, sides, influences, strict=False):
            mean, runs = part.mean(0), len(side.values)
            apart += weight * mean
            if side.chance and runs == 1:
                trained.append(TrainedSide(1, 0.0, 0.0, weight))
            elif side.chance:
                own = weight**2 * float(side.values.var(ddof=1)) / runs
                within = factor * float(((part - mean) ** 2).sum()) / (runs * (runs - 1))
                trained.append(TrainedSide(runs, own, weight**2 * within, weight))
        return cls(factor * float(apart @ apart), n, tuple(trained))

    def noise(self) -> Noise:
        """Return the variances that are possible under a spread that few runs and examples show."""
        parts = [
            _between(side.between, side.within, side.runs, side.weight)
            for side in self.trained
            if max(side.between, side.within) > NOTHING
        ]
        variances, shares = _summed(self.examples, parts)
        sure = np.maximum(self.examples / np.maximum(variances, NOTHING), 1e-4)
        return Noise(variances, shares, (self.clusters - 1) / sure**2, self.clusters)

    def at(self, runs: Sequence[int], examples: float = 1.0) -> Spread:
        """Return the spread with other numbers of runs, and with `examples` times the examples."""
        alone = self.examples - sum(side.within for side in self.trained)
        alone = max(alone, 0.0) / examples
        trained = []
        for side, count in zip(self.trained, runs, strict=True):
            within = side.within * side.runs / count / examples
            apart = max(side.between - side.within, 0.0) * side.runs / count
            trained.append(TrainedSide(count, apart + within, within, side.weight))
        clusters = max(2, round(self.clusters * examples))
        return Spread(alone + sum(side.within for side in trained), clusters, tuple(trained))


@dataclass(frozen=True)
class Noise:
    """The variances that a mean over runs and examples may have, in ascending order: how probable
    each is, the degrees of freedom of Student's t under it, and the number of clusters of examples.
    """

    variances: Floats
    weights: Floats
    freedom: Floats
    examples: int

    @property
    def absent(self) -> bool:
        """Whether all examples and runs say the same."""
        return bool(self.variances[-1] <= NOTHING)

    def p(self, difference: float) -> float:
        """Return the two-sided p-value of a difference."""
        errors = np.sqrt(np.maximum(self.variances, NOTHING))
        return min(
            1.0, 2 * float(self.weights @ special.stdtr(self.freedom, -abs(difference) / errors))
        )

    def half(self, exact: float = _EXACT, level: float = LEVEL) -> float:
        """Return the difference whose p-value is a level, within `exact` for the usual level and
        smaller with it: half an interval.
        """
        errors = np.sqrt(np.maximum(self.variances, NOTHING))
        if len(errors) == 1:
            return float(special.stdtrit(self.freedom[0], 1 - level / 2) * errors[0])
        beyond = np.minimum(np.cumsum(self.weights[::-1])[::-1], 1.0)
        enough = beyond > level
        # p falls and is convex, so that secants from the left never step over its root
        at, p, last, p_last = 0.0, 1.0, 0.0, 1.0
        after = float(np.max(errors[enough] * -special.ndtri(level / 2 / beyond[enough])))
        while p - level > exact * level / LEVEL and after > at:
            last, p_last, at = at, p, after
            p = self.p(at)
            after = at + (p - level) * (at - last) / (p_last - p)
        return at


def lies_within(low: float | None, high: float | None, margin: float | None) -> bool:
    """Return whether an interval lies within plus and minus a margin; not where one is None.

    >>> lies_within(-0.5, 1.0, 1.0), lies_within(-0.5, 1.0, None)
    (True, False)
    """
    if low is None or high is None or margin is None:
        return False
    return -margin <= low and high <= margin


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


def at_look(p: float, look: int) -> float:
    """Return a p-value as what it counts where the same comparison was looked at with fewer or
    other runs before: look k of several is tested at the level over k (k + 1).

    >>> at_look(0.01, 1), at_look(0.01, 2), at_look(0.5, 3)
    (0.01, 0.06, 1.0)
    """
    return p if look == 1 else min(1.0, look * (look + 1) * p)


@dataclass(frozen=True)
class _Between:
    """What the runs of one side may add to the variance of the examples, how probable that is, and
    the logarithm of the variance of a run that it comes from.
    """

    added: Floats
    weights: Floats
    logs: Floats


@lru_cache(maxsize=64)  # a planned comparison asks for each side and each of its quantiles
def _between(own: float, within: float, runs: int, weight: float) -> _Between:
    """Take the variance of a mean over runs (`own`) at quantiles of its chi-square, from where it
    is all noise of the examples `within` runs, below which it cannot be. The steps between the
    quantiles are small where it is large.
    """
    half = (runs - 1) / 2
    above = float(special.gammainc(half, own * half / within)) if within > 0 else 1.0
    places = special.expit(np.linspace(*_STEPS))
    density = places * (1 - places)
    true = np.full(len(places), within)
    if above > _EXACT**2:
        true = own * half / special.gammaincinv(half, above * places)
    true = np.maximum(np.append(true, within if within > 0 else true[-1]), within)
    shares = np.append(above * density / density.sum(), 1 - above)
    return _Between(true - within, shares, np.log(true * runs / weight**2))


def _summed(examples: float, parts: Sequence[_Between]) -> tuple[Floats, Floats]:
    """Return the variances that the examples and the runs of all sides may have together, in
    ascending order, and how probable each is.

    Of two sides, variances of a run that are nearly equal count up to three times: runs of two
    trainings mostly differ by about as much, and two or three runs alone show little. With a larger
    factor, equal systems whose runs differ by very unequal amounts would be called different.
    """
    variances, weights = np.array([examples]), np.ones(1)
    for part in parts:
        variances = np.add.outer(variances, part.added).ravel()
        weights = np.multiply.outer(weights, part.weights).ravel()
        if len(parts) > 2:
            variances, weights = _folded(variances, weights)
    if len(parts) == 2:
        apart = np.subtract.outer(parts[0].logs, parts[1].logs).ravel()
        weights *= 1 + 2 * np.exp(-(apart**2))
    return _folded(variances, weights)


def _folded(variances: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Take variances together that are nearly equal, each group as its mean, in ascending order."""
    sizes = np.log(np.maximum(variances, NOTHING))
    group = np.round(_FINE * (sizes - sizes.min())).astype(np.int64)
    whole = np.bincount(group, weights)
    there = whole > 0
    mean = np.bincount(group, weights * variances)[there] / whole[there]
    return mean, whole[there] / whole.sum()


def _tested(difference: float, noise: Noise) -> tuple[float, float, float]:
    """(low, high, p) of a difference.

    Where all examples say the same, there is no variance: p is then that of their signs, 2^(1 - n),
    and the interval that of Wilson at a share of 1.
    """
    if not noise.absent:
        half = noise.half()
        return difference - half, difference + half, noise.p(difference)
    if abs(difference) < math.sqrt(NOTHING):
        return difference, difference, 1.0
    squared = _quantile() ** 2
    half = abs(difference) * squared / (noise.examples + squared)
    return difference - half, difference + half, 2.0 ** (1 - noise.examples)


def _wilson(value: float, noise: Noise) -> tuple[float, float]:
    inside = value * (1 - value)
    if noise.absent or inside <= NOTHING:
        weight = _quantile() ** 2 / noise.examples
    else:
        weight = noise.half() ** 2 / inside
    centre = (value + weight / 2) / (1 + weight)
    half = math.sqrt(weight * inside + weight**2 / 4) / (1 + weight)
    return max(0.0, min(centre - half, value)), min(
        1.0, max(centre + half, value)
    )  # rounding apart, the value is inside


def _quantile() -> float:
    return float(special.ndtri(1 - LEVEL / 2))


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
