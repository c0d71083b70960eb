"""Which points of a grid a table has room for."""

from __future__ import annotations

from collections.abc import Sequence

from raxalign.analysis.cells import Cell
from raxalign.plan.values.comparisons import Compared, baseline_cells
from raxalign.report.answer import compared_tables, leader
from raxalign.report.cells.choice import dev_of
from raxalign.report.cells.names import named
from raxalign.report.cells.results import Results
from raxalign.report.cells.untouched import why

_MOST = 10
_Entry = tuple[str, str, str]


def shown_lines(
    results: Results, compared: Sequence[Compared], entry: _Entry
) -> tuple[list[Cell], int]:
    """Return the lines of a table, the baselines first, and how many points it leaves out.

    Of many points of a method and encoder it has the one that dev chooses at the largest training
    set, and the one that the answer is about.

    Args:
        results: The results of the grid.
        compared: Its comparisons, which the answer is made of.
        entry: The (task, metric, split) of the table.
    """
    task, metric, split = entry
    names = [(task, lang, metric, split) for lang in results.by_table[entry]]
    there = [cell for cell in results.cells if any(name in cell.values for name in names)]
    bases = {id(cell) for cell in baseline_cells(there, results.plan)}
    kept = there
    if len(there) > _MOST:
        best: dict[tuple[str, str], Cell] = {}
        for cell in there:
            rival = best.setdefault((cell.method, cell.encoder), cell)
            if _rank(results, cell, entry) > _rank(results, rival, entry):
                best[cell.method, cell.encoder] = cell
        tables = compared_tables(compared, results)
        answered = [leader(results, compared, tables[0])[0]] if tables else []
        chosen = {id(cell) for cell in (*best.values(), *answered)}
        kept = [cell for cell in there if id(cell) in chosen]
    return sorted(kept, key=lambda cell: id(cell) not in bases), len(there) - len(kept)


def _rank(results: Results, cell: Cell, entry: _Entry) -> tuple[int, float]:
    """What a method's points are chosen by: the size of the training set, then dev."""
    return cell.sentences or 0, dev_of(results, cell, *entry[:2])


def one_per_method(left_out: int) -> str:
    """Return what a caption says of the points that `shown_lines` leaves out."""
    if not left_out:
        return ""
    return (
        " One line per method: the point that dev chooses at the largest training set;"
        f" {left_out} more points are in the grid's own tables."
    )


def untouched(results: Results, task: str) -> str:
    """Return what a caption says of the methods that change nothing that a task reads."""
    idle = (cell for cell in results.cells if why(results.plan, cell, task) is not None)
    names = dict.fromkeys(named(cell, results.plan) for cell in idle)
    return f" Not shown, as they change nothing that it reads: {', '.join(names)}." if names else ""


def line_labels(results: Results, cells: Sequence[Cell]) -> list[str]:
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
