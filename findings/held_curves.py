"""Whether curves through the smaller sizes of a finished grid hold what its largest size gave.

usage: python -m findings.held_curves GRID STORAGE [UPTO]

For each task, method and language a curve is fitted to the sizes up to UPTO (a quarter of the
largest one by default), and its value at the largest size is compared with the measured one. A
method with the same value at all sizes is left out, and so is one whose curve does not describe its
values up to UPTO, which is counted. Budget: at least 90 % of the 95 % intervals hold the measured
value.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import raxalign as rx
from raxalign.analysis.cells import Cell
from raxalign.analysis.curve import Curve, Estimate, FittedCurves
from raxalign.values.predictions import Predictions
from raxalign.values.results import rows
from raxalign.values.scoreboard import Scoreboard

LEAST = 0.9


@dataclass(frozen=True)
class Held:
    """The curve's value at the largest size, and what was measured there."""

    task: str
    method: str
    lang: str
    expected: Estimate
    measured: float

    @property
    def inside(self) -> bool:
        """Whether the interval holds the measured value."""
        assert self.expected.low is not None
        assert self.expected.high is not None
        return self.expected.low <= self.measured <= self.expected.high


def found(grid: Path, storage: str, upto: int | None) -> Iterator[Held | str]:
    """Yield what curves say of a grid's largest size; a line for a curve that is refused."""
    opened = rx.plan(grid, storage=storage)
    plan, ledger = opened.plan, opened.storage.ledger
    results, predictions = (
        Scoreboard.of(rows(plan, ledger), plan, ledger),
        Predictions(plan, ledger),
    )
    for task, metric, split in results.leading_tables():
        lines: dict[str, dict[int, Cell]] = {}
        for cell in results.measured_cells(task, metric):
            if cell.sentences is not None:
                lines.setdefault(results.named(cell), {})[cell.sentences] = cell
        for method, cells in lines.items():
            largest = max(cells)
            small = [size for size in sorted(cells) if size <= (upto or largest // 4)]
            if len(small) < Curve.FEWEST or largest in small:
                continue
            mean = cells[largest].compared_mean(task, metric, split)
            assert mean is not None
            for lang in cells[largest].languages_of(mean, plan.pivot):
                name = (task, lang, metric, split)
                runs = {size: predictions.runs(cells[size], [name])[name] for size in cells}
                fitted = FittedCurves({method: {size: runs[size] for size in small}})
                expected = fitted.at(method, largest)
                why = fitted.misfit(method) or fitted.curves[method].leaves(largest)
                if why or expected is None:
                    yield f"{task}, {method}, {lang}: {why}"
                else:
                    yield Held(task, method, lang, expected, runs[largest].mean())


def main() -> int:
    """Print a line per curve and the share that holds; return 1 where that misses the budget."""
    grid, storage, *upto = sys.argv[1:]
    inside, refused = [], 0
    for one in found(Path(grid), storage, int(upto[0]) if upto else None):
        if isinstance(one, str):
            refused += 1
            sys.stdout.write(f"no curve: {one}\n")
            continue
        inside.append(one.inside)
        low, high = (100 * (end or 0.0) for end in (one.expected.low, one.expected.high))
        sys.stdout.write(
            f"{one.task:20} {one.method:24} {one.lang:4} curve {100 * one.expected.value:5.1f}"
            f" [{low:5.1f}, {high:5.1f}]  measured {100 * one.measured:5.1f}"
            f"  {'inside' if one.inside else 'OUTSIDE'}\n"
        )
    share = sum(inside) / max(len(inside), 1)
    sys.stdout.write(f"{sum(inside)} of {len(inside)} inside; {refused} curves refused\n")
    return int(share < LEAST)


if __name__ == "__main__":
    sys.exit(main())
