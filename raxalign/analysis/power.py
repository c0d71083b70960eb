"""How large a difference has to be to be found, and how many runs and examples that takes.

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

from raxalign.analysis.significance import LEVEL, Spread, TrainedSide, noise_of
from raxalign.arrays import Floats
from raxalign.errors import RaxalignError
from raxalign.lazy import np, special

POWER = 0.8
MOST_RUNS = 1000
POINTS = 100
_NEAR = 1e-5  # of the level, which is enough for the share of experiments
FEWEST = 5
"""Runs of a side, below which they say too little of how much runs differ."""
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


def design(spread: Spread) -> Design:
    """Return what a comparison may find whose true variances are those of a spread."""
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
        noise = noise_of(replace(spread, trained=tuple(side for _, side in chosen)))
        halves.append(0.0 if noise.absent else noise.half(_NEAR))
        weights.append(math.prod(share for share, _ in chosen))
    added = sum(max(side.between - side.within, 0.0) for side in spread.trained)
    return Design(np.array(halves), np.array(weights), math.sqrt(spread.examples + added))


def estimated(spread: Spread, runs: Sequence[int] = ()) -> Design:
    """Return what a comparison with so many runs (by default those of the spread) may find, where
    the variances are estimates from the runs of the spread.
    """
    planned = at(spread, runs) if runs else spread
    found, pairs = design(planned), zip(spread.trained, planned.trained, strict=True)
    square = sum(later.between**2 / (own.runs - 1) for own, later in pairs)
    if square <= 0:
        return found
    return replace(found, scales=_ratios(found.error**4 / square))


def smallest_of_student(error: float, freedom: float) -> float:
    """Return the smallest difference that the share `POWER` of Student's tests finds, from an
    estimate of its standard error with so many degrees of freedom.
    """
    ratios = _ratios(freedom)
    halves = error * float(special.stdtrit(freedom, 1 - LEVEL / 2)) * np.array(ratios)
    weights = np.full(len(ratios), 1 / len(ratios))
    return Design(halves, weights, error, ratios).smallest()


def _ratios(freedom: float) -> tuple[float, ...]:
    """Quantiles of an estimated standard error over the true one."""
    places = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    return tuple(np.sqrt(special.gammaincinv(freedom / 2, places) / (freedom / 2)).tolist())


def detectable(spread: Spread) -> float | None:
    """Return the smallest difference that the share `POWER` of comparisons finds, from what the
    runs of one show; None where a side has fewer than `FEWEST`.
    """
    few = any(side.runs < FEWEST for side in spread.trained)
    return None if few else estimated(spread).smallest()


def at(spread: Spread, runs: Sequence[int], examples: float = 1.0) -> Spread:
    """Return the spread with other numbers of runs, and with `examples` times the examples."""
    alone = spread.examples - sum(side.within for side in spread.trained)
    alone = max(alone, 0.0) / examples
    trained = []
    for side, count in zip(spread.trained, runs, strict=True):
        within = side.within * side.runs / count / examples
        apart = max(side.between - side.within, 0.0) * side.runs / count
        trained.append(TrainedSide(count, apart + within, within, side.weight))
    clusters = max(2, round(spread.clusters * examples))
    return Spread(alone + sum(side.within for side in trained), clusters, tuple(trained))


def runs_for(spread: Spread, effect: float, *, measured: bool = False) -> int | None:
    """Return the smallest number of runs of each trained side that finds a difference; None where
    `MOST_RUNS` do not: the examples are too few. The spread is known, or `measured` by its runs.

    A spread without runs that are chance gives 1 or None.
    """

    def enough(count: int) -> bool:
        runs = [count] * len(spread.trained)
        found = estimated(spread, runs) if measured else design(at(spread, runs))
        return found.power(effect) >= POWER

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

    def spread(self, runs: int) -> Spread:
        """Return the variances of a difference with `runs` of each trained side. Raises
        `RaxalignError` for more than two numbers, and for runs that disagree more than systems.
        """
        for name, given in (("--examples", self.examples), ("--run-sd", self.run_sd)):
            if len(given) > 2:
                raise RaxalignError(f"{name} is given {len(given)} times; at most twice")
        counts, deviations = self.examples * 2, self.run_sd * 2
        within = self.disagree_runs / POINTS / 2  # the variance of one answer between runs
        if len(self.examples) == 2:
            alone = self.accuracy / POINTS * (1 - self.accuracy / POINTS)
            examples = alone / counts[0] + alone / counts[1]
            clusters = sum(self.examples)
        else:
            examples, clusters = self.disagree / POINTS / counts[0], counts[0]
        sides = [
            TrainedSide(1, (sd / POINTS) ** 2 + within / count, within / count)
            for count, sd in zip(counts[:2], deviations[:2], strict=True)
            if sd > 0
        ]
        if sum(side.within for side in sides) > examples:
            raise RaxalignError(
                f"--disagree-runs {self.disagree_runs:g} is too much: two runs of one system cannot"
                f" disagree more often than two systems do (--disagree {self.disagree:g})"
            )
        return at(Spread(examples, clusters, tuple(sides)), [runs] * len(sides))


def power_lines(given: Assumed, runs: int, effect: float | None) -> Iterator[str]:
    """Yield what `runs` of each side can detect, and what an `effect` in points takes, if asked."""
    spread = given.spread(runs)
    trained = f"{runs} runs of each trained side" if spread.trained else "nothing is trained"
    smallest = POINTS * design(spread).smallest()
    yield (
        f"{trained}, {spread.clusters:,} examples: the minimum detectable effect (80 % power) is"
        f" {smallest:.2g} points"
    )
    if effect is None:
        return
    found = 100 * design(spread).power(effect / POINTS)
    yield f"{found:.0f} % of them find a difference of {effect:g} points"
    needed = runs_for(spread, effect / POINTS)
    if needed is None:
        many = " with many runs" if spread.trained else ""
        why = "no number of runs is enough: " if spread.trained else ""
        yield f"{why}it takes about {_examples_for(spread, effect):,} examples{many}"
    elif spread.trained:
        yield f"4 of 5 find it with {needed} runs of each trained side"


def _examples_for(spread: Spread, effect: float) -> int:
    """The examples with which many runs find an effect, to about a tenth."""
    factor, runs = 1.0, [MOST_RUNS] * len(spread.trained)
    while design(at(spread, runs, factor)).power(effect / POINTS) < POWER:
        factor *= 1.1
    whole = factor * spread.clusters
    return int(round(whole, 1 - math.floor(math.log10(whole))))
