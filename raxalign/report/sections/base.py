"""The contract of a section of the report: the grid's results and stored predictions in,
a share of the report out.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

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

_Item = TypeVar("_Item")


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
                table = of_layers(table).select(sorted(columns | {"lang", "split"}))
                test = pc.equal(table["split"], "test")
                for lang in langs:
                    tables[lang] = table.filter(pc.and_(pc.equal(table["lang"], lang), test))
        there = {lang: tables[lang] for lang in sorted(tables) if len(tables[lang])}
        return CellPredictions(cell, there)

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
    MOST_CURVES: ClassVar = 8
    """Curves or clouds of a panel."""
    MOST_PANELS: ClassVar = 12
    """Panels of a figure."""

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
        folder, mark, made = self.material.figures, self.results.lacking.short, list[Figure]()
        for sketch in sketches:
            panels, some = self.fitting(sketch.panels, self.MOST_PANELS, "panels")
            each = {f"panel {number}": panel.said for number, panel in enumerate(panels, 1)}
            about = f"{sketch.caption}{self.joined(each)}{some}"
            if panels:
                made.append(replace(sketch, caption=about, panels=panels).drawn(folder, mark))
        return tuple(made)

    @staticmethod
    def fitting(
        items: Iterable[_Item],
        most: int,
        what: str,
        rank: Callable[[_Item], Any] | None = None,
        which: str = "the first",
    ) -> tuple[list[_Item], str]:
        """Return the items that there is room for, in their order, and what the caption then says
        of them, which is nothing where these are all. Figures and tables are shortened here alone.

        Args:
            items: All that could be shown.
            most: How many there is room for.
            what: What the items are, in the plural.
            rank: Those of the largest ranks are kept, the first of equals; without it the first.
            which: In words, which are kept.
        """
        every = list(items)
        places = list(range(len(every)))
        if rank is not None:
            places.sort(key=lambda place: rank(every[place]), reverse=True)  # equals keep the order
        kept = [every[place] for place in sorted(places[:most])]
        said = f" Only {len(kept):,} of {len(every):,} {what}: {which}."
        return kept, said if len(kept) < len(every) else ""

    @staticmethod
    def joined(said: Mapping[str, str]) -> str:
        """Return what a caption says of the parts of a figure or table, by their names: once, where
        all have one sentence.
        """
        parts: dict[str, list[str]] = {}
        for name, text in said.items():
            parts.setdefault(text, []).append(name)
        if len(parts) < 2:
            return "".join(parts)
        return "".join(f" In {', '.join(names)}:{text}" for text, names in parts.items() if text)

    def cells_of(self, task: str, metric: str | None, most: int) -> tuple[list[Cell], str]:
        """Return at most `most` cells that have a mean over languages by a metric, one per method
        and all of one encoder, and what the caption says of the methods, configurations and
        encoders that are left out; none without a metric.
        """
        results = self.results
        cells = results.representatives(task, metric) if metric is not None else []
        if metric is None or not cells:
            return [], ""
        base = results.baseline(task, metric)
        there = [c for c in results.measured_cells(task, metric) if c.encoder == cells[0].encoder]
        ranks = {id(cell): results.dev_of(cell, task, metric) for cell in there}
        by_dev = any(ranks[id(cell)] > -math.inf for cell in there if cell is not base)
        which = "the original encoder and " if base is not None else ""
        which += "the best on dev" if by_dev else "the first of the grid"
        kept, some = self.fitting(
            cells, most, "methods", lambda cell: (cell is base, ranks[id(cell)]), which
        )
        if left_out := len(there) - len(cells):
            some += f" {caption('one_per_method', left_out=left_out, by_dev=by_dev)}"
        return kept, some + self.of_encoder(cells)

    def shown_cells(self, kind: str) -> tuple[str, list[Cell], str]:
        """Return the grid's name of its first task of a kind, and what `cells_of` returns of its
        main metric, for an analysis. It is an empty name and no cells where the grid has no such
        task.
        """
        task = self.results.of_kind(kind) or ""
        return task, *self.cells_of(task, self.results.main_metric(task), self.MOST_METHODS)

    def fitting_curves(
        self, curves: Mapping[str, Mapping[int, Cell]], table: TableKey
    ) -> tuple[list[str], str]:
        """Return the names of the curves over sizes that there is room for, and what the caption
        says of the others. Of each method and encoder the best one comes first: on dev, at the
        largest size at which most, or all, of them have dev values.
        """
        devs = {
            name: {size: self.results.dev_of(cell, *table[:2]) for size, cell in points.items()}
            for name, points in curves.items()
        }
        counts = Counter(n for dev in devs.values() for n, rank in dev.items() if rank > -math.inf)
        at = max(counts, key=lambda size: (counts[size], size), default=0)
        ranks = {name: dev.get(at, -math.inf) for name, dev in devs.items()}
        best: dict[tuple[str, str], str] = {}
        for name in sorted(curves, key=ranks.__getitem__, reverse=True):
            for cell in curves[name].values():
                best.setdefault((cell.method, cell.encoder), name)
        firsts = {*best.values()}
        which = f"the best on dev with {at:,} sentence pairs" if counts else "the first of the grid"
        per = "method and encoder" if self.results.several_encoders else "method"
        return self.fitting(
            curves,
            self.MOST_CURVES,
            "configurations",
            lambda name: (name in firsts, ranks[name]),
            f"{which}, one per {per} before others",
        )

    def label(self, cell: Cell) -> str:
        """Return the name of a cell in a legend, with its encoder where there are several."""
        name = self.results.named(cell)
        return f"{name} [{cell.encoder}]" if self.results.several_encoders else name

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

    def of_encoder(self, cells: Sequence[Cell]) -> str:
        """Return what a caption says of the one encoder of cells where the grid has others."""
        several = cells and self.results.several_encoders
        return f" Of the grid's encoders only {cells[0].encoder} is shown." if several else ""


def difference_text(found: Compared, unit: NumberFormat) -> str:
    """Return the difference to the baseline with its interval, if any, or a word in its place."""
    test = found.comparison
    if found.verdict == "=":
        return "="
    if found.difference is None:  # a mean that the baseline has over other languages
        return f"over {found.untested}" if found.baseline is not None else ""
    if test is None or test.low is None or test.high is None:
        return f"{unit.show_difference(found.difference)}, cannot tell"
    return f"{unit.show_difference(test.difference)} {unit.show_interval(test.low, test.high)}"
