"""The contract of a section of the report: the grid's results and stored predictions in,
a share of the report out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from raxalign.analysis.cells import MEANS, Cell, Name, Value
from raxalign.grid.plan import Plan
from raxalign.lazy import pa, pc
from raxalign.options.params import BaseParams
from raxalign.printing import counted
from raxalign.report.document import Entry, Figure, Part, Share, Table, caption
from raxalign.report.drawing import Sketch
from raxalign.sample import of_layers
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from raxalign.values.comparisons import Compared
from raxalign.values.numbers import NumberFormat
from raxalign.values.results import read_records
from raxalign.values.scoreboard import Scoreboard, TableKey

_MOST_LANGUAGES = 5


@dataclass(frozen=True)
class CellPredictions:
    """The predictions of one cell's first seed on test, by language pair."""

    cell: Cell
    tables: Mapping[str, pa.Table]


class StoredPredictions:
    """The stored predictions of one report; without a ledger there are none."""

    def __init__(self, ledger: Ledger | None) -> None:
        self._ledger = ledger
        self._kept: dict[str, pa.Table | None] = {}

    def of(
        self, cell: Cell, task: str, columns: set[str], *, keep: bool = False
    ) -> CellPredictions:
        """Read the predictions of a cell on a task that have the columns; with `keep` once."""
        keys: dict[str, list[str]] = {}  # of evaluations -> the language pairs that they have
        for (own, lang, _, split), seeds in cell.evaluations.items():
            known = any(lang in langs for langs in keys.values())
            if (own, split) == (task, "test") and lang not in MEANS and seeds and not known:
                keys.setdefault(seeds[min(seeds, key=str)][0], []).append(lang)
        tables: dict[str, pa.Table] = {}
        for key, langs in keys.items():
            table = self._kept.get(key)
            if table is None and self._ledger is not None:
                table = self._ledger.predictions(key)
            if keep:
                self._kept[key] = table
            if table is not None and columns | {"lang", "split"} <= set(table.column_names):
                table = of_layers(table)
                test = pc.equal(table["split"], "test")
                for lang in langs:
                    tables[lang] = table.filter(pc.and_(pc.equal(table["lang"], lang), test))
        shown = sorted(tables)[:_MOST_LANGUAGES]
        return CellPredictions(cell, {lang: tables[lang] for lang in shown if len(tables[lang])})

    def of_all(self, cells: Sequence[Cell], task: str, columns: set[str]) -> list[CellPredictions]:
        """Read the predictions of those cells that have some; what is read is kept."""
        found = [self.of(cell, task, columns, keep=True) for cell in cells]
        return [entry for entry in found if entry.tables]

    def first(self, keys: Iterable[str]) -> pa.Table | None:
        """Return the predictions of the first of some evaluations that is stored and has any."""
        if self._ledger is None:
            return None
        found = (self._ledger.predictions(key) for key in keys if self._ledger.has(key))
        return next((table for table in found if table is not None), None)


@dataclass(frozen=True)
class Fill:
    """The values of a published row, or why there are none, and a note on the whole row."""

    values: Mapping[str, Value | str]
    remark: str = ""


Measure = Callable[[Cell], Fill | None]
"""From the cell that measures a row to its values; None where it has no predictions."""


@dataclass(frozen=True)
class Material:
    """What the sections of one report are made of.

    `results` are those of the grid with their intervals and tests, `ledger` has the stored
    predictions (None: none are read). Figures are drawn into the folder `figures`. `published`
    names the papers that the grid asks for. `measure` looks up by name what the other sections
    measure for published tables. `sources` are the texts that the grid is made of, by their file
    names (`Opened.sources`).
    """

    results: Scoreboard
    figures: Path
    ledger: Ledger | None = None
    published: Sequence[str] = ()
    measure: Callable[[str], Measure | None] = lambda name: None  # noqa: ARG005
    sources: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def records(self) -> Mapping[str, Mapping[str, Any]]:
        """The records of the grid's evaluations that the ledger has, by their keys."""
        return {} if self.ledger is None else read_records(self.plan, self.ledger)

    @cached_property
    def predictions(self) -> StoredPredictions:
        """The stored predictions, which the sections share."""
        return StoredPredictions(self.ledger)

    @cached_property
    def storage(self) -> Storage | None:
        """The storage that the ledger is in; None without one."""
        return None if self.ledger is None else Storage(self.ledger.root)

    @property
    def plan(self) -> Plan:
        """The plan of the grid."""
        return self.results.plan


