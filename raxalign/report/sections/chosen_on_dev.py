"""Of each method's points the one that the development set chooses, and its test value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

from raxalign.analysis.cells import Cell
from raxalign.measured import spoken
from raxalign.report.cells.per_language import tables_per_language
from raxalign.report.document import Entry, Line, Part, Share, Table
from raxalign.report.render import capitalized, caption, named
from raxalign.report.sections.base import Section

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
        made = [self._table(task) for task in self.results.tasks]
        tables = [table for table in made if table is not None]
        tables += tables_per_language(self.results)
        folded = (replace(table, folded=place > 0) for place, table in enumerate(tables))
        return self.one_part(Part("chosen", "Chosen on dev", caption("chosen")), tables=folded)

    def _table(self, task: str) -> Table | None:
        """The table of a task; None where it has no method with several points."""
        results = self.results
        metric = results.main_metric(task)
        groups = results.points_of_methods(task)
        if metric is None or not any(len(cells) > 1 for cells in groups):
            return None
        about = caption(
            "chosen_table",
            metric=capitalized(spoken(metric)),
            unit=results.unit(task, metric),
            measured=results.plan.measured(task, metric),
            selection=results.task_params.get(task, {}).get("selection"),
        )
        lines = tuple(self._line(task, metric, cells) for cells in groups)
        return Table(f"chosen-{task}", task, _COLUMNS, lines, about)

    def _line(self, task: str, metric: str, cells: Sequence[Cell]) -> Line:
        """The first of a method's points, which dev chose, with the best test value of all."""
        results, best = self.results, cells[0]
        unit, sign = results.unit(task, metric), results.plan.measured(task, metric).sign
        dev = best.mean(task, metric, "dev")
        tested = [v.mean for cell in cells if (v := cell.mean(task, metric, "test"))]
        assert dev is not None, "points have values on dev and test"
        around = self.results.shown(best, best.mean_name(task, metric, "test"), unit)
        shown = (
            Entry(named(best, results.plan).removeprefix(best.method).strip() or "–"),
            Entry(unit.show(dev.mean)),
            Entry(unit.show(tested[0]), around),
            Entry(unit.show(sign * max(sign * value for value in tested))),
            Entry(f"{len(cells)}"),
        )
        return Line(best.method, shown, self.under(best, (task, metric, "test")))
