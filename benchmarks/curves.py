"""How often the intervals of fitted curves hold the truth: planted runs over sizes, fitted with the
project's own functions.

usage: python -m benchmarks.curves [ROUNDS]

Two methods have true curves that cross, a power law or (bend 0) a straight line over the logarithm
of the size. In each round examples are drawn, which both methods and all sizes share and which are
of unequal difficulty at each size, then training runs, and both curves are fitted to their means
over the languages. Asked are the values at the smallest and the largest size and in the middle, the
value at four times the largest, the size at which one method has what the other has at its largest,
and where they cross.

Budgets: of the intervals of all settings together, for each question, 93 to 97 % hold the truth; of
the extrapolated values at least 90 %. At most 7 % of true curves are called misfits. With fewer
than 50 rounds there are no budgets. The noise is the standard error of the share.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.table import Row, at_least, at_most, show
from raxalign.analysis.curve import Estimate, FittedCurves
from raxalign.analysis.significance import Runs
from raxalign.arrays import Floats

ROUNDS, ENOUGH = 200, 50
LEAST, MOST, LEAST_AHEAD, MOST_MISFITS = 0.93, 0.97, 0.90, 0.07
_EXAMPLES, _AHEAD = 200, 4
_LEVELS, _GAINS = (0.40, 0.45), (0.20, 0.10)  # at the smallest size, and up to the largest
ASKED = ("smallest size", "middle", "largest size", "four times the largest", "worth", "crossing")


@dataclass(frozen=True)
class Setting:
    """How many sizes, runs and languages, by how much runs differ in points (the `sd` of the
    smallest size is `unequal` times that of the largest), and the bend of the true curves.
    """

    sizes: int
    runs: int
    languages: int = 1
    sd: float = 1.0
    bend: float = 0.0
    unequal: float = 1.0

    @property
    def places(self) -> list[int]:
        """The sizes."""
        return [100 * 4**step for step in range(self.sizes)]

    def gained(self, size: float) -> float:
        """Return the share of the gain up to the largest size that a size has."""
        logs = np.log(np.array([size, self.places[-1]]) / self.places[0])
        grown = logs if not self.bend else -np.expm1(-self.bend * logs) / self.bend
        return float(grown[0] / grown[1])

    def size_of(self, gained: float) -> float:
        """Return the size with a share of the gain."""
        low, high = self.places[0] / 10.0, self.places[-1] * 10.0
        for _ in range(80):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.gained(middle) < gained else (low, middle)
        return low


SETTINGS = (
    Setting(3, 3),
    Setting(3, 3, languages=2, sd=3.0),
    Setting(3, 9, languages=15),
    Setting(4, 3, bend=0.4),
    Setting(4, 3, sd=3.0, bend=0.4),
    Setting(4, 3),
    Setting(4, 5, languages=5, sd=2.0, bend=0.8),
    Setting(6, 3, languages=4, bend=0.4),
    Setting(6, 9, bend=0.8),
    Setting(6, 3, sd=0.2, bend=0.4),
    Setting(4, 3, sd=2.0, bend=0.4, unequal=2.5),
)


def main() -> None:
    """Print a line per setting, and whether the budgets are met."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    held: list[list[bool | None]] = []
    misfits: list[bool] = []
    for number, setting in enumerate(SETTINGS):
        rng = np.random.default_rng(number)
        found = [asked(setting, rng) for _ in range(rounds)]
        held += [hits for hits, _ in found]
        misfits += [misfit for _, misfit in found]
        shares = ", ".join(f"{n} {100 * s:.1f} %" for n, s in _shares([h for h, _ in found]))
        print(f"{setting}: {shares}", flush=True)
    whole = len(SETTINGS) * rounds
    for name, share in _shares(held):
        what = f"curves: intervals that hold, {name}, {len(SETTINGS)} settings, {rounds:,} rounds"
        ahead, noise = name == ASKED[3], math.sqrt((1 - share) / (share * whole))
        least = at_least(LEAST_AHEAD if ahead else LEAST)
        show(Row(what, share, least if rounds >= ENOUGH else None, noise, "95 %"))
        if not ahead and rounds >= ENOUGH:
            show(Row(what, share, at_most(MOST), noise, "95 %"))
    share = sum(misfits) / whole
    noise = math.sqrt((1 - share) / (share * whole)) if share else 0.0
    what = f"curves: true ones that are called misfits, {rounds:,} rounds"
    show(Row(what, share, at_most(MOST_MISFITS), noise, "the level of 5 %"))


