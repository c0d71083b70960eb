"""The rows of the table that all benchmarks end in, and how a measurement and its noise are made of
rounds.

A benchmark passes each of its values to `show`, which prints it. Where the environment variable
`RAXALIGN_BENCH_ROWS` names a file, the row is appended to it as JSON too; ``python -m benchmarks``
collects the rows of all benchmarks that way.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROWS = "RAXALIGN_BENCH_ROWS"
HEAD = ("what is measured", "value", "budget", "noise", "what it is compared with")
ROUNDS = 3
"""The fewest rounds of which a spread means anything."""


@dataclass(frozen=True)
class Budget:
    """The least that a value may be (`least`), or the most."""

    limit: float
    least: bool = False

    def met(self, value: float) -> bool:
        """Return whether a value keeps to the limit."""
        return value >= self.limit if self.least else value <= self.limit

    def __str__(self) -> str:
        return f"at {'least' if self.least else 'most'} {self.limit:,g}"


def at_least(limit: float) -> Budget:
    """Return the budget of a value that should be large."""
    return Budget(limit, least=True)


def at_most(limit: float) -> Budget:
    """Return the budget of a value that should be small."""
    return Budget(limit)


@dataclass(frozen=True)
class Row:
    """One value that was measured.

    Attributes:
        what: What is measured, with its size.
        value: The value; of several rounds that of the best ones, of memory that of the worst.
        budget: Its limit; None where it has none.
        noise: The spread over rounds, as a share of the best one (`spread`); None where there is a
            single round, or something is counted.
        bare: What the value is a ratio to, or what else it is compared with.
        unit: The unit of the value; empty for a ratio.
    """

    what: str
    value: float
    budget: Budget | None
    noise: float | None
    bare: str
    unit: str = ""

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return the texts under `HEAD`."""
        number = f"{self.value:,.0f}" if abs(self.value) >= 100 else f"{self.value:.3g}"
        budget = "none"
        if self.budget is not None:
            met = "met" if self.budget.met(self.value) else "**missed**"
            budget = f"{self.budget}: {met}"
        value = f"{number} {self.unit}".strip()
        noise = "not measured" if self.noise is None else f"{100 * self.noise:.0f} %"
        return self.what, value, budget, noise, self.bare

    @classmethod
    def of(cls, text: str) -> Row:
        """Return the row of a line of JSON."""
        found = json.loads(text)
        budget = found.pop("budget")
        return cls(**found, budget=Budget(**budget) if budget else None)


@dataclass(frozen=True)
class Failure:
    """A benchmark that ended without its values, and why."""

    what: str
    reason: str

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return the texts under `HEAD`."""
        return self.what, "**failed**", "", "", self.reason


def show(row: Row) -> None:
    """Print a row, and append it to the file that `ROWS` names, if any."""
    what, value, budget, noise, bare = row.cells()
    print(
        f"{what}: {value} (budget {budget.replace('**missed**', 'MISSED')}; noise {noise}; {bare})",
        flush=True,
    )
    if os.environ.get(ROWS):
        with Path(os.environ[ROWS]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row)) + "\n")


def markdown(rows: Sequence[Row | Failure]) -> str:
    """Return the table of some rows, its columns aligned for a terminal too."""
    cells = [[text.replace("|", "\\|") for text in row.cells()] for row in rows]
    widths = [max(map(len, column)) for column in zip(HEAD, *cells, strict=True)]
    lines = [HEAD, ["-" * width for width in widths], *cells]
    return "\n".join(
        "| "
        + " | ".join(f"{text:{width}}" for text, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )


def spread(*sides: Sequence[float]) -> float:
    """Return the noise of a value that is made of the best round of each side: the largest of
    (median - best) / best over the sides, where the best is the smallest.
    """
    return max(
        (statistics.median(side) - min(side)) / min(side) if min(side) else 0.0 for side in sides
    )


def in_turn(
    rounds: int, clock: Callable[[], float], *sides: Callable[[], object]
) -> list[list[float]]:
    """Run all sides in turn, round by round, so that other load falls on all alike; return the
    seconds of each side in each round.
    """
    found: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for seconds, side in zip(found, sides, strict=True):
            start = clock()
            side()
            seconds.append(clock() - start)
    return found


def clock_of(threads: int) -> Callable[[], float]:
    """Return the clock of work in this process: the time of its cores on one thread, which other
    programs do not change; on several, whose waits count, that of the wall.
    """
    return time.process_time if threads == 1 else time.perf_counter


def named(threads: int) -> str:
    """Return a number of threads in words.

    >>> named(1), named(2)
    ('1 thread', '2 threads')
    """
    return f"{threads} thread{'s' if threads > 1 else ''}"


def children() -> float:
    """Return the core-seconds that the programs have used which this process ran until now."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
