"""What the report shows with the number of a value, from the grid's comparisons, and what it says
of earlier looks at them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from raxalign.analysis.cells import Cell, Name
from raxalign.analysis.significance import ONE_RUN
from raxalign.plan.names import cell_name
from raxalign.plan.plan import Plan
from raxalign.plan.values.comparisons import (
    LEFT,
    NO_PREDICTIONS,
    ONE_BY_ONE,
    OTHER_LANGUAGES,
    Compared,
)
from raxalign.printing import counted
from raxalign.report.cells.numbers import NumberFormat
from raxalign.report.document import Mark
from raxalign.report.figures.panels import Ends
from raxalign.store.ledger import EarlierLook

_ORDER = ("first", "second", "third", "fourth", "fifth", "sixth")
_WHY = {
    ONE_RUN: "; a result that depends on the seed needs at least two",
    NO_PREDICTIONS: " are stored from which the value could be computed",
}


class Judge:
    """Looks up the comparisons of a grid by cell and name."""

    def __init__(self, compared: Iterable[Compared] = ()) -> None:
        self._found = {(id(entry.cell), entry.name): entry for entry in compared}

    @cached_property
    def compared(self) -> list[Compared]:
        """All comparisons, in the order of the grid's tables."""
        return list(self._found.values())

    @cached_property
    def baselines(self) -> list[Cell]:
        """The cells that others are compared with, each once."""
        bases = (entry.baseline for entry in self._found.values())
        return list({id(base): base for base in bases if base is not None}.values())

    def of(self, cell: Cell, name: Name | None) -> Compared | None:
        """Return the comparison of a value; None for a value that is in no table of the grid."""
        return self._found.get((id(cell), name)) if name is not None else None

    def mark(self, cell: Cell, name: Name | None) -> Mark:
        """Return what a test says; nothing where there was none, or where it cannot tell."""
        found = self.of(cell, name)
        if found is None or found.verdict not in ("better", "worse"):
            return ""
        return found.verdict

    def interval(self, cell: Cell, name: Name | None) -> Ends:
        """Return the 95 % interval of a value over runs and examples."""
        found = self.of(cell, name)
        if found is None or found.interval is None:
            return None
        return found.interval.low, found.interval.high

    def shown(self, cell: Cell, name: Name | None, unit: NumberFormat) -> str:
        """Return the interval of a value as tables show it, or nothing."""
        return unit.show_interval(*(self.interval(cell, name) or (None, None)))

    def ends(self, cell: Cell, name: Name | None, scale: float) -> Ends:
        """Return the ends of a value's interval for a figure, multiplied by a scale."""
        around = self.interval(cell, name)
        return None if around is None else (scale * around[0], scale * around[1])


def difference_text(found: Compared, unit: NumberFormat) -> str:
    """Return the difference to the baseline with its interval, if any, or "cannot tell"."""
    test = found.comparison
    if found.verdict == "=":
        return "="
    if found.difference is None:
        return "cannot tell" if found.verdict else ""
    if test is None or test.low is None or test.high is None:
        return f"{unit.show_difference(found.difference)}, cannot tell"
    return f"{unit.show_difference(test.difference)} {unit.show_interval(test.low, test.high)}"


def remarks(found: Compared, unit: NumberFormat) -> Iterator[str]:
    """Yield what must be said of a value under its table."""
    why = f"{found.untested}{_WHY.get(found.untested, '')}."
    based = found.baseline is not None
    if found.interval is None and found.untested and (based or found.untested != NO_PREDICTIONS):
        yield f"No interval and no test: {why}"
    if found.stays:
        yield (
            "Not a result: the method moves each language as a whole, which leaves this measure as"
            " it is; this is the value of the original encoder."
        )
    if found.untested == LEFT:
        yield "Not aligned, and left as it is by the method: this is the value of the baseline."
    elif found.cell.set and found.name[1] in found.cell.unseen:
        yield "Not aligned: the language is not in the set."
    if found.interval is not None and found.untested in _WHY:
        yield f"No test: for the baseline, {why}"
    if found.verdict == "=" and not found.stays:
        yield "Equal in each example of each run (=): no test."
    if found.earlier:
        yield f"{look_text(found.earlier)}."
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


def look_text(earlier: Sequence[EarlierLook], of: str = "this comparison") -> str:
    """Return which look at comparisons this is, and when the ones before were."""
    before = (
        f"the {ordinal(number)} with {counted(look.runs, 'run')}, {look.when[:10]}"
        for number, look in enumerate(earlier)
    )
    told = f"{ordinal(len(earlier))} look at {of} ({', '.join(before)})"
    return f"{told[0].upper()}{told[1:]}: p-values are corrected for it"


def look_lines(entries: Sequence[Compared], plan: Plan) -> Iterator[str]:
    """Yield a line per number of earlier looks that some comparisons of a table have."""
    tested = [entry for entry in entries if entry.tested]
    for earlier in dict.fromkeys(entry.earlier for entry in tested if entry.earlier):
        alike = [entry.cell for entry in tested if entry.earlier == earlier]
        names = dict.fromkeys(cell_name(cell, plan) for cell in alike)
        yield look_text(
            earlier, "these comparisons" if len(alike) == len(tested) else ", ".join(names)
        )


def ordinal(number: int) -> str:
    """Return a number from 0 as the place of a look: ``first``."""
    return _ORDER[number] if number < len(_ORDER) else f"{number + 1}th"