def _shares(held: list[list[bool | None]]) -> Iterator[tuple[str, float]]:
    """What was asked, and the share of intervals that hold among those that there are."""
    for name, hits in zip(ASKED, zip(*held, strict=True), strict=True):
        there = [hit for hit in hits if hit is not None]
        yield name, sum(there) / max(len(there), 1)


def asked(setting: Setting, rng: np.random.Generator) -> tuple[list[bool | None], bool]:
    """Return for each question of one round whether the interval holds the truth (None: there is
    no interval), and whether a curve is called a misfit.
    """
    sizes = setting.places
    by_language = [planted(setting, rng) for _ in range(setting.languages)]
    runs = [
        {n: Runs.mean_of([lang[method][k] for lang in by_language]) for k, n in enumerate(sizes)}
        for method in range(2)
    ]
    curves = FittedCurves({"one": runs[0], "other": runs[1]})
    middle = math.sqrt(sizes[0] * sizes[-1])
    at = [sizes[0], middle, sizes[-1], _AHEAD * sizes[-1]]
    hits = [_holds(curves.at("one", size), _true(setting, 0, size)) for size in at]
    (a, b), (gain, other) = _LEVELS, _GAINS
    worth = setting.size_of((b + other - a) / gain)
    hits.append(_holds(curves.worth("other", sizes[-1], "one"), worth))
    hits.append(_holds(curves.crossing("one", "other"), setting.size_of((b - a) / (gain - other))))
    return hits, bool(curves.misfit("one"))


def planted(setting: Setting, rng: np.random.Generator) -> list[list[Runs]]:
    """Return the runs of both methods at each size, in one language."""
    logs = np.log(setting.places)
    apart = logs - logs.mean()
    scale = math.sqrt(_EXAMPLES)
    shared = rng.normal(size=_EXAMPLES)
    found = []
    for method in range(2):
        own = 0.02 * scale * (0.7 * shared + 0.7 * rng.normal(size=_EXAMPLES))
        slope = 0.002 * scale * rng.normal(size=_EXAMPLES)
        found.append(
            [
                _runs(setting, rng, method, k, own + slope * apart[k])
                for k in range(len(setting.places))
            ]
        )
    return found


def _runs(
    setting: Setting, rng: np.random.Generator, method: int, place: int, examples: Floats
) -> Runs:
    """The runs of a method at one size, whose examples are above their mean by so much."""
    noise = 0.01 * math.sqrt(_EXAMPLES) * rng.normal(size=(setting.runs, _EXAMPLES))
    each = examples + noise
    step = place / (setting.sizes - 1)
    sd = setting.sd / 100 * setting.unequal ** (1 - step)
    true = _true(setting, method, setting.places[place])
    values = true + each.mean(1) + sd * rng.normal(size=setting.runs)
    influences = (each - each.mean(1, keepdims=True)) / _EXAMPLES
    seeds = tuple(range(setting.runs))
    return Runs(seeds, values, np.arange(_EXAMPLES), influences, chance=True)


def _true(setting: Setting, method: int, size: float) -> float:
    return _LEVELS[method] + _GAINS[method] * setting.gained(size)


def _holds(found: Estimate | None, truth: float) -> bool | None:
    """Whether an interval holds the truth; an end that is not known holds everything."""
    if found is None:
        return None
    low, high = found.low, found.high
    return (low is None or low <= truth) and (high is None or truth <= high)


if __name__ == "__main__":
    main()
