"""Tables of a method's param that is chosen for each language: its values, and what they give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.analysis.metrics import spoken
from raxalign.plan.names import plain
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.names import capitalized, measured, symbol
from raxalign.report.cells.numbers import Unit
from raxalign.report.cells.per_language import WARNING, best, declared, value
from raxalign.report.cells.results import Results
from raxalign.report.document import Entry, Line, Table

_NOTHING = Entry("–", state="empty")


class _Choice(NamedTuple):
    """The cell that a language's dev value chooses; `name` is that of its test value."""

    cell: Cell
    name: Name


def tables_per_language(results: Results, judge: Judge) -> Iterator[Table]:
    """Yield a table per task, method and param that can be chosen per language, with a column per
    language and rows for each encoder, training set and setting of the other params.
    """
    for method in results.plan.axes:
        for param in declared(results, method):
            for task in results.tasks:
                yield from _table(results, judge, (method, param), task)


def _table(results: Results, judge: Judge, axis: tuple[str, str], task: str) -> Iterator[Table]:
    """The table of a (method, param) on a task, where there are dev and test values."""
    method, param = axis
    metric = results.main_metric(task) or ""
    langs = [
        lang
        for lang in results.by_table.get((task, metric, "test"), ())
        if lang not in MEANS and lang != results.plan.pivot
    ]
    chosen: dict[int, list[_Choice]] = {}
    for cell in results.cells:
        there = results.line(cell, param) if cell.method == method else []
        if len(there) > 1 and there[0] is cell:
            names = [(task, lang, metric, "test") for lang in langs]
            found = list(_choices(results, there, names))
            chosen |= {id(cell): found} if found else {}
    if chosen:
        yield Table(
            f"chosen-{task}-{method}-{param}",
            f"{task}: {method}, {symbol(param)} per language",
            tuple(langs),
            tuple(
                line
                for found in chosen.values()
                for line in _lines(results, judge, param, found, langs)
            ),
            _caption(metric, param, results.unit(task, metric)),
        )


def _choices(results: Results, cells: Sequence[Cell], names: Sequence[Name]) -> Iterator[_Choice]:
    """The choice of each language that has dev and test values."""
    for name in names:
        cell = best(results, cells, name)
        if cell is not None and name in cell.values:
            yield _Choice(cell, name)


def _lines(
    results: Results, judge: Judge, param: str, found: Sequence[_Choice], langs: Sequence[str]
) -> Iterator[Line]:
    """The chosen values, and the dev and test values there."""
    by_lang = {choice.name[1]: choice for choice in found}
    first = found[0]
    unit = results.unit(first.name[0], first.name[2])
    several = results.several_encoders
    group = measured(first.cell, results.plan, param)
    group += f", {first.cell.encoder}" if several else ""
    rows = (
        (symbol(param), {lang: Entry(plain(c.cell.params[param])) for lang, c in by_lang.items()}),
        ("dev", {lang: _dev(unit, choice) for lang, choice in by_lang.items()}),
        ("test", {lang: _test(unit, judge, choice) for lang, choice in by_lang.items()}),
    )
    for label, shown in rows:
        entries = tuple(shown.get(lang, _NOTHING) for lang in langs)
        yield Line(label, entries, group=group)


def _dev(unit: Unit, choice: _Choice) -> Entry:
    there = value(choice.cell, choice.name, "dev")
    return Entry(unit.show(there.mean)) if there is not None else _NOTHING


def _test(unit: Unit, judge: Judge, choice: _Choice) -> Entry:
    around = judge.interval(choice.cell, choice.name) or (None, None)
    return Entry(unit.show(choice.cell.values[choice.name].mean), unit.show_interval(*around))


def _caption(metric: str, param: str, unit: Unit) -> str:
    percent = " in percent" if unit.sign else ""
    return (
        f"{capitalized(spoken(metric))}{percent}. {symbol(param)} is chosen"
        f" for each language on the language's own development set, {WARNING}; the first of equals"
        " is taken. No choice looks at test values."
    )
