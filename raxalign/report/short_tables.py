"""Short tables for papers: one per task, a line per method and a column per language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from raxalign.analysis.cells import Cell, Name
from raxalign.measured import spoken
from raxalign.plan.names import base_names
from raxalign.plan.values.comparisons import baseline_cells
from raxalign.plan.values.numbers import NumberFormat
from raxalign.plan.values.scoreboard import Scoreboard, TableKey, table_of, why_untouched
from raxalign.report.answer import compared_tables, leader
from raxalign.report.cells.names import in_columns, marked, named, unaligned
from raxalign.report.compared import look_lines
from raxalign.report.document import EMPTY, Entry, Line, Table
from raxalign.report.render import caption

_MOST = 10  # lines of a table


def shown_lines(results: Scoreboard, table: TableKey) -> tuple[list[Cell], int]:
    """Return the lines of a table, the baselines first, and how many points it leaves out. Of many
    points of a method and encoder it has the one that dev chooses at the largest training set, and
    the one that the answer is about.
    """
    names = results.names_of(table)
    there = [cell for cell in results.cells if any(name in cell.values for name in names)]
    bases = {id(cell) for cell in baseline_cells(there, results.plan)}
    kept = there
    if len(there) > _MOST:
        ranks = {id(c): (c.sentences or 0, results.dev_of(c, *table[:2])) for c in there}
        best: dict[tuple[str, str], Cell] = {}
        for cell in there:
            rival = best.setdefault((cell.method, cell.encoder), cell)
            if ranks[id(cell)] > ranks[id(rival)]:
                best[cell.method, cell.encoder] = cell
        tables = compared_tables(results)
        answered = [leader(results, tables[0])[0]] if tables else []
        chosen = {id(cell) for cell in (*best.values(), *answered)}
        kept = [cell for cell in there if id(cell) in chosen]
    sets = list(dict.fromkeys(cell.set for cell in there))
    kept = sorted(kept, key=lambda cell: (sets.index(cell.set), id(cell) not in bases))
    return kept, len(there) - len(kept)


def one_per_method(left_out: int) -> str:
    """Return what a caption says of the points that `shown_lines` leaves out."""
    return f" {caption('one_per_method', left_out=left_out)}" if left_out else ""


def untouched(results: Scoreboard, task: str) -> str:
    """Return what a caption says of the methods that change nothing that a task reads."""
    plan = results.plan
    idle = (cell for cell in results.cells if why_untouched(plan, cell, task) is not None)
    names = dict.fromkeys(named(cell, plan) for cell in idle)
    return f" Not shown, as they change nothing that it reads: {', '.join(names)}." if names else ""


def line_labels(results: Scoreboard, cells: Sequence[Cell]) -> list[str]:
    """Return the method of each line, with what else tells it from the others."""
    sizes = len({cell.sentences for cell in cells} - {None}) > 1
    encoders = len({cell.encoder for cell in cells}) > 1
    labels = []
    for cell in cells:
        facts = [named(cell, results.plan)]
        facts += [cell.encoder] if encoders else []
        facts += [f"{cell.sentences:,} pairs"] if sizes and cell.sentences is not None else []
        labels.append(", ".join(facts))
    return labels


def short_tables(
    results: Scoreboard,
    tables: Iterable[TableKey] | None = None,
    shows: Callable[[str], bool] = lambda lang: True,  # noqa: ARG005
) -> Iterator[tuple[TableKey, Table]]:
    """Yield a table per task with its (task, metric, split): each value with half the width of its
    interval and the mark of its test. `tables` are those to make (None: that which stands for each
    task); `shows` is whether a language, or a mean, has a column.
    """
    for table in results.leading_tables() if tables is None else tables:
        names = [name for name in results.names_of(table) if shows(name[1])]
        yield table, _table(results, table, names)


def _table(results: Scoreboard, table: TableKey, names: Sequence[Name]) -> Table:
    task, metric, split = table
    cells, left_out = shown_lines(results, table)
    unit = results.unit(task, metric)
    lines = tuple(
        Line(label, tuple(_entry(results, cell, name, unit) for name in names))
        for label, cell in zip(line_labels(results, cells), cells, strict=True)
    )
    about = f"{results.lacking.short} {_caption(results, cells, table)}".strip()
    about += unaligned(cells) + one_per_method(left_out) + untouched(results, task)
    tested = [found for found in results.compared if table_of(found.name) == table]
    about += "".join(f" {line}." for line in look_lines(tested, results.plan))
    anchor = f"{results.plan.name}-{task}-{metric}" + ("" if split == "test" else f"-{split}")
    columns = tuple(in_columns(name[1], results.unseen) for name in names)
    return Table(anchor, f"{task}: {spoken(metric)}", columns, lines, about)


def _entry(results: Scoreboard, cell: Cell, name: Name, unit: NumberFormat) -> Entry:
    value, around = cell.values.get(name), results.interval(cell, name)
    if value is None:
        return EMPTY
    half = f"±{unit.show((around[1] - around[0]) / 2)}" if around else ""
    shown = marked(unit.show(value.mean), cell, name[1])
    return Entry(shown, half, mark=results.mark(cell, name))


def _caption(results: Scoreboard, cells: Sequence[Cell], table: TableKey) -> str:
    task, metric, split = table
    own = [(cell, name) for cell in cells for name in cell.values if table_of(name) == table]
    runs = sorted({cell.values[name].n for cell, name in own})
    shown = [found for one in own if (found := results.at(*one)) is not None]
    around = sum(found.interval is not None for found in shown)
    pairs = [(found.cell, found.baseline) for found in shown if found.baseline]
    return caption(
        "short_table",
        unit=results.unit(task, metric),
        measured=results.plan.measured(task, metric),
        split=split,
        runs=f"{runs[0]} to {runs[-1]}" if len(runs) > 1 else f"{runs[0]}",
        around=around,
        without=around < len(own),
        bases=base_names(pairs, results.plan),
    )
