"""Looks at a grid's questions that are planned before its first trial: with how many seeds, and at
which level each tests, so that all looks at all questions together keep one level.

The design is group-sequential: each look tests all seeds so far, by the tests of
`analysis.significance`.

* **Over looks.** The levels spend .05 as Lan & DeMets (1983) do, by a function of the kind of
  O'Brien & Fleming (1979): until the share t, 2 - 2 Phi(z / sqrt(t)) is spent. Early looks test at
  a small level, the last one nearly at .05. With E the variance over examples and C that of a run,
  the difference with n seeds has the variance E + C / n, which is also its covariance with that of
  any later look: looks go together as those at a Brownian motion do, and most loosely where E = 0.
  The levels are those for E = 0, since looks that go together more closely reject less often at
  any of them. What no seed changes is the same at each look, and is tested at .05 once.
* **Few seeds.** The p-values of Student's t go together less closely than a Brownian motion. A look
  at n of N seeds therefore counts as the share (n - 1) / (N - 1), and two looks are correlated by
  the root of (n1 - 2) / (n2 - 2). What is then left is a matter of simulation
  (`benchmarks/sequential.py`).
* **Questions.** That there is a difference and that it is within a margin are shown by rejecting
  two hypotheses, of which one at most is true: `closed` corrects for the number of questions.
* **Intervals.** That of a look has the differences that are not rejected at its level (a repeated
  confidence interval, Jennison & Turnbull 1989): with probability .95 those of all looks hold the
  truth, so that it does not matter when and why a question ends. Like other intervals they are not
  corrected for the number of questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from raxalign.analysis.significance import LEVEL, Noise
from raxalign.arrays import Floats
from raxalign.lazy import np, special

_TOTALS = (1.0, 6.5, 45)  # normal quantiles of what all looks spend: .32 to 8e-11, two-sided
_NODES, _HALVINGS = 120, 45


@dataclass(frozen=True)
class PlannedLooks:
    """The numbers of seeds at which questions are looked at, in ascending order."""

    seeds: tuple[int, ...]

    def level(self, look: int, total: float = LEVEL) -> float:
        """Return the level at which a look tests (from 1) where all looks together have `total`.

        >>> [round(PlannedLooks((3, 5, 8, 12)).level(look), 4) for look in (1, 2, 3, 4)]
        [0.0, 0.0011, 0.0134, 0.044]
        """
        totals, bounds = _boundaries(self.seeds)
        z = np.interp(-special.ndtri(total / 2), totals, bounds[look - 1])
        return 2 * float(special.ndtr(-z))

    def over_all(self, p: float, look: int) -> float:
        """Return what the p-value of a look is over all looks: the level of all of them at which
        this one tests at `p`. From about .3 it counts as 1.
        """
        totals, bounds = _boundaries(self.seeds)
        z = np.interp(-special.ndtri(p / 2), bounds[look - 1], totals, left=0.0)
        return 2 * float(special.ndtr(-z))

    def interval(self, difference: float, noise: Noise, look: int) -> tuple[float, float]:
        """Return the ends of the repeated confidence interval of a look."""
        half = noise.half(level=self.level(look))
        return difference - half, difference + half


@lru_cache(maxsize=16)
def _boundaries(seeds: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return normal quantiles of a total level, and those at which each look tests (looks, totals).

    A look tests where what is spent since the last one is the probability to be inside at all
    earlier looks and outside now (Armitage, McPherson & Rowe 1969).
    """
    totals = np.linspace(*_TOTALS)
    shares = [max(n - 1, 0.5) / max(seeds[-1] - 1, 0.5) for n in seeds]
    spent = [2 * special.ndtr(-totals / share**0.5) for share in shares]
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    bounds = [totals / shares[0] ** 0.5]
    places = nodes * bounds[0][:, None]
    inside = _normal(places) * weights * bounds[0][:, None]
    for look in range(1, len(seeds)):
        alike = max(seeds[look - 1] - 2, 0) / max(seeds[look] - 2, 1)
        rest, moved = (1 - alike) ** 0.5, places * alike**0.5
        low, high = np.zeros(len(totals)), np.full(len(totals), 2 * float(bounds[0].max()))
        for _ in range(_HALVINGS):
            edge = (low + high) / 2
            beyond = 2 * (inside * special.ndtr((moved - edge[:, None]) / rest)).sum(1)
            more = beyond > spent[look] - spent[look - 1]
            low, high = np.where(more, edge, low), np.where(more, high, edge)
        bounds.append(high)
        places = nodes * high[:, None]
        step = _normal((places[:, :, None] - moved[:, None]) / rest) / rest
        inside = (step @ inside[:, :, None])[..., 0] * weights * high[:, None]
    return totals, np.array(bounds)


