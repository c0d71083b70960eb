"""What the report shows with the number of a value: interval, difference to the baseline, mark,
and notes; all from the grid's comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from raxalign.analysis.cells import Cell, Name, mean_name
from raxalign.analysis.significance import ONE_RUN
from raxalign.plan.values.comparisons import (
    NO_PREDICTIONS,
    ONE_BY_ONE,
    OTHER_LANGUAGES,
    Compared,
)
from raxalign.report.cells.numbers import Unit
from raxalign.report.document import Mark


class Judge:
    """Looks up the comparisons of a grid by cell and name."""

    def __init__(self, compared: Iterable[Compared] = ()) -> None:
        self._found = {(id(entry.cell), entry.name): entry for entry in compared}

    @property
    def compared(self) -> list[Compared]:
        """All comparisons, in the order of the grid's tables."""
        return list(self._found.values())

    @property
    def baselines(self) -> list[Cell]:
        """The cells that others are compared with, each once."""
        return list(
            {
                id(entry.baseline): entry.baseline
                for entry in self._found.values()
                if entry.baseline is not None
            }.values()
        )

    def of(self, cell: Cell, name: Name | None) -> Compared | None:
        """Return the comparison of a value; None for a value that is in no table of the grid."""
        return self._found.get((id(cell), name)) if name is not None else None

    def mark(self, cell: Cell, name: Name | None) -> Mark:
        """Return what a test says; nothing where there was none, or where it cannot tell."""
        found = self.of(cell, name)
        if found is None or found.verdict not in ("better", "worse"):
            return ""
        return found.verdict

    def interval(self, cell: Cell, name: Name | None) -> tuple[float, float] | None:
        """Return the 95 % interval of a value over runs and examples."""
        found = self.of(cell, name)
        return (
            (found.interval.low, found.interval.high)
            if found is not None and found.interval is not None
            else None
        )


def ends_of(judge: Judge, cell: Cell, name: Name, scale: float) -> tuple[float, float] | None:
    """Return the ends of a value's interval for a figure, multiplied by a scale."""
    around = judge.interval(cell, name)
    return None if around is None else (scale * around[0], scale * around[1])


def ends_of_mean(
    judge: Judge, cell: Cell, entry: tuple[str, str, str], scale: float
) -> tuple[float, float] | None:
    """Return the ends of the interval of a cell's mean over languages by a (task, metric, split),
    multiplied by a scale.
    """
    name = mean_name(cell, *entry)
    return ends_of(judge, cell, name, scale) if name is not None else None


def difference_text(found: Compared, unit: Unit) -> str:
    """Return the difference to the baseline with its interval, or "cannot tell"; nothing for a
    value that is not compared.
    """
    compared = found.comparison
    if found.difference is None:
        return "cannot tell" if found.verdict else ""
    if compared is None or compared.low is None or compared.high is None:
        return f"{unit.show_difference(found.difference)}, cannot tell"
    return (
        f"{unit.show_difference(compared.difference)}"
        f" {unit.show_interval(compared.low, compared.high)}"
    )


def remarks(found: Compared, unit: Unit) -> Iterator[str]:
    """Yield what must be said of a value under its table."""
    if (
        found.interval is None
        and found.untested
        and (found.baseline is not None or found.untested != NO_PREDICTIONS)
    ):
        yield f"No interval and no test: {found.untested}{_WHY.get(found.untested, '')}."
    if found.interval is not None and found.untested in _WHY:
        yield f"No test: for the baseline, {found.untested}{_WHY[found.untested]}."
    if found.verdict == "not after correction":
        yield f"Not after correction. {ONE_BY_ONE}"
    if found.untested == OTHER_LANGUAGES:
        yield "Not compared: the baseline's mean is over other languages."
    if found.at_chance and found.guessing is not None:
        guessing = unit.show(found.guessing)
        yield f"At chance: its interval contains {guessing}, the value of guessing."
    if found.falls_far and found.baseline is not None:
        yield (
            f"Falls far below the baseline {found.baseline.method}: to less than half of its value"
            f"{'' if found.tested else ', untested'}."
        )
    if found.outdated:
        yield (
            "Under readouts that were fitted before the task's training, which changes the encoder:"
            f" {found.outdated}."
        )


_WHY = {
    ONE_RUN: " of something that depends on its seed",
    NO_PREDICTIONS: " are stored from which the value could be computed",
}
