"""The minimum detectable effect of a comparison, before anything has run: from what is assumed of
examples and runs, without a grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from raxalign.analysis.power import MOST_RUNS, POINTS, POWER, Assumed, at, design, runs_for
from raxalign.analysis.significance import Spread


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
