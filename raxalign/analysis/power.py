"""How large a difference has to be to be found, and how many runs and examples that takes; and a
mean over languages as an estimate for languages like these.

The test of `analysis.significance` calls a difference real where it is larger than half the width
of its interval, which depends on how much the runs happen to differ. Under true variances the
squared spread of R runs is distributed as chi-square with R - 1 degrees of freedom, so that the
share of experiments that find a difference is a mean over its quantiles, at nodes of Gauss and
Legendre: nothing is drawn. Where the variances are estimated, the share is also a mean over how far
the variance of the difference may be from its estimate: chi-square with the degrees of freedom of
Satterthwaite (1946).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from raxalign.analysis.significance import LEVEL, Noise, Runs, Spread, TrainedSide
from raxalign.arrays import Floats
from raxalign.errors import RaxalignError
from raxalign.lazy import np, special


@dataclass(frozen=True)
class LanguageSample:
    """A difference for languages like these, with its 95 % interval, two-sided p-value and degrees
    of freedom; these are None where `untested` says why.

    The languages of a table are a sample, crossed with training runs and with examples.

    With d_l the difference in language l of L, and d their mean, the variance of d around what
    holds for languages like these is

        V = s^2 / L + E + sum over trained sides of C,

    where s^2 is the variance of the d_l, in which everything is that differs between languages:
    true differences, and what runs and examples do to one language alone. What they do to all
    languages alike is not in it, since it moves every d_l by as much. It is estimated by
    covariances between languages: E is their mean covariance over examples (of the influences'
    means over runs), and C that over runs, less the noise of the examples within a run. A
    covariance below 0 counts as 0.

    The degrees of freedom are Satterthwaite's (1946): V^2 over the sum of the squares of the mean
    squares that V is made of, each over its own degrees of freedom. `benchmarks/significance.py`
    simulates how often equal systems are called different, and how often intervals hold the truth.
    """

    difference: float
    low: float | None
    high: float | None
    p: float | None
    freedom: float | None
    languages: int
    untested: str = ""

    FEWEST: ClassVar = 4
    FEW_LANGUAGES: ClassVar = (
        f"fewer than {FEWEST} languages show too little of how languages differ"
    )

    def detectable(self, among: int = 1) -> float | None:
        """Return the smallest true difference that four of five such tests find, by themselves or
        as one of `among` (`Design.of`); None where languages and runs say too little of the
        standard error.
        """
        if self.high is None or self.freedom is None or self.freedom < self.FEWEST - 1:
            return None
        critical = float(special.stdtrit(self.freedom, 1 - LEVEL / 2))
        return smallest_of_student((self.high - self.difference) / critical, self.freedom, among)

    def noise(self) -> Noise | None:
        """Return the variance of the difference, taken for the true one; None without a test."""
        if self.high is None or self.freedom is None:
            return None
        critical = float(special.stdtrit(self.freedom, 1 - LEVEL / 2))
        error = (self.high - self.difference) / critical
        return Noise(np.array([error**2]), np.ones(1), np.array([self.freedom]), self.languages)

    @classmethod
    def of(
        cls, baseline: Sequence[Runs], system: Sequence[Runs], *, paired: bool = False
    ) -> LanguageSample:
        """Compare a system with a baseline, for languages like these: the system minus the
        baseline.

        Args:
            baseline: its runs in each language; all languages share them, seed by seed.
            system: likewise, in the same languages.
            paired: whether runs of one seed share their training, as in `Comparison.of`.
        """
        pairs = zip(baseline, system, strict=True)
        sides = [[b.minus(a) for a, b in pairs]] if paired else [system, baseline]
        sides = [_common([side])[0] for side in sides]
        weights = np.array((1.0, -1.0)[: len(sides)])
        means = [float(np.mean([runs.mean() for runs in side])) for side in sides]
        difference, count = float(weights @ means), len(system)
        if count < cls.FEWEST:
            return cls(difference, None, None, None, None, count, cls.FEW_LANGUAGES)
        if not all(runs.testable for side in sides for runs in side):
            return cls(difference, None, None, None, None, count, Runs.ONE_RUN)
        noise = LanguageSpread.of([[side] for side in sides]).noise(weights)
        ends = difference - noise.half(), difference + noise.half()
        return cls(difference, *ends, noise.p(difference), float(noise.freedom[0]), count)


def _common(sides: Sequence[Sequence[Runs]], *, shared: bool = False) -> Sequence[Sequence[Runs]]:
    """The runs that all languages of a side have, or with `shared` those of all sides."""
    if shared:
        every, count = _common([[runs for side in sides for runs in side]])[0], len(sides[0])
        return [every[k : k + count] for k in range(0, len(every), count)]
    found = []
    for first, *others in sides:
        seeds = [seed for seed in first.seeds if all(seed in other.seeds for other in others)]
        found.append([runs.only(seeds) for runs in (first, *others)])
    return found


@dataclass(frozen=True)
class _Chance:
    """What training runs do to all languages alike, and the mean squares of runs, and of runs by
    languages, with their degrees of freedom: matrices over the values at a place among all.
    """

    place: slice
    alike: Floats
    squares: tuple[tuple[Floats, float], ...]

    @classmethod
    def of(cls, sides: Sequence[Sequence[Runs]], first: int, *, shared: bool) -> _Chance:
        """Return it of values whose runs differ by as much, or with `shared` are the same ones."""
        count, place = len(sides[0]), slice(first, first + len(sides))
        flat = Runs.aligned([runs for side in sides for runs in side])
        clusters = flat[0].shape[1]
        factor = clusters / max(clusters - 1, 1)
        parts = [flat[k : k + count] for k in range(0, len(flat), count)]
        values = [np.stack([runs.values for runs in side])[None] for side in sides]
        apart = [own - own.mean(2, keepdims=True) for own in values]
        noise = [np.stack([p - p.mean(0) for p in part]).reshape(1, count, -1) for part in parts]
        both = [(own - own.mean(1, keepdims=True)).reshape(1, -1) for own in apart]
        if shared:
            apart, noise, both = ([np.concatenate(own)] for own in (apart, noise, both))
        found = [
            (_alike(a) - factor * _alike(n), a.mean(1) @ a.mean(1).T, b @ b.T)
            for a, n, b in zip(apart, noise, both, strict=True)
        ]
        runs = np.array([own.shape[2] for own in values])
        freedom = float(runs[0] - 1 if shared else (runs - 1).sum())
        alike, run, crossed = (sum(several) / freedom for several in zip(*found, strict=True))
        over = 1 / runs[0] if shared else np.diag(1 / runs)
        crossed = crossed * over / (count * (count - 1))
        squares = (run * over, freedom), (crossed, (count - 1) * freedom)
        return cls(place, alike * over, squares)


@dataclass(frozen=True)
class LanguageSpread:
    """What varies behind weighted sums of several values, each a mean over the same languages, for
    languages like these (`LanguageSample`): `means` (values, languages) around those over
    languages, what `examples` do to all languages alike, a matrix, and what training runs do.
    """

    means: Floats
    examples: Floats
    clusters: int
    chance: tuple[_Chance, ...]

    @classmethod
    def of(
        cls, groups: Sequence[Sequence[Sequence[Runs]]], shared: Sequence[int] = ()
    ) -> LanguageSpread:
        """Return it of groups of values, each its runs in all languages. The runs of a group differ
        by as much at each value, and are the same ones, seed by seed, in those that are `shared`.
        Only runs count that all languages have.
        """
        groups = [_common(group, shared=number in shared) for number, group in enumerate(groups)]
        sides = [side for group in groups for side in group]
        means = np.array([[runs.mean() for runs in side] for side in sides])
        flat = [runs for side in sides for runs in side]
        alone = [
            replace(
                runs,
                seeds=(None,),
                values=runs.values.mean(keepdims=True),
                influences=runs.influences.mean(0, keepdims=True),
            )
            for runs in flat
        ]
        parts = np.stack(Runs.aligned(alone)).reshape(*means.shape, -1)
        clusters, first, chance = parts.shape[2], 0, list[_Chance]()
        for number, group in enumerate(groups):
            if any(runs.chance for side in group for runs in side):
                chance.append(_Chance.of(group, first, shared=number in shared))
            first += len(group)
        examples = clusters / max(clusters - 1, 1) * _alike(parts)
        means -= means.mean(1, keepdims=True)
        return cls(means, examples, clusters, tuple(chance))

    def noise(self, weights: Floats) -> Noise:
        """Return the noise of a weighted sum of the values."""
        count = self.means.shape[1]
        languages = float(((weights @ self.means) ** 2).sum()) / (count * (count - 1))
        examples = max(float(weights @ self.examples @ weights), 0.0)
        squares = [(languages, count - 1.0), (examples, max(self.clusters - 1.0, 1.0))]
        variance = languages + examples
        for one in self.chance:
            own = weights[one.place]
            variance += max(float(own @ one.alike @ own), 0.0)
            squares += [(float(own @ matrix @ own), freedom) for matrix, freedom in one.squares]
        below = sum(square**2 / freedom for square, freedom in squares)
        freedom = variance**2 / below if below > 0 else count - 1.0
        return Noise(np.array([variance]), np.ones(1), np.array([freedom]), count)


def _alike(parts: Floats) -> Floats:
    """The mean over pairs of languages of the sums of products of their parts, between any two
    values: (values, languages, parts) -> (values, values).
    """
    languages, whole, flat = parts.shape[1], parts.sum(1), parts.reshape(len(parts), -1)
    return np.asarray((whole @ whole.T - flat @ flat.T) / (languages * (languages - 1)))


POWER = 0.8
MOST_RUNS = 1000
_NEAR = 1e-5  # of the level, which is enough for the share of experiments
_NODES = (12, 4)  # quantiles of the spread of a side's runs: of the only one, of one of several
_QUANTILES = 32  # of what the variance may be where it is estimated


@dataclass(frozen=True)
class Design:
    """What a planned comparison may find: its halves of intervals with their probabilities, and the
    true standard error of its difference. `scales` are what an effect is multiplied by where the
    true variances are those of the quantiles that are as probable as each other.
    """

    halves: Floats
    weights: Floats
    error: float
    scales: tuple[float, ...] = (1.0,)

    FEWEST: ClassVar = 5
    """Runs of a side, below which they say too little of how much runs differ."""

    def power(self, effect: float) -> float:
        """Return the share of experiments that call a true difference real, in either direction."""
        effects = abs(effect) * np.array(self.scales)[:, None]
        if self.error == 0:
            return float(((effects > self.halves) @ self.weights).mean())
        ends = special.ndtr((np.stack([effects, -effects]) - self.halves) / self.error)
        return float((ends @ self.weights).sum(0).mean())

    def smallest(self) -> float:
        """Return the smallest difference that the share `POWER` of experiments finds."""
        low, high = 0.0, (float(self.halves.max()) + 10 * self.error) / min(self.scales)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.power(middle) >= POWER else (middle, high)
        return high

    @classmethod
    def of(cls, spread: Spread, among: int = 1) -> Design:
        """Return what a comparison may find whose true variances are those of a spread. `among` is
        how many Holm's correction is over: where none of the others is significant, it is tested
        at the level over their number.
        """
        places, shares = np.polynomial.legendre.leggauss(_NODES[len(spread.trained) > 1])
        places, shares = (places + 1) / 2, shares / 2
        choices = []
        for side in spread.trained:
            half = (side.runs - 1) / 2
            sizes = special.gammaincinv(half, places) / half
            trained = [replace(side, between=side.between * size) for size in sizes]
            choices.append(list(zip(shares, trained, strict=True)))
        halves, weights = [], []
        for chosen in itertools.product(*choices):
            noise = replace(spread, trained=tuple(side for _, side in chosen)).noise()
            halves.append(0.0 if noise.absent else noise.half(_NEAR, LEVEL / among))
            weights.append(math.prod(share for share, _ in chosen))
        added = sum(max(side.between - side.within, 0.0) for side in spread.trained)
        return cls(np.array(halves), np.array(weights), math.sqrt(spread.examples + added))

    @classmethod
    def estimated(cls, spread: Spread, runs: Sequence[int] = (), among: int = 1) -> Design:
        """Return what a comparison with so many runs (by default those of the spread) may find, by
        itself or as one of `among`, where the variances are estimates from the runs of the spread.
        """
        planned = spread.at(runs) if runs else spread
        found, pairs = cls.of(planned, among), zip(spread.trained, planned.trained, strict=True)
        square = sum(later.between**2 / (own.runs - 1) for own, later in pairs)
        if square <= 0:
            return found
        return replace(found, scales=_ratios(found.error**4 / square))

    @classmethod
    def planned(
        cls, spread: Spread, runs: Sequence[int], among: int = 1, *, measured: bool
    ) -> Design:
        """Return what a comparison with so many runs may find, by itself or as one of `among`, from
        a spread that is `measured` by its runs, or taken for the true one.
        """
        if measured:
            return cls.estimated(spread, runs, among)
        return cls.of(spread.at(runs), among)

    @classmethod
    def detectable(cls, spread: Spread, among: int = 1) -> float | None:
        """Return the smallest difference that the share `POWER` of comparisons finds, by itself or
        as one of `among`, from what the runs of one show; None where a side has fewer than
        `FEWEST`.
        """
        few = any(side.runs < cls.FEWEST for side in spread.trained)
        return None if few else cls.estimated(spread, among=among).smallest()

    @classmethod
    def runs_for(
        cls, spread: Spread, effect: float, among: int = 1, *, measured: bool = False
    ) -> int | None:
        """Return the smallest number of runs of each trained side that finds a difference, by
        itself or as one of `among`; None where `MOST_RUNS` do not: the examples are too few. The
        spread is known, or `measured` by its runs.

        A spread without runs that are chance gives 1 or None.
        """

        def enough(count: int) -> bool:
            runs = [count] * len(spread.trained)
            return cls.planned(spread, runs, among, measured=measured).power(effect) >= POWER

        if not spread.trained:
            return 1 if enough(1) else None
        if not enough(MOST_RUNS):
            return None
        few, many = 1, 2
        while not enough(many):
            few, many = many, min(2 * many, MOST_RUNS)
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if enough(middle) else (middle, many)
        return many


def smallest_of_student(error: float, freedom: float, among: int = 1) -> float:
    """Return the smallest difference that the share `POWER` of Student's tests finds, by themselves
    or as one of `among`, from an estimate of its standard error with so many degrees of freedom.
    """
    ratios = _ratios(freedom)
    critical = float(special.stdtrit(freedom, 1 - LEVEL / among / 2))
    halves = error * critical * np.array(ratios)
    weights = np.full(len(ratios), 1 / len(ratios))
    return Design(halves, weights, error, ratios).smallest()


def _ratios(freedom: float) -> tuple[float, ...]:
    """Quantiles of an estimated standard error over the true one."""
    places = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    return tuple(np.sqrt(special.gammaincinv(freedom / 2, places) / (freedom / 2)).tolist())


@dataclass(frozen=True)
class Assumed:
    """What is assumed of a system and of its baseline.

    Attributes:
        examples: the number that both share, or one number for each where these are different.
        run_sd: in points, by how much the runs of each differ; 0 where nothing is trained.
        disagree: the percentage of shared examples on which the two systems give answers of which
            one is right.
        disagree_runs: the percentage of examples that one of two runs of a system alone gets right.
        accuracy: in percent; it counts where the examples are different.
    """

    examples: tuple[int, ...] = (1000,)
    run_sd: tuple[float, ...] = (0.5,)
    disagree: float = 15.0
    disagree_runs: float = 10.0
    accuracy: float = 70.0

    POINTS: ClassVar = 100
    """What shares are multiplied by."""

    def spread(self, runs: int) -> Spread:
        """Return the variances of a difference with `runs` of each trained side. Raises
        `RaxalignError` for more than two numbers, and for runs that disagree more than systems.
        """
        for name, given in (("--examples", self.examples), ("--run-sd", self.run_sd)):
            if len(given) > 2:
                raise RaxalignError(f"{name} is given {len(given)} times; at most twice")
        counts, deviations = self.examples * 2, self.run_sd * 2
        within = self.disagree_runs / Assumed.POINTS / 2  # the variance of one answer between runs
        if len(self.examples) == 2:
            alone = self.accuracy / Assumed.POINTS * (1 - self.accuracy / Assumed.POINTS)
            examples = alone / counts[0] + alone / counts[1]
            clusters = sum(self.examples)
        else:
            examples, clusters = self.disagree / Assumed.POINTS / counts[0], counts[0]
        sides = [
            TrainedSide(1, (sd / Assumed.POINTS) ** 2 + within / count, within / count)
            for count, sd in zip(counts[:2], deviations[:2], strict=True)
            if sd > 0
        ]
        if sum(side.within for side in sides) > examples:
            raise RaxalignError(
                f"--disagree-runs {self.disagree_runs:g} is too much: two runs of one system cannot"
                f" disagree more often than two systems do (--disagree {self.disagree:g})"
            )
        return Spread(examples, clusters, tuple(sides)).at([runs] * len(sides))

    def lines(self, runs: int, effect: float | None) -> Iterator[str]:
        """Yield what `runs` of each side can detect, and what an `effect` in points takes, if
        asked.
        """
        spread = self.spread(runs)
        trained = f"{runs} runs of each trained side" if spread.trained else "nothing is trained"
        smallest = Assumed.POINTS * Design.of(spread).smallest()
        yield (
            f"{trained}, {spread.clusters:,} examples: the minimum detectable effect (80 % power)"
            f" is {smallest:.2g} points"
        )
        if effect is None:
            return
        found = 100 * Design.of(spread).power(effect / Assumed.POINTS)
        yield f"{found:.0f} % of them find a difference of {effect:g} points"
        needed = Design.runs_for(spread, effect / Assumed.POINTS)
        if needed is None:
            many = " with many runs" if spread.trained else ""
            why = "no number of runs is enough: " if spread.trained else ""
            yield f"{why}it takes about {_examples_for(spread, effect):,} examples{many}"
        elif spread.trained:
            yield f"4 of 5 find it with {needed} runs of each trained side"


def _examples_for(spread: Spread, effect: float) -> int:
    """The examples with which many runs find an effect, to about a tenth."""
    factor, runs = 1.0, [MOST_RUNS] * len(spread.trained)
    while Design.of(spread.at(runs, factor)).power(effect / Assumed.POINTS) < POWER:
        factor *= 1.1
    whole = factor * spread.clusters
    return int(round(whole, 1 - math.floor(math.log10(whole))))
