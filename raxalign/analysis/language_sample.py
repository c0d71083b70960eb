"""A mean over languages as an estimate for languages like these: the languages of a table are a
sample, crossed with training runs and with examples.

With d_l the difference in language l of L, and d their mean, the variance of d around what holds
for languages like these is

    V = s^2 / L + E + sum over trained sides of C,

where s^2 is the variance of the d_l, in which everything is that differs between languages: true
differences, and what runs and examples do to one language alone. What they do to all languages
alike is not in it, since it moves every d_l by as much. It is estimated by covariances between
languages: E is their mean covariance over examples (of the influences' means over runs), and C that
over runs, less the noise of the examples within a run. A covariance below 0 counts as 0.

The degrees of freedom are Satterthwaite's (1946): V^2 over the sum of the squares of the mean
squares that V is made of, each over its own degrees of freedom. `benchmarks/significance.py`
simulates how often equal systems are called different, and how often intervals hold the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raxalign.analysis.significance import LEVEL, NOTHING, ONE_RUN, Runs, aligned, differences
from raxalign.arrays import Floats
from raxalign.lazy import np, special

FEWEST = 4
FEW_LANGUAGES = f"fewer than {FEWEST} languages show too little of how languages differ"


@dataclass(frozen=True)
class LanguageSample:
    """A difference for languages like these, with its 95 % interval, two-sided p-value and degrees
    of freedom; these are None where `untested` says why.
    """

    difference: float
    low: float | None
    high: float | None
    p: float | None
    freedom: float | None
    languages: int
    untested: str = ""

    @property
    def detectable(self) -> float | None:
        """The smallest true difference that four of five such tests find; None where languages and
        runs say too little of the standard error.
        """
        from raxalign.analysis.power import smallest_of_student

        if self.high is None or self.freedom is None or self.freedom < FEWEST - 1:
            return None
        critical = float(special.stdtrit(self.freedom, 1 - LEVEL / 2))
        return smallest_of_student((self.high - self.difference) / critical, self.freedom)


def over_languages(
    baseline: Sequence[Runs], system: Sequence[Runs], *, paired: bool = False
) -> LanguageSample:
    """System minus baseline, for languages like these.

    Args:
        baseline: its runs in each language; all languages share them, seed by seed.
        system: likewise, in the same languages.
        paired: whether runs of one seed share their training, as in `significance.compare`.
    """
    pairs = zip(baseline, system, strict=True)
    sides = [[differences(a, b) for a, b in pairs]] if paired else [system, baseline]
    sides = [_common(side) for side in sides]
    signs = (1.0, -1.0)[: len(sides)]
    means = sum(
        sign * np.array([runs.mean() for runs in side])
        for sign, side in zip(signs, sides, strict=True)
    )
    difference, count = float(np.mean(means)), len(system)
    if count < FEWEST:
        return LanguageSample(difference, None, None, None, None, count, FEW_LANGUAGES)
    if not all(runs.testable for side in sides for runs in side):
        return LanguageSample(difference, None, None, None, None, count, ONE_RUN)
    variance, freedom = _variance(np.asarray(means), sides, signs)
    return LanguageSample(difference, *_tested(difference, variance, freedom), count)


def _common(languages: Sequence[Runs]) -> list[Runs]:
    """The runs that all languages have."""
    first, *others = languages
    seeds = [seed for seed in first.seeds if all(seed in other.seeds for other in others)]
    return [runs.only(seeds) for runs in languages]


def _variance(
    means: Floats, sides: Sequence[Sequence[Runs]], signs: Sequence[float]
) -> tuple[float, float]:
    """Return the variance of the mean over languages, and its degrees of freedom."""
    count = len(means)
    wide = aligned([runs for side in sides for runs in side])
    clusters = wide[0].shape[1]
    factor = clusters / max(clusters - 1, 1)
    variance, apart = float(means.var(ddof=1)) / count, np.zeros((count, clusters))
    squares = [(variance, count - 1.0)]
    for sign, side in zip(signs, sides, strict=True):
        influences, wide = np.stack(wide[:count]), wide[count:]
        apart += sign * influences.mean(1)
        if any(runs.chance for runs in side):
            values = np.stack([runs.values for runs in side])
            variance += _alike(values, influences, factor)
            squares += _mean_squares(values)
    examples = max(factor * _covariance(apart), 0.0)
    squares.append((examples, max(clusters - 1.0, 1.0)))
    variance += examples
    below = sum(square**2 / freedom for square, freedom in squares)
    return variance, variance**2 / below if below > 0 else count - 1.0


def _alike(values: Floats, influences: Floats, factor: float) -> float:
    """What runs add to the variance of a mean over languages by moving all of them alike.

    Args:
        values: those of each language and run (L, R).
        influences: of the clusters of examples on them (L, R, clusters).
        factor: clusters / (clusters - 1).
    """
    languages, runs = values.shape
    noise = influences - influences.mean(1, keepdims=True)
    within = factor * _covariance(noise.reshape(languages, -1))
    apart = _covariance(values - values.mean(1, keepdims=True))
    return max(apart - within, 0.0) / float(runs * (runs - 1))


def _mean_squares(values: Floats) -> list[tuple[float, float]]:
    """The mean squares of runs, and of runs by languages, on the scale of the variance of the mean,
    with their degrees of freedom.
    """
    languages, runs = values.shape
    freedom = (languages - 1.0) * (runs - 1)
    both = values - values.mean(1, keepdims=True)
    both -= both.mean(0)
    crossed = float((both**2).sum()) / freedom / (languages * runs)
    return [(float(values.mean(0).var(ddof=1)) / runs, runs - 1.0), (crossed, freedom)]


def _covariance(parts: Floats) -> float:
    """The mean over pairs of languages of the sum of products of their parts (L, parts)."""
    languages = len(parts)
    together = float((parts.sum(0) ** 2).sum()) - float((parts**2).sum())
    return together / (languages * (languages - 1))


def _tested(
    difference: float, variance: float, freedom: float
) -> tuple[float, float, float, float]:
    """(low, high, p, degrees of freedom) of a difference by Student's t."""
    error = max(variance, NOTHING) ** 0.5
    half = float(special.stdtrit(freedom, 1 - LEVEL / 2)) * error
    p = 2 * float(special.stdtr(freedom, -abs(difference) / error))
    return difference - half, difference + half, p, freedom
