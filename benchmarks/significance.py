"""How often equal systems are called different, and how often a true difference is found: planted
runs, tested with the project's own functions.

usage: python -m benchmarks.significance [ROUNDS]

Budgets: at the level of .05 at most 7 % of equal systems in every cell, and at least 80 % of true
differences of 2 points with 5,010 examples and 5 runs that differ by .5. With the default number of
rounds a share near 5 % is known to ±.7 points (95 %). With fewer than 1,000, chance alone would
take some cell above 7 %, so that their mean counts. The noise is the standard error of the share.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from benchmarks.table import Row, at_least, at_most, show
from raxalign.analysis.runs import Runs
from raxalign.analysis.significance import LEVEL, compare
from raxalign.sample import Sample

ROUNDS = 3700
MOST_FALSE, LEAST_FOUND = 0.07, 0.80
ENOUGH = 1000  # rounds with which each cell is judged by itself
_ACCURACY = 0.7


@dataclass(frozen=True)
class Cell:
    """One setting: numbers of examples and runs, and in points of accuracy the spread between runs
    (`sd`) and the true difference.
    """

    examples: int
    runs: int
    sd: float
    difference: float = 0.0


EQUAL = [
    Cell(examples, runs, sd)
    for examples in (5010, 500)
    for runs in (2, 3, 5)
    for sd in (0.0, 0.5, 1.0)
]
DIFFERENT = [Cell(examples, runs, 0.5, 2.0) for examples in (5010, 500) for runs in (5, 3)]
TO_FIND = DIFFERENT[0]


def main() -> None:
    """Print a line per cell, and which budgets are missed."""
    rounds, start = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS, time.monotonic()
    print(
        f"{'examples':>8} {'runs':>4} {'sd':>4} {'true difference':>15} {'called different':>16}  "
        f" ({rounds:,} rounds)"
    )
    shares = {}
    for cell in (*EQUAL, *DIFFERENT):
        shares[cell] = found = share_found(cell, rounds)
        wrong = found > MOST_FALSE if cell in EQUAL else cell == TO_FIND and found < LEAST_FOUND
        missed = wrong and rounds >= ENOUGH
        line = (
            f"{cell.examples:8,} {cell.runs:4} {cell.sd:4g} {cell.difference:15g}"
            f" {100 * found:14.1f} %"
        )
        print(line + ("   MISSED" if missed else ""), flush=True)
    print(f"{time.monotonic() - start:.0f} s")
    equal = [shares[cell] for cell in EQUAL]
    if rounds >= ENOUGH:
        which, false, sampled = "largest", max(equal), rounds
    else:
        which, false, sampled = "mean", sum(equal) / len(equal), rounds * len(equal)
    what = f"equal systems called different, {which} of {len(EQUAL)} settings, {rounds:,} rounds"
    show(Row(what, false, at_most(MOST_FALSE), _noise(false, sampled), f"the level of {LEVEL}"))
    share = shares[TO_FIND]
    what = f"differences of 2 points that are found, {rounds:,} rounds"
    show(Row(what, share, at_least(LEAST_FOUND), _noise(share, rounds), "all of them"))


def _noise(share: float, rounds: int) -> float:
    """The standard error of a share, as a part of it."""
    return ((1 - share) / (share * rounds)) ** 0.5 if share else 0.0


def share_found(cell: Cell, rounds: int, seed: int = 0) -> float:
    """The share of rounds in which the two systems are called different."""
    rng = np.random.default_rng(
        [seed, cell.examples, cell.runs, round(10 * cell.sd), round(10 * cell.difference)]
    )
    return sum(p < LEVEL for p in _p_values(cell, rounds, rng)) / rounds


def _p_values(cell: Cell, rounds: int, rng: np.random.Generator) -> Iterator[float]:
    for _ in range(rounds):
        found = compare(*planted(cell, rng)).p
        assert found is not None, "several runs can be tested"
        yield found


def planted(
    cell: Cell, rng: np.random.Generator, *, common: float = 0.6, own: float = 0.3
) -> tuple[Runs, Runs]:
    """Two systems of a known accuracy. Whether an example is right hangs by a share of `common` on
    what is hard for both systems, by `own` on what is for all runs of one, and for the rest on the
    run.
    """
    units, ones = np.arange(cell.examples), np.ones((1, cell.examples))
    hard = common**0.5 * rng.standard_normal(cell.examples, dtype=np.float32)
    systems = []
    for accuracy in (_ACCURACY, _ACCURACY + cell.difference / 100):
        levels = ndtri(accuracy + cell.sd / 100 * rng.standard_normal(cell.runs)).astype(np.float32)
        score = rng.standard_normal((cell.runs, cell.examples), dtype=np.float32)
        score *= (1 - common - own) ** 0.5
        score += hard + own**0.5 * rng.standard_normal(cell.examples, dtype=np.float32)
        right = (score < levels[:, None]).astype(np.float64)
        systems.append(
            Runs.of(
                {seed: [Sample(units, row[None], ones)] for seed, row in enumerate(right)},
                chance=True,
            )
        )
    return systems[0], systems[1]


if __name__ == "__main__":
    main()
