"""Short tables for papers: one per task, a line per method and a column per language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from raxalign.analysis.cells import Cell, Name
from raxalign.analysis.metrics import spoken
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.names import in_columns, named
from raxalign.report.cells.numbers import LOWER, Unit
from raxalign.report.cells.results import Results
from raxalign.report.document import Entry, Line, Table
from raxalign.report.paper.lines import line_labels, one_per_method, shown_lines, untouched

_Entry = tuple[str, str, str]


def short_tables(
    results: Results,
    judge: Judge,
    entries: Iterable[_Entry] | None = None,
    shows: Callable[[str], bool] = lambda lang: True,  # noqa: ARG005
) -> Iterator[tuple[_Entry, Table]]:
    """Yield a table per task with its (task, metric, split): each value with half the width of its
    interval and the mark of its test.

    Args:
        results: The results of the grid.
        judge: Their intervals and tests.
        entries: The (task, metric, split) of the tables (None: that which stands for each task).
        shows: Whether a language, or a mean, has a column.
    """
    if entries is None:
        leading = (results.leading(task) for task in results.tasks)
        entries = [entry for entry in leading if entry is not None]
    for entry in entries:
        yield entry, _table(results, judge, entry, list(filter(shows, results.by_table[entry])))


def _table(results: Results, judge: Judge, entry: _Entry, langs: Sequence[str]) -> Table:
    task, metric, split = entry
    names = [(task, lang, metric, split) for lang in langs]
    cells, left_out = shown_lines(results, judge.compared, entry)
    unit = results.unit(task, metric)
    lines = [
        Line(label, tuple(_entry(judge, cell, name, unit) for name in names))
        for label, cell in zip(line_labels(results, cells), cells, strict=True)
    ]
    caption = " ".join(_caption(results, judge, cells, entry))
    caption += one_per_method(left_out) + untouched(results, task)
    anchor = f"{results.plan.name}-{task}-{metric}" + ("" if split == "test" else f"-{split}")
    columns = tuple(in_columns(lang) for _, lang, _, _ in names)
    return Table(anchor, f"{task}: {spoken(metric)}", columns, tuple(lines), caption)


def _entry(judge: Judge, cell: Cell, name: Name, unit: Unit) -> Entry:
    value, around = cell.values.get(name), judge.interval(cell, name)
    if value is None:
        return Entry("–", state="empty")
    half = f"±{unit.show((around[1] - around[0]) / 2)}" if around else ""
    return Entry(unit.show(value.mean), half, mark=judge.mark(cell, name))


def _caption(results: Results, judge: Judge, cells: list[Cell], entry: _Entry) -> Iterator[str]:
    task, metric, split = entry
    measured, unit = results.plan.measured(task, metric), results.unit(task, metric)
    values = {
        (id(cell), name): value
        for cell in cells
        for name, value in cell.values.items()
        if (name[0], *name[2:]) == entry
    }
    runs = sorted({value.n for value in values.values()})
    many = f"{runs[0]} to {runs[-1]}" if len(runs) > 1 else f"{runs[0]}"
    yield (
        f"{'In percent, on' if unit.sign else 'On'} the"
        f" {'test' if split == 'test' else 'development'} set,"
        f" {'one run' if runs == [1] else f'means over {many} runs'}."
        f"{LOWER if measured.better == 'lower' else ''}"
    )
    found = [judge.of(cell, name) for cell in cells for name in cell.values]
    shown = [one for one in found if one is not None and (one.name[0], *one.name[2:]) == entry]
    around = sum(one.interval is not None for one in shown)
    if around:
        yield "±: half the width of the 95 % interval over runs and examples."
    if around < len(values):
        yield "No ±: a single run of what depends on its seed, or no stored predictions."
    bases = dict.fromkeys(named(one.baseline, results.plan) for one in shown if one.baseline)
    if bases:
        yield (
            f"▲ (and bold): significantly better than the baseline ({', '.join(bases)}), ▼: worse,"
            " at 0.05 after Holm's correction over all points of the grid."
        )
