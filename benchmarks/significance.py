"""How often equal systems are called different, by single tests and in tables, and how often a true
difference is found: planted runs, tested with the project's own functions.

usage: python -m benchmarks.significance [ROUNDS] [looks | detectable]

A system is trained, in some runs that differ by `sd` points of accuracy, or deterministic. A table
has four equal systems of five languages and their mean, each compared with the first, and Holm's
correction; there are a fifth as many tables as rounds.

Budgets: equal systems have p < .05 in at most 7 % of every cell, and p < .002 in at most .3 % of
every kind of cells; at most 6 % of the tables of every cell have a mark; at least 80 % of true
differences of 2 points are found with 5,010 examples and 5 runs that differ by .5; at most 5 % of
differences at the margin are called equivalent; of effects that are planned to be found at 80 %,
77 to 83 % are found. Of tables and single comparisons that are looked at two to four times, with
more runs each time, at most 6 % have a mark at any look; and where a minimum detectable effect is
printed, from the spread that the runs themselves show, 75 to 85 % of such effects are found
(`looks` and `detectable` run these alone). With fewer than 1,000 rounds, chance alone would take
some cell above a budget, so that the means over all cells count. The noise is the standard error of
the share.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from benchmarks.table import Row, at_least, at_most, show
from raxalign.analysis.power import Design
from raxalign.analysis.significance import LEVEL, Comparison, Runs, Spread, at_look, holm
from raxalign.arrays import Floats
from raxalign.sample import Sample

ROUNDS = 2500
MOST_FALSE, MOST_FALSE_MARKED, LEAST_FOUND = 0.07, 0.06, 0.80
SMALL, MOST_SMALL = 0.002, 0.003  # a p-value that Holm looks for in a table, and its share
ENOUGH = 1000  # rounds with which each cell is judged by itself
_SYSTEMS, _LANGUAGES = 4, 5
_ACCURACY = 0.7


@dataclass(frozen=True)
class Side:
    """A system: its runs, and in points of accuracy how much they differ; without runs it is
    deterministic.
    """

    runs: int = 0
    sd: float = 0.0

    def __str__(self) -> str:
        return f"{self.runs} runs, sd {self.sd:g}" if self.runs else "deterministic"


@dataclass(frozen=True)
class Cell:
    """One setting: the number of examples, a system and what it is compared with, and in points of
    accuracy their true difference.
    """

    examples: int
    baseline: Side
    system: Side
    difference: float = 0.0

    def __str__(self) -> str:
        return f"{self.examples:6,}   {self.baseline!s:16} {self.system!s:16} {self.difference:4g}"


_SIZES = (5010, 500)
TRAINED = tuple(
    Cell(examples, Side(runs, sd), Side(runs, sd))
    for examples in _SIZES
    for runs in (2, 3, 5)
    for sd in (0.0, 0.5, 2.0)
)
ONE_FIXED = tuple(
    Cell(examples, Side(), Side(runs, sd))
    for examples in _SIZES
    for runs in (2, 3, 5)
    for sd in (0.0, 1.0, 2.0)
)
UNEQUAL = tuple(
    Cell(examples, one, other)
    for examples in (5010, 1000)
    for one, other in (
        (Side(5, 0.2), Side(2, 2.0)),
        (Side(5, 0.2), Side(3, 2.0)),
        (Side(3, 0.5), Side(2, 2.0)),
        (Side(5, 2.0), Side(2, 0.2)),
    )
)
ALIGNER = tuple(  # readouts, whose only chance is the draw of the word aligner (.13 to .34 points)
    Cell(5010, baseline, Side(runs, sd))
    for runs in (2, 3, 5)
    for sd in (0.1, 0.3)
    for baseline in (Side(), Side(runs, sd))
)
KINDS: Mapping[str, tuple[Cell, ...]] = {
    "both trained": TRAINED,
    "one deterministic": ONE_FIXED,
    "unequal runs and spreads": UNEQUAL,
    "draws of a word aligner": ALIGNER,
}
TABLES = (
    *(Cell(1000, Side(runs, 2.0), Side(runs, 2.0)) for runs in (2, 3, 5)),
    *(Cell(1000, Side(), Side(runs, 2.0)) for runs in (2, 3, 5)),
    *(Cell(5010, Side(runs, 1.0), Side(runs, 1.0)) for runs in (2, 3)),
    Cell(500, Side(5, 0.0), Side(5, 0.0)),
    Cell(1000, Side(2, 2.0), Side(5, 0.2)),
    Cell(1000, Side(5, 0.2), Side(2, 2.0)),
)
LOOKS = ((4, 9), (2, 5), (2, 10), (3, 5, 10), (2, 3, 5, 9), (2, 4, 6, 10))
LOOKED_AT = tuple(
    Cell(1000, baseline, Side(10, sd))
    for baseline, sd in ((Side(10, 2.0), 2.0), (Side(), 2.0), (Side(10, 0.2), 2.0), (Side(), 0.5))
)
DIFFERENT = (
    *(Cell(examples, Side(5, 0.5), Side(5, 0.5), 2.0) for examples in _SIZES),
    *(Cell(5010, Side(runs, 0.5), Side(runs, 0.5), 2.0) for runs in (3, 2)),
    *(Cell(5010, Side(), Side(runs, 0.5), 2.0) for runs in (5, 3, 2)),
)
TO_FIND = DIFFERENT[0]
PLANNED = (
    Cell(5010, Side(5, 0.5), Side(5, 0.5)),
    Cell(5010, Side(3, 0.5), Side(3, 0.5)),
    Cell(1000, Side(), Side(5, 1.0)),
    Cell(1000, Side(), Side()),
)
LEAST_PLANNED, MOST_PLANNED = 0.77, 0.83
SHOWN = tuple(
    Cell(examples, baseline, Side(runs, sd))
    for examples in (5010, 1000)
    for runs in (2, 3, 4, 5)
    for baseline, sd in ((Side(runs, 0.5), 0.5), (Side(), 1.0), (Side(runs, 2.0), 2.0))
)
LEAST_SHOWN, MOST_SHOWN = 0.75, 0.85


def main() -> None:
    """Print a line per cell, and which budgets are missed."""
    rounds, start = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS, time.monotonic()
    parts = {"looks": _looks, "detectable": _detectable}
    for part in [parts[name] for name in sys.argv[2:]]:
        part(rounds)
    if sys.argv[2:]:
        return
    head = f"{'examples':8} {'baseline':16} {'system':16} difference"
    print(f"{head}  p < {LEVEL:g}  p < {SMALL:g}  ({rounds:,} rounds)")
    cells = (*(cell for kind in KINDS.values() for cell in kind), *DIFFERENT)
    found = {cell: _printed(cell, p_values(cell, rounds)) for cell in cells}
    print(f"{head}  tables with a mark  ({rounds // 5:,} tables)")
    marked = {}
    for cell in TABLES:
        marked[cell] = share_marked(cell, rounds // 5)
        print(f"{cell}       {100 * marked[cell]:5.1f} %", flush=True)
    print(f"{time.monotonic() - start:.0f} s")
    whole = rounds >= ENOUGH
    each = [_share(found[cell], LEVEL) for kind in KINDS.values() for cell in kind]
    small = [[_share(found[cell], SMALL) for cell in kind] for kind in KINDS.values()]
    what = f"equal systems with p < {LEVEL:g}, {{}} of {len(each)} settings, {rounds:,} rounds"
    _judge(what, each, rounds, MOST_FALSE, whole=whole, level=LEVEL)
    kinds = [sum(kind) / len(kind) for kind in small]
    what = f"equal systems with p < {SMALL:g}, {{}} of {len(kinds)} kinds, {rounds:,} rounds"
    many = rounds * min(map(len, KINDS.values()))
    _judge(what, kinds, many, MOST_SMALL, whole=whole, level=SMALL)
    tables = rounds // 5
    what = f"equal systems: tables with a mark, {{}} of {len(TABLES)} settings, {tables:,} tables"
    _judge(what, list(marked.values()), tables, MOST_FALSE_MARKED, whole=whole, level=LEVEL)
    share = _share(found[TO_FIND], LEVEL)
    what = f"differences of 2 points that are found, {rounds:,} rounds"
    show(Row(what, share, at_least(LEAST_FOUND), _noise(share, rounds), "all of them"))
    most = max(share_equivalent(cell, rounds) for cell in DIFFERENT)
    what = f"differences at the margin that are called equivalent, largest of {len(DIFFERENT)}"
    show(
        Row(
            f"{what}, {rounds:,} rounds",
            most,
            at_most(LEVEL),
            _noise(most, rounds),
            f"the level of {LEVEL:g}",
        )
    )
    planned = {
        cell: share_found(replace(cell, difference=100 * smallest_effect(cell)), rounds)
        for cell in PLANNED
    }
    for which, share, budget in (
        ("smallest", min(planned.values()), at_least(LEAST_PLANNED)),
        ("largest", max(planned.values()), at_most(MOST_PLANNED)),
    ):
        what = f"planned at 80 %: found, {which} of {len(PLANNED)}, {rounds:,} rounds"
        show(Row(what, share, budget if whole else None, _noise(share, rounds), "all of them"))
    for part in parts.values():
        part(rounds)


def _looks(rounds: int) -> None:
    """Show how often equal systems have a mark at any of several looks."""
    shares, tables = [], rounds // 5
    for cell in LOOKED_AT:
        for what, count in (("comparisons", rounds), ("tables", tables)):
            found = marked_at_looks(cell, LOOKS, count, whole=what == "tables")
            shares += found
            told = ", ".join(
                f"{looks} {100 * share:.1f} %" for looks, share in zip(LOOKS, found, strict=True)
            )
            print(f"{cell}  {what} with a mark at any look: {told}", flush=True)
    what = f"equal systems: a mark at any of 2 to 4 looks, largest of {len(shares)}"
    noise = _noise(max(shares), tables)
    whole = f"{what}, {rounds:,} comparisons and {tables:,} tables"
    show(Row(whole, max(shares), at_most(MOST_FALSE_MARKED), noise, f"the level of {LEVEL:g}"))


def _detectable(rounds: int) -> None:
    """Show the power at the minimum detectable effects that comparisons print."""
    shares = []
    for cell in SHOWN:
        printed, share = power_at_printed(cell, rounds // 10)
        if not printed:
            print(f"{cell}  not printed", flush=True)
            continue
        low, middle, high = np.quantile(printed, [0.1, 0.5, 0.9])
        print(
            f"{cell}  printed {low:.2f} to {high:.2f} (10th to 90th percentile, median"
            f" {middle:.2f}): {100 * share:.1f} % found",
            flush=True,
        )
        shares.append(share)
    for which, share, budget in (
        ("smallest", min(shares), at_least(LEAST_SHOWN)),
        ("largest", max(shares), at_most(MOST_SHOWN)),
    ):
        what = f"power at a printed minimum detectable effect, {which} of {len(shares)}"
        show(Row(f"{what}, {rounds // 10:,} rounds", share, budget, 0.02, "80 %"))


def power_at_printed(cell: Cell, rounds: int) -> tuple[list[float], float]:
    """The minimum detectable effects in points that comparisons of a cell print, and the share of
    true differences of these sizes that others find, under the variances of a hundred runs.
    """
    rng, known, printed = _rng(cell), Design.of(_true_spread(cell)), []
    for _ in range(rounds):
        spread = Spread.of(planted(cell, rng)[::-1])
        effect = Design.detectable(spread) if spread is not None else None
        printed += [] if effect is None else [100 * effect]
    found = [known.power(effect / 100) for effect in printed]
    return printed, sum(found) / max(len(found), 1)


def _printed(cell: Cell, p: Floats) -> Floats:
    """Print the line of a cell."""
    small = 100 * _share(p, SMALL)
    print(f"{cell}     {100 * _share(p, LEVEL):5.1f} %   {small:5.2f} %", flush=True)
    return p


def _judge(
    what: str, shares: Sequence[float], rounds: int, most: float, *, whole: bool, level: float
) -> None:
    """Show the largest share, or the mean where the rounds of each are few."""
    which, share = ("largest", max(shares)) if whole else ("mean", sum(shares) / len(shares))
    noise = _noise(share, rounds if whole else rounds * len(shares))
    show(Row(what.format(which), share, at_most(most), noise, f"the level of {level:g}"))


def _share(p: Floats, level: float) -> float:
    return float((p < level).mean())


def _noise(share: float, rounds: int) -> float:
    """The standard error of a share, as a part of it."""
    return ((1 - share) / (share * rounds)) ** 0.5 if share else 0.0


def share_found(cell: Cell, rounds: int) -> float:
    """The share of rounds in which the two systems are called different."""
    return _share(p_values(cell, rounds), LEVEL)


def share_equivalent(cell: Cell, rounds: int) -> float:
    """The share of rounds in which an interval lies within plus and minus the true difference."""
    rng, margin, found = _rng(cell), cell.difference / 100, 0
    for _ in range(rounds):
        test = Comparison.of(*planted(cell, rng))
        assert test.low is not None
        assert test.high is not None
        found += -margin <= test.low and test.high <= margin
    return found / rounds


def smallest_effect(cell: Cell) -> float:
    """The effect that is planned to be found at 80 %."""
    return Design.of(_true_spread(cell)).smallest()


def _true_spread(cell: Cell) -> Spread:
    """The spread of a cell, from that of an experiment of its own with a hundred runs per side."""
    base, other = (
        replace(side, runs=100 if side.runs else 0) for side in (cell.baseline, cell.system)
    )
    baseline, system = planted(
        Cell(cell.examples, base, other), np.random.default_rng(cell.examples)
    )
    spread = Spread.of([system, baseline])
    assert spread is not None
    runs = [side.runs for side in (cell.system, cell.baseline) if side.runs]
    return spread.at(runs)


def p_values(cell: Cell, rounds: int) -> Floats:
    """The p-values of a cell's systems in each round."""
    rng = _rng(cell)
    return np.array([_p(*planted(cell, rng)) for _ in range(rounds)])


