"""Of each method's points the one that the development set chooses, and its test value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import final

from raxalign.analysis.cells import Cell, Name
from raxalign.catalog import catalog
from raxalign.grid.trial import plain
from raxalign.measured import spoken
from raxalign.report.document import Entry, Line, Part, Share, Table, caption
from raxalign.report.sections.base import Section
from raxalign.values.scoreboard import Scoreboard

_COLUMNS = ("chosen", "dev", "test", "best test of all", "configurations")


@final
class ChosenOnDev(Section):
    """A table per task: for each method with several configurations the one with the best dev
    mean. The
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
            metric=spoken(metric),
            unit=results.unit(task, metric),
            measured=results.plan.measured(task, metric),
            selection=results.task_params.get(task, {}).get("selection"),
        )
        about += self.of_one_seed((task, metric, "test"), [cells[0] for cells in groups])
        lines = tuple(self._line(task, metric, cells) for cells in groups)
        return Table(f"chosen-{task}", task, _COLUMNS, lines, about)

    def _line(self, task: str, metric: str, cells: Sequence[Cell]) -> Line:
        """The first of a method's points, which dev chose, with the best test value of all."""
        results, best = self.results, cells[0]
        unit, sign = results.unit(task, metric), results.plan.measured(task, metric).sign
        dev = best.mean(task, metric, "dev")
        tested = [v.mean for cell in cells if (v := cell.mean(task, metric, "test"))]
        assert dev is not None, "points have values on dev and test"
        around = self.results.shown(best, best.compared_mean(task, metric, "test"), unit)
        shown = (
            Entry(results.named(best).removeprefix(best.method).strip() or "–"),
            Entry(unit.show(dev.mean)),
            Entry(unit.show(tested[0]), around),
            Entry(unit.show(sign * max(sign * value for value in tested))),
            Entry(f"{len(cells)}"),
        )
        return Line(best.method, shown, self.under(best, (task, metric, "test")))


def declared(results: Scoreboard, method: str) -> list[str]:
    """Return the params of a method with several values that can be chosen per language."""
    kind = results.kinds.get(method, method)
    params = catalog("methods")[kind].per_language if kind in catalog("methods") else ()
    return [param for param in params if param in results.plan.axes.get(method, ())]


def tables_per_language(results: Scoreboard) -> Iterator[Table]:
    """Yield a table per task, method and param that can be chosen per language."""
    for method in results.plan.axes:
        for param in declared(results, method):
            for task in results.tasks:
                yield from _table(results, (method, param), task)


def _table(results: Scoreboard, axis: tuple[str, str], task: str) -> Iterator[Table]:
    """The table of a (method, param) on a task, where there are dev and test values."""
    method, param = axis
    metric = results.main_metric(task) or ""
    langs, lines = results.transferred((task, metric, "test")), list[Line]()
    for cell in results.cells:
        there = results.line(cell, param) if cell.method == method else []
        if len(there) > 1 and there[0] is cell:
            names: list[Name] = [(task, lang, metric, "test") for lang in langs]
            lines += _lines(results, param, there, names)
    if lines:
        words, unit = spoken(metric), results.unit(task, metric)
        about = {"metric": words, "unit": unit, "param": results.symbol(param)}
        yield Table(
            f"chosen-{task}-{method}-{param}",
            f"{task}: {method}, {results.symbol(param)} per language",
            tuple(langs),
            tuple(lines),
            caption("per_language", **about),
        )


def _lines(
    results: Scoreboard, param: str, cells: Sequence[Cell], names: Sequence[Name]
) -> Iterator[Line]:
    """The value that each language's dev set chooses, and the dev and test values there."""
    chosen: list[tuple[Cell, Name] | None] = []
    for name in names:
        cell = results.best_by(cells, name)
        chosen.append((cell, name) if cell is not None and name in cell.values else None)
    first = next((found for found in chosen if found is not None), None)
    if first is None:
        return
    unit = results.unit(first[1][0], first[1][2])
    group = results.measured_by(first[0], param)
    group += f", {first[0].encoder}" if results.several_encoders else ""

    def entry(label: str, cell: Cell, name: Name) -> Entry:
        if label == "dev":
            return Entry(unit.show(cell.values[(*name[:3], "dev")].mean))
        if label == "test":
            return Entry(unit.show(cell.values[name].mean), results.shown(cell, name, unit))
        return Entry(plain(cell.params[param]))

    for label in (results.symbol(param), "dev", "test"):
        entries = tuple(Entry.EMPTY if found is None else entry(label, *found) for found in chosen)
        yield Line(label, entries, group=group)
