"""Of each method's points the one that the development set chooses, and its test value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from raxalign.analysis.cells import Cell, Value, mean_name
from raxalign.analysis.metrics import spoken
from raxalign.report.cells.choice import points_of_methods
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.names import capitalized, named, under
from raxalign.report.cells.numbers import LOWER, Unit
from raxalign.report.cells.results import Results
from raxalign.report.cells.weights import tables_per_language
from raxalign.report.document import Entry, Line, Part, Share, Table
from raxalign.report.sections.base import Section

_LEAD = (
    "Where a method has several points, the one with the best mean over languages on the"
    " development set is taken, and its test value is what an honest comparison may quote. The"
    " best test value of all points is given next to it, to show what choosing on test would"
    " have gained. The test value is still optimistic where the training runs that were tested also"
    " chose: a lucky run is good on dev and on test. `raxalign grid FILE --confirm 3` runs what was"
    " chosen again with fresh seeds."
)
_COLUMNS = ("chosen point", "dev", "test", "best test of all", "points")


@final
class ChosenOnDev(Section):
    """A table per task: for each method with several points the one with the best dev mean. The
    first table is open, the others are folded.
    """

    VERSION = 1
    place = 110

    def share(self) -> Share | None:
        """Return the tables; None where no method has several points."""
        results, judge = self.material.results, self.material.judge
        made = [_table(results, judge, task) for task in results.tasks]
        tables = tuple(table for table in made if table is not None)
        tables += tuple(tables_per_language(results, judge))
        tables = tuple(replace(table, folded=place > 0) for place, table in enumerate(tables))
        return Share((Part("chosen", "Chosen on dev", _LEAD, tables),)) if tables else None


def _table(results: Results, judge: Judge, task: str) -> Table | None:
    """The table of a task; None where it has no method with several points."""
    metric = results.main_metric(task)
    groups = points_of_methods(results, task)
    if metric is None or not any(len(cells) > 1 for cells in groups):
        return None
    unit = results.unit(task, metric)
    lines = [_line(results, judge, (task, metric), unit, cells) for cells in groups]
    return Table(f"chosen-{task}", task, _COLUMNS, tuple(lines), _caption(results, task, unit))


def _line(
    results: Results, judge: Judge, measure: tuple[str, str], unit: Unit, cells: Sequence[Cell]
) -> Line:
    """The first of a method's points, which dev chose by a (task, metric), with the best test value
    of all.
    """
    best, sign = cells[0], results.plan.measured(*measure).sign
    top = sign * max(sign * _mean(cell, *measure, "test").mean for cell in cells)
    around = judge.interval(best, mean_name(best, *measure, "test")) or (None, None)
    shown = (
        Entry(named(best, results.plan).removeprefix(best.method).strip() or "–"),
        Entry(unit.show(_mean(best, *measure, "dev").mean)),
        Entry(unit.show(_mean(best, *measure, "test").mean), unit.show_interval(*around)),
        Entry(unit.show(top)),
        Entry(f"{len(cells)}"),
    )
    return Line(best.method, shown, under(results, best, (*measure, "test")))


def _caption(results: Results, task: str, unit: Unit) -> str:
    metric = results.main_metric(task) or ""
    percent = " in percent" if unit.sign else ""
    caption = f"{capitalized(spoken(metric))}{percent}, mean over languages. Chosen on dev."
    caption += LOWER if results.plan.measured(task, metric).better == "lower" else ""
    selection = results.task_params.get(task, {}).get("selection")
    if selection not in (None, "last"):
        caption += (
            f" The dev set also chose the checkpoints (selection: {selection}); the dev"
            " values are therefore optimistic."
        )
    return caption


def _mean(cell: Cell, task: str, metric: str, split: str) -> Value:
    name = mean_name(cell, task, metric, split)
    return cell.values[name] if name is not None else Value(math.nan, None, 0)