class Section(ABC):
    """A section of the report. Subclasses are final, one per file.

    One instance is made per report. It asks tasks and methods what they declare
    (`raxalign.catalog`); a section that is about one kind of task by nature names it in its own
    file and returns nothing for grids without it.
    """

    VERSION: ClassVar[int]
    """Raised when the section shows other numbers for the same results."""
    place: ClassVar[int] = 0
    """Sections are shown by ascending place, those from outside the package after its own."""
    MOST_METHODS: ClassVar = 6
    """Methods of an analysis."""
    MOST_LANGUAGES: ClassVar = _MOST_LANGUAGES
    """Language pairs of an analysis."""
    MOST_CURVES: ClassVar = 8
    """Curves or clouds of a panel."""

    class Params(BaseParams):
        """The options of the section: none, as a grid file has no place for them."""

    def __init__(self, material: Material) -> None:
        self.material, self.results = material, material.results

    @abstractmethod
    def share(self) -> Share | None:
        """Return what the section adds to the report; None where it has nothing to show."""

    def measures(self) -> Mapping[str, Measure]:
        """Return what fills the published tables that say ``analysis: <name>``, by that name."""
        return {}

    def one_part(
        self, part: Part, sketches: Iterable[Sketch] = (), tables: Iterable[Table] = ()
    ) -> Share | None:
        """Return the share of one part with its tables and its figures, which are drawn; None where
        there are neither.
        """
        part = replace(part, tables=tuple(tables), figures=self.drawn(sketches))
        return Share((part,)) if part.tables or part.figures else None

    def drawn(self, sketches: Iterable[Sketch]) -> tuple[Figure, ...]:
        """Draw the sketches that have panels; pictures of a grid that lacks results say so."""
        folder, mark = self.material.figures, self.results.lacking.short
        return tuple(sketch.drawn(folder, mark) for sketch in sketches if sketch.panels)

    def shown_cells(self, kind: str) -> tuple[str, list[Cell]]:
        """Return the grid's name of its first task of a kind, and the cells that its analyses show:
        at most `MOST_METHODS`, one per method. It is an empty name and no cells where the grid has
        no such task or no values of it.
        """
        task = self.results.of_kind(kind)
        metric = None if task is None else self.results.main_metric(task)
        if task is None or metric is None:
            return "", []
        return task, self.results.best_on_dev(self.MOST_METHODS, task, metric)

    def entry(self, cell: Cell, name: Name) -> Entry:
        """Return a value with its interval, its difference to the baseline and what the test says:
        the same wherever it stands.
        """
        results, unit = self.results, self.results.unit(name[0], name[2])
        found, mark = results.at(cell, name), results.mark(cell, name)
        return Entry(
            unit.show(cell.values[name].mean),
            results.shown(cell, name, unit),
            delta=difference_text(found, unit) if found is not None else "",
            mark=mark,
            worse=mark == "worse" if mark else None,
        )

    def under(self, cell: Cell, table: TableKey) -> str:
        """Return the small print under a line: encoder, size of the training set, seeds."""
        facts = [cell.encoder] if self.results.several_encoders else []
        facts += [f"{cell.sentences:,} pairs"] if cell.sentences is not None else []
        if seeds := self.results.runs(table, [cell]):
            facts.append(counted(seeds[-1], "seed"))
        elif cell.names_of(table):
            facts.append("the same for every seed")
        return ", ".join(facts)

    def of_one_seed(self, table: TableKey, cells: Iterable[Cell]) -> str:
        """Return what a caption says where some value is that of one training run."""
        return f" {caption('one_seed')}" if 1 in self.results.runs(table, cells) else ""

    def of_methods(self, most: int) -> str:
        """Return what a caption says where a figure or table has no room for all methods."""
        count = len(self.results.kinds)
        return f" {caption('some_methods', most=most, count=count)}" if count > most else ""

    def of_encoder(self) -> str:
        """Return what a caption says of the encoder of `representatives`, where others are."""
        if not self.results.several_encoders:
            return ""
        shown = {
            cell.encoder
            for task, metric in self.results.transfer_tasks()
            for cell in self.results.representatives(task, metric)
        }
        return f" Of the grid's encoders only {', '.join(sorted(shown))} is shown." if shown else ""


def difference_text(found: Compared, unit: NumberFormat) -> str:
    """Return the difference to the baseline with its interval, if any, or what stands for it."""
    test = found.comparison
    if found.verdict == "=":
        return "="
    if found.difference is None:  # a mean that the baseline has over other languages
        return f"over {found.untested}" if found.baseline is not None else ""
    if test is None or test.low is None or test.high is None:
        return f"{unit.show_difference(found.difference)}, cannot tell"
    return f"{unit.show_difference(test.difference)} {unit.show_interval(test.low, test.high)}"