def share_marked(cell: Cell, rounds: int) -> float:
    """The share of tables in which a system is called different from the first."""
    rng = _rng(cell)
    return (
        sum(min(holm(list(_of_table(_systems(cell, rng))))) < LEVEL for _ in range(rounds)) / rounds
    )


def marked_at_looks(
    cell: Cell, looks: Sequence[Sequence[int]], tables: int, *, whole: bool
) -> list[float]:
    """The shares of whole tables, or of single comparisons, in which a system is called different
    from the first at any of several looks, each with so many runs: those of the look before and
    others.
    """
    rng, marked = _rng(cell), np.zeros(len(looks))
    for _ in range(tables):
        systems = _systems(cell, rng) if whole else [planted(cell, rng)]
        p_values = {runs: list(_of_table(systems, runs)) for runs in {*itertools.chain(*looks)}}
        for place, several_ in enumerate(looks):
            p = [[at_look(p, k) for p in p_values[r]] for k, r in enumerate(several_, start=1)]
            marked[place] += min(min(holm(of_look)) for of_look in p) < LEVEL
    return list(marked / tables)


def _systems(cell: Cell, rng: np.random.Generator) -> list[list[Runs]]:
    """The systems of one table, by language."""
    sides = [cell.baseline] + [cell.system] * (_SYSTEMS - 1)
    return [several(sides, cell.examples, rng) for _ in range(_LANGUAGES)]


