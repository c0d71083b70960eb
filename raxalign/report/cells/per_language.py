"""Values of a param that each language's own development set chooses; and their table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from raxalign.analysis.cells import Cell, Name
from raxalign.catalog import catalog
from raxalign.measured import spoken
from raxalign.plan.trial import plain
from raxalign.plan.values.scoreboard import Scoreboard
from raxalign.report.document import EMPTY, Entry, Line, Table
from raxalign.report.render import capitalized, caption, measured, symbol

WARNING = "so this is not a purely zero-shot result"
"""What must follow wherever a param is chosen on a target language's development set."""


def declared(results: Scoreboard, method: str) -> list[str]:
    """Return the params of a method with several values that can be chosen per language."""
    kind = results.kinds.get(method, method)
    params = catalog("methods")[kind].per_language if kind in catalog("methods") else ()
    return [param for param in params if param in results.plan.axes.get(method, ())]


def best(results: Scoreboard, cells: Sequence[Cell], name: Name) -> Cell | None:
    """Return the cell with the best value of a name on dev, whatever its split is, the first of
    equals; None where none has one.
    """
    dev, sign = (*name[:3], "dev"), results.plan.measured(name[0], name[2]).sign
    there = [cell for cell in cells if dev in cell.values]
    return max(there, key=lambda cell: sign * cell.values[dev].mean, default=None)


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
        words, unit = capitalized(spoken(metric)), results.unit(task, metric)
        about = {"metric": words, "unit": unit, "param": symbol(param), "warning": WARNING}
        yield Table(
            f"chosen-{task}-{method}-{param}",
            f"{task}: {method}, {symbol(param)} per language",
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
        cell = best(results, cells, name)
        chosen.append((cell, name) if cell is not None and name in cell.values else None)
    first = next((found for found in chosen if found is not None), None)
    if first is None:
        return
    unit = results.unit(first[1][0], first[1][2])
    group = measured(first[0], results.plan, param)
    group += f", {first[0].encoder}" if results.several_encoders else ""

    def entry(label: str, cell: Cell, name: Name) -> Entry:
        if label == "dev":
            return Entry(unit.show(cell.values[(*name[:3], "dev")].mean))
        if label == "test":
            return Entry(unit.show(cell.values[name].mean), results.shown(cell, name, unit))
        return Entry(plain(cell.params[param]))

    for label in (symbol(param), "dev", "test"):
        entries = tuple(EMPTY if found is None else entry(label, *found) for found in chosen)
        yield Line(label, entries, group=group)
