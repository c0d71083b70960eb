"""How often the intervals of fitted curves hold the truth: planted runs over sizes, fitted with the
project's own functions.

usage: python -m benchmarks.curves [ROUNDS]

Two methods have true curves that cross, a power law or (bend 0) a straight line over the logarithm
of the size. In each round examples are drawn, which both methods and all sizes share and which are
of unequal difficulty at each size, then training runs, and both curves are fitted to their means
over the languages. Asked are the values at the smallest and the largest size and in the middle, the
value at four times the largest, the size at which one method has what the other has at its largest,
and where they cross.

Where languages are `apart`, they are drawn in each round, each with a level and a gain of its own
for each method, of which a part is common to both. Intervals for these languages are to hold what
is true of their mean, and those for new languages what is true over all possible ones. Of fewer
than four languages there are none of the latter.

Budgets: of the intervals of all settings together, for each question, 93 to 97 % hold the truth; of
the extrapolated values at least 90 %; both sorts of intervals alike. At most 7 % of true curves are
called misfits. With fewer than 50 rounds there are no budgets. The noise is the standard error of
the share.
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
    smallest size is `unequal` times that of the largest), the bend of the true curves, and by how
    much the levels of languages differ in points (their gains by a third of that).
    """

    sizes: int
    runs: int
    languages: int = 1
    sd: float = 1.0
    bend: float = 0.0
    unequal: float = 1.0
    apart: float = 0.0

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
    Setting(3, 3, languages=2, apart=5.0),
    Setting(4, 3, languages=3, bend=0.4, apart=5.0),
    Setting(4, 3, languages=4, bend=0.4, apart=5.0),
    Setting(3, 3, languages=5, apart=5.0),
    Setting(4, 5, languages=5, bend=0.4, apart=2.0),
    Setting(4, 3, languages=8, sd=2.0, bend=0.8, apart=5.0),
    Setting(6, 3, languages=15, bend=0.4, apart=5.0),
)


Truth = tuple[tuple[float, float], tuple[float, float]]
"""The levels of both methods at the smallest size, and their gains up to the largest."""
Hits = list[bool | None]