def _of_table(systems: list[list[Runs]], runs: int | None = None) -> Iterator[float]:
    """The p-values of one table, with the first so many runs of each system (None: all)."""
    by_language = [[one.only(one.seeds[:runs]) for one in of_lang] for of_lang in systems]
    columns = list(by_language)
    if len(by_language) > 1:
        columns.append([Runs.mean_of(systems) for systems in zip(*by_language, strict=True)])
    for baseline, *others in columns:
        yield from (_p(baseline, other) for other in others)


def _p(baseline: Runs, system: Runs) -> float:
    found = Comparison.of(baseline, system).p
    assert found is not None, "several runs can be tested"
    return found


def _rng(cell: Cell) -> np.random.Generator:
    numbers = [cell.examples, cell.difference]
    numbers += [number for side in (cell.baseline, cell.system) for number in (side.runs, side.sd)]
    return np.random.default_rng([round(10 * number) for number in numbers])


def planted(cell: Cell, rng: np.random.Generator) -> list[Runs]:
    """Return the baseline of a cell and the system that is compared with it."""
    sides = [cell.baseline, cell.system]
    return several(sides, cell.examples, rng, better=cell.difference)


def several(
    sides: Sequence[Side], examples: int, rng: np.random.Generator, *, better: float = 0.0
) -> list[Runs]:
    """Return systems of a known accuracy, those after the first `better` by some points. Whether an
    example is right hangs by .6 on what is hard for all systems, by .3 on what is for all runs of
    one, and for the rest on the run.
    """
    units, ones = np.arange(examples), np.ones((1, examples))
    hard = 0.6**0.5 * rng.standard_normal(examples, dtype=np.float32)
    systems = []
    for number, side in enumerate(sides):
        runs = max(side.runs, 1)
        accuracy = _ACCURACY + (better / 100 if number else 0.0)
        levels = ndtri(accuracy + side.sd / 100 * rng.standard_normal(runs)).astype(np.float32)
        score = 0.1**0.5 * rng.standard_normal((runs, examples), dtype=np.float32)
        score += hard + 0.3**0.5 * rng.standard_normal(examples, dtype=np.float32)
        right = (score < levels[:, None]).astype(np.float64)
        samples: dict[object, list[Sample]] = {
            seed: [Sample(units, row[None], ones)] for seed, row in enumerate(right)
        }
        systems.append(Runs.of(samples, chance=side.runs > 0))
    return systems


if __name__ == "__main__":
    main()
