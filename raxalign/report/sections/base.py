"""The contract of a section of the report: the grid's results in, a share of the report out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from raxalign.analysis.cells import Cell, Value
from raxalign.options.params import BaseParams
from raxalign.plan.plan import Plan
from raxalign.plan.values.results import read_records
from raxalign.plan.values.scoreboard import Scoreboard
from raxalign.report.document import Figure, Part, Share, Table
from raxalign.report.figures.drawing import drawn
from raxalign.report.figures.panels import Sketch
from raxalign.report.predictions import StoredPredictions
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage


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
    names (`plan.load.Opened.sources`).
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
        """Draw sketches; pictures of a grid that lacks results say so by themselves."""
        return drawn(sketches, self.material.figures, self.results.lacking.short)
