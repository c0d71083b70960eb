"""Of each method's points the one that the development set chooses, and its test value."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from raxalign.analysis.cells import Cell, Value, mean_name
from raxalign.analysis.metrics import spoken
from raxalign.plan.names import searched_mark
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.names import capitalized, named, under
from raxalign.report.cells.numbers import Unit, metric_unit
from raxalign.report.cells.results import Results
from raxalign.report.cells.weights import tables_per_language
from raxalign.report.document import Entry, Line, Part, Share, Table
from raxalign.report.sections.base import Section

_LEAD = (
    "Where a method has several points, the one with the highest mean over languages on the"
    " development set is taken, and its test value is what an honest comparison may quote. The"
    " best test value of all points is given next to it, to show what choosing on test would"
    " have gained."
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
    groups: dict[tuple[str, str, int | None], list[Cell]] = defaultdict(list)
    for cell in results.cells:
        if searched_mark(cell, results.plan):  # a search chose it, among others
            continue
        if metric is not None and all(
            mean_name(cell, task, metric, split) for split in ("dev", "test")
        ):
            groups[cell.method, cell.encoder, cell.sentences].append(cell)
    if metric is None or not any(len(cells) > 1 for cells in groups.values()):
        return None
    unit = metric_unit(
        _mean(cell, task, metric, "test").mean for cells in groups.values() for cell in cells
    )
    lines = [_line(results, judge, (task, metric), unit, cells) for cells in groups.values()]
    return Table(f"chosen-{task}", task, _COLUMNS, tuple(lines), _caption(results, task, unit))


def _line(
    results: Results, judge: Judge, measure: tuple[str, str], unit: Unit, cells: Sequence[Cell]
) -> Line:
    """The chosen one of a method's points by a (task, metric), with the best test value of all."""
    best = max(cells, key=lambda cell: _mean(cell, *measure, "dev").mean)
    top = max(_mean(cell, *measure, "test").mean for cell in cells)
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
    metric = capitalized(spoken(results.main_metric(task) or ""))
    caption = f"{metric}{' in percent' if unit.sign else ''}, mean over languages. Chosen on dev."
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