def main() -> None:
    """Print a line per setting, and whether the budgets are met."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    held: dict[str, list[Hits]] = {"": [], " for new languages": []}
    misfits: list[bool] = []
    for number, setting in enumerate(SETTINGS):
        rng = np.random.default_rng(number)
        found = [asked(setting, rng) for _ in range(rounds)]
        misfits += [misfit for *_, misfit in found]
        for which, hits in zip(held, zip(*(of[:2] for of in found), strict=True), strict=True):
            held[which] += hits
            told = ", ".join(f"{n} {100 * s:.1f} %" for n, s, _ in _shares(hits))
            print(f"{setting}{which}: {told or 'none'}", flush=True)
    for which, every in held.items():
        for name, share, whole in _shares(every):
            what = f"curves: intervals{which} that hold, {name}, {rounds:,} rounds"
            ahead, noise = name == ASKED[3], math.sqrt((1 - share) / (share * whole))
            least = at_least(LEAST_AHEAD if ahead else LEAST)
            show(Row(what, share, least if rounds >= ENOUGH else None, noise, "95 %"))
            if not ahead and rounds >= ENOUGH:
                show(Row(what, share, at_most(MOST), noise, "95 %"))
    share = sum(misfits) / len(misfits)
    noise = math.sqrt((1 - share) / (share * len(misfits))) if share else 0.0
    what = f"curves: true ones that are called misfits, {rounds:,} rounds"
    show(Row(what, share, at_most(MOST_MISFITS), noise, "the level of 5 %"))


def _shares(held: list[Hits]) -> Iterator[tuple[str, float, int]]:
    """What was asked, the share of intervals that hold among those that there are, and how many."""
    for name, hits in zip(ASKED, zip(*held, strict=True), strict=True):
        there = [hit for hit in hits if hit is not None]
        if there:
            yield name, sum(there) / len(there), len(there)


def asked(setting: Setting, rng: np.random.Generator) -> tuple[Hits, Hits, bool]:
    """Return for each question of one round whether the interval for these languages holds the
    truth, and the one for new languages (None: there is no interval), and whether a curve is called
    a misfit.
    """
    sizes, shared = setting.places, rng.normal(size=_EXAMPLES)
    true = [_drawn(setting, rng) for _ in range(setting.languages)]
    langs = {str(k): planted(setting, rng, one, shared) for k, one in enumerate(true)}
    by_language = [
        {n: {lang: of[method][k] for lang, of in langs.items()} for k, n in enumerate(sizes)}
        for method in range(2)
    ]
    runs = [{n: Runs.mean_of(list(of.values())) for n, of in by.items()} for by in by_language]
    parts = {"one": by_language[0], "other": by_language[1]}
    curves = FittedCurves({"one": runs[0], "other": runs[1]}, languages=parts)
    middle = math.sqrt(sizes[0] * sizes[-1])
    at = [sizes[0], middle, sizes[-1], _AHEAD * sizes[-1]]
    found: list[Estimate | None] = [curves.at("one", size) for size in at]
    found += [curves.worth("other", sizes[-1], "one"), curves.crossing("one", "other")]
    own = np.mean(true, axis=0)
    these, every = _answers(setting, own, at), _answers(setting, (_LEVELS, _GAINS), at)
    wide = [None if one is None or one.wide is None else Estimate(0.0, *one.wide) for one in found]
    hits = [_holds(one, truth) for one, truth in zip(found, these, strict=True)]
    more = [_holds(one, truth) for one, truth in zip(wide, every, strict=True)]
    return hits, more, bool(curves.misfit("one"))


def _drawn(setting: Setting, rng: np.random.Generator) -> Truth:
    """What is true of one language."""
    both, own = rng.normal(size=(2, 1)), rng.normal(size=(2, 2))
    moved = setting.apart / 100 * (0.8 * both + 0.6 * own) / [[1.0], [3.0]]
    levels, gains = np.array([_LEVELS, _GAINS]) + moved
    return tuple(levels), tuple(gains)


def _answers(setting: Setting, true: Truth, at: list[float]) -> list[float]:
    """What is true of all that is asked."""
    (a, b), (gain, other) = true
    values = [a + gain * setting.gained(size) for size in at]
    worth, crossing = (b + other - a) / gain, (b - a) / (gain - other)
    return [*values, setting.size_of(worth), setting.size_of(crossing)]


def planted(
    setting: Setting, rng: np.random.Generator, true: Truth, shared: Floats
) -> list[list[Runs]]:
    """Return the runs of both methods at each size, in one language; `shared` is how much harder
    examples are in all languages.
    """
    logs = np.log(setting.places)
    apart = logs - logs.mean()
    scale = math.sqrt(_EXAMPLES)
    here = rng.normal(size=_EXAMPLES)
    found = []
    for level, gain in zip(*true, strict=True):
        drawn = rng.normal(size=_EXAMPLES)
        own = 0.02 * scale * (0.4 * shared + 0.6 * here + 0.7 * drawn)
        slope = 0.002 * scale * rng.normal(size=_EXAMPLES)
        values = [level + gain * setting.gained(size) for size in setting.places]
        found.append(
            [
                _runs(setting, rng, k, own + slope * apart[k] + value)
                for k, value in enumerate(values)
            ]
        )
    return found


def _runs(setting: Setting, rng: np.random.Generator, place: int, examples: Floats) -> Runs:
    """The runs of a method at one size, whose examples have such values."""
    noise = 0.01 * math.sqrt(_EXAMPLES) * rng.normal(size=(setting.runs, _EXAMPLES))
    each = examples + noise
    step = place / (setting.sizes - 1)
    sd = setting.sd / 100 * setting.unequal ** (1 - step)
    values = each.mean(1) + sd * rng.normal(size=setting.runs)
    influences = (each - each.mean(1, keepdims=True)) / _EXAMPLES
    seeds = tuple(range(setting.runs))
    return Runs(seeds, values, np.arange(_EXAMPLES), influences, chance=True)


def _holds(found: Estimate | None, truth: float) -> bool | None:
    """Whether an interval holds the truth; an end that is not known holds everything."""
    if found is None:
        return None
    low, high = found.low, found.high
    return (low is None or low <= truth) and (high is None or truth <= high)


if __name__ == "__main__":
    main()
