"""The differences that a comparison could see, before anything has run: from what is assumed of
examples and runs, without a grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from raxalign.analysis.power import MOST_RUNS, POWER, at, design, runs_for
from raxalign.analysis.significance import Spread, TrainedSide
from raxalign.errors import RaxalignError

_POINTS = 100


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
        """Return the variances of a difference with `runs` of each trained side.

        Raises:
            RaxalignError: there are more than two numbers, or runs disagree more than systems.
        """
        for name, given in (("--examples", self.examples), ("--run-sd", self.run_sd)):
            if len(given) > 2:
                raise RaxalignError(f"{name} is given {len(given)} times; at most twice")
        counts, deviations = self.examples * 2, self.run_sd * 2
        within = self.disagree_runs / _POINTS / 2  # the variance of one answer between runs
        if len(self.examples) == 2:
            alone = self.accuracy / _POINTS * (1 - self.accuracy / _POINTS)
            examples = alone / counts[0] + alone / counts[1]
            clusters = sum(self.examples)
        else:
            examples, clusters = self.disagree / _POINTS / counts[0], counts[0]
        sides = [
            TrainedSide(1, (sd / _POINTS) ** 2 + within / count, within / count)
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
    """Yield what `runs` of each side could see, and where an `effect` in points is asked for, what
    it takes.
    """
    spread = given.spread(runs)
    trained = f"{runs} runs of each trained side" if spread.trained else "nothing is trained"
    smallest = _POINTS * design(spread).smallest()
    yield (
        f"{trained}, {spread.clusters:,} examples: 4 of 5 comparisons find a difference of"
        f" {smallest:.2g} points"
    )
    if effect is None:
        return
    found = 100 * design(spread).power(effect / _POINTS)
    yield f"{found:.0f} % of them find a difference of {effect:g} points"
    needed = runs_for(spread, effect / _POINTS)
    if needed is None:
        many = " with many runs" if spread.trained else ""
        why = "no number of runs is enough: " if spread.trained else ""
        yield f"{why}it takes about {_examples_for(spread, effect):,} examples{many}"
    elif spread.trained:
        yield f"4 of 5 find it with {needed} runs of each trained side"


def _examples_for(spread: Spread, effect: float) -> int:
    """The examples with which many runs find an effect, to about a tenth."""
    factor, runs = 1.0, [MOST_RUNS] * len(spread.trained)
    while design(at(spread, runs, factor)).power(effect / _POINTS) < POWER:
        factor *= 1.1
    whole = factor * spread.clusters
    return int(round(whole, 1 - math.floor(math.log10(whole))))
