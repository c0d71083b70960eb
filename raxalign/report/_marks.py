"""Which cells of a table are best, and which are not significantly worse: both tests over stored predictions, Holm-corrected over languages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from raxalign.analysis.cells import Cell, Name
from raxalign.analysis.samples import samples
from raxalign.analysis.significance import Sample, compare, examples_interval, holm, stack
from raxalign.store.ledger import Ledger

Mark = Literal["", "best", "tie"]
MOST_READ = 600  # predictions of so many evaluations are read for one report, best cells first
MOST_TESTS = 1500
MOST_INTERVALS = 1500
NEAREST = 12  # of a column: cells that are tested against the best
LEVEL = 0.05


@dataclass(frozen=True)
class Place:
    """A measured value of a table: its line, its column, and the cell that it is from with its name there (None: a mean over columns, which
    has no examples of its own). Values of one column compete where their `family` is the same: kind of task, metric and split.
    """

    line: int
    column: int
    cell: Cell
    name: Name | None
    value: float
    family: tuple[str, ...]


@dataclass
class Judge:
    """Reads predictions where they are needed, and no more of them than `MOST_READ`; tests and intervals have their limits too."""

    ledger: Ledger | None
    read: int = 0
    tests: int = 0
    intervals: int = 0
    _samples: dict[tuple[int, Name], Sample | None] = field(default_factory=dict)
    _asked: dict[str, dict[tuple[str, str, str], Sample | None]] = field(default_factory=dict)
    _wanted: dict[str, set[tuple[str, str, str]]] = field(default_factory=lambda: defaultdict(set))

    def want(self, cell: Cell, name: Name) -> None:
        """Say beforehand what will be asked of an evaluation, so that its predictions are read once."""
        for key in _keys(cell, name):
            self._wanted[key].add(name[1:])

    def sample(self, cell: Cell, name: Name) -> Sample | None:
        """The predictions behind a value, all its seeds together; None where there are none, or no more are read."""
        place = (id(cell), name)
        if place not in self._samples:
            found = [self._of(key, name[1:]) for key in _keys(cell, name)]
            whole = [part for part in found if part is not None]
            joined = stack(whole) if found and len(whole) == len(found) else None
            fits = joined is not None and len(joined.units) > 1 and abs(joined.value - cell.values[name].mean) < 1e-6
            self._samples[place] = joined if fits else None  # a value that is formed in another way is not tested
        return self._samples[place]

    def _of(self, key: str, what: tuple[str, str, str]) -> Sample | None:
        if key not in self._asked or what not in self._asked[key]:
            self._wanted[key].add(what)
            self._asked[key] = self._take_apart(key)
        return self._asked[key][what]

    def _take_apart(self, key: str) -> dict[tuple[str, str, str], Sample | None]:
        wanted = sorted(self._wanted[key])
        if self.ledger is None or self.read >= MOST_READ:
            return dict.fromkeys(wanted)
        self.read += 1
        table = self.ledger.predictions(key)
        return dict.fromkeys(wanted) if table is None else samples(table, wanted)

    def interval(self, cell: Cell, name: Name) -> tuple[float, float] | None:
        """The 95 % interval over examples; None where there are none, or their limit is reached."""
        found = self.sample(cell, name) if self.intervals < MOST_INTERVALS else None
        if found is None:
            return None
        self.intervals += 1
        return examples_interval(found)

    def limits(self) -> tuple[str, ...]:
        """What a reader must know of limits that were reached."""
        told = (
            (self.read, MOST_READ, f"Predictions of {MOST_READ:,} evaluations were read; what is of others has neither underline nor brackets."),
            (self.tests, MOST_TESTS, f"{MOST_TESTS:,} tests were made; cells after that have no underline."),
            (self.intervals, MOST_INTERVALS, f"{MOST_INTERVALS:,} intervals over examples were made; cells after that have no brackets."),
        )
        return tuple(f"Limit reached: {text}" for count, most, text in told if count >= most)

    def marks(self, places: Sequence[Place]) -> dict[tuple[int, int], Mark]:
        """(line, column) -> mark. Within a column, values of different kinds of tasks, metrics and splits do not compete.

        A cell is not significantly worse where either test, after Holm's correction over the columns of its line, does not reject equality
        at 0.05. Cells without predictions are never called equal. A value that ties with the best exactly is best too.
        """
        columns: dict[tuple[int, tuple[str, ...]], list[Place]] = defaultdict(list)
        for place in places:
            columns[place.column, place.family].append(place)
        found: dict[tuple[int, int], Mark] = {}
        families: dict[int, list[tuple[tuple[int, int], float]]] = defaultdict(list)
        for group in columns.values():
            if len({place.value for place in group}) < 2:
                continue
            ordered = sorted(group, key=lambda place: -place.value)
            best = ordered[0]
            for place in ordered[: NEAREST + 1]:
                if place.value == best.value:
                    found[place.line, place.column] = "best"
                elif (p := self._p_value(best, place)) is not None:
                    families[place.line].append(((place.line, place.column), p))
        return found | _ties(families)

    def _p_value(self, best: Place, other: Place) -> float | None:
        """The larger of the two tests' p-values."""
        if self.tests >= MOST_TESTS or best.name is None or other.name is None:
            return None
        first, second = self.sample(best.cell, best.name), self.sample(other.cell, other.name)
        if first is None or second is None:
            return None
        self.tests += 1
        try:
            compared = compare(first, second)
        except ValueError:  # other examples: nothing to pair
            return None
        return max(compared.p_bootstrap, compared.p_randomisation)


def _keys(cell: Cell, name: Name) -> list[str]:
    """The evaluations that a value comes from, each once."""
    return list(dict.fromkeys(key for keys in cell.evaluations.get(name, {}).values() for key in keys))


def _ties(families: Mapping[int, Sequence[tuple[tuple[int, int], float]]]) -> dict[tuple[int, int], Mark]:
    ties: dict[tuple[int, int], Mark] = {}
    for family in families.values():
        for (place, _), adjusted in zip(family, holm([p for _, p in family]), strict=True):
            if adjusted >= LEVEL:
                ties[place] = "tie"
    return ties