def _normal(places: Floats) -> Floats:
    """The density of the standard normal distribution."""
    density: Floats = np.exp(-(places**2) / 2) / (2 * np.pi) ** 0.5
    return density


def closed(
    different: Sequence[float], within: Sequence[float | None]
) -> tuple[list[float], list[float]]:
    """Adjust two p-values of each of several questions: that there is a difference, and that it is
    within a margin (None: the question has none).

    It is the closed test (Marcus, Peritz & Gabriel 1976) with weighted Bonferroni inequalities. Of
    a question at most one hypothesis is true: that there is no difference, or that it is the margin
    or more. The second is wrongly rejected half as often as the level says, since one end of an
    interval alone can do so. An intersection of u hypotheses of the first kind and v of the second
    is therefore rejected at .05 / (u + v / 2). So the smallest p-value counts as many times as
    there are questions, as with Holm; a difference that is found takes its question away from those
    behind it, or half of it where it has a margin.

    >>> closed([0.01, 0.02, 0.5], [None, None, None])[0], closed([0.01, 0.5], [0.9, 0.02])
    ([0.03, 0.04, 0.5], ([0.02, 0.75], [0.75, 0.03]))
    """
    adjusted = ([1.0] * len(different), [1.0] * len(different))
    every = [(p, 0, which) for which, p in enumerate(different)]
    every += [(q, 1, which) for which, q in enumerate(within) if q is not None]
    left, largest, passed = [1.0] * len(different), 0.0, set[tuple[int, int]]()
    for p, kind, which in sorted(every):
        largest = max(largest, min(1.0, sum(left) * p))
        adjusted[kind][which] = largest
        passed.add((kind, which))
        if (0, which) in passed:
            left[which] = 0.0 if within[which] is None or (1, which) in passed else 0.5
    return adjusted


@dataclass(frozen=True)
class Seen:
    """What one look sees of a question: the p-values that there is a difference, and that it is
    within the margin (None: it has none). With `chance`, another seed may give another value.
    """

    different: float
    within: float | None = None
    chance: bool = True

    @classmethod
    def of(
        cls, difference: float, noise: Noise, margin: float | None = None, *, chance: bool = True
    ) -> Seen:
        """Return what is seen of a difference under its noise: it is within the margin by the
        p-value of what it is short of it.
        """
        short = None if margin is None else margin - abs(difference)
        within = None if short is None else noise.p(short) if short > 0 else 1.0
        return cls(noise.p(difference), within, chance)


@dataclass(frozen=True)
class EndedQuestion:
    """How a question ended: at which look (from 1), with a difference or within the margin, and
    with which p-value over all looks and questions.
    """

    look: int
    different: bool
    p: float


@dataclass
class PlannedQuestions:
    """Several questions over the looks at them; one that is answered stays so.

    All looks at all questions keep one level: a true hypothesis is rejected, at whichever look,
    only where the smallest p-value over all looks of those that are true is below its share of the
    level, which the inequalities of `closed` bound.

    So the level holds in whatever order questions come to their looks, and whichever come, also
    where results decide that: the level of a look is that of its number of seeds alone, one that is
    not taken rejects nothing, and until then its p-value counts as 1. Looks are given by their
    numbers; once all are taken, the answers are those of questions that come to each together.
    """

    looks: PlannedLooks
    count: int
    answers: dict[int, EndedQuestion] = field(default_factory=dict, init=False)
    _last: dict[int, tuple[float, float | None]] = field(default_factory=dict, init=False)

    @property
    def open(self) -> list[int]:
        """The questions that are not answered."""
        return [which for which in range(self.count) if which not in self.answers]

    def look(self, number: int, seen: Mapping[int, Seen]) -> None:
        """Take what a look (from 1) sees of open questions. One that it does not see stays open."""
        seen = {which: found for which, found in seen.items() if which not in self.answers}
        self._last |= dict.fromkeys(self.open, (1.0, None))
        for which, found in seen.items():
            self._last[which] = (
                self._over_all(found.different, number, found.chance),
                None
                if found.within is None
                else self._over_all(found.within, number, found.chance),
            )
        p_values = zip(*(self._last[which] for which in range(self.count)), strict=True)
        adjusted = closed(*p_values) if self.count else ([], [])
        for which in [which for which in self.open if which in seen]:
            for different, p in zip((True, False), (kind[which] for kind in adjusted), strict=True):
                if p < LEVEL and which not in self.answers:
                    self.answers[which] = EndedQuestion(number, different, p)

    def _over_all(self, p: float, look: int, chance: bool) -> float:
        return self.looks.over_all(p, look) if chance else p
