"""Result rows as a table for people, as JSON, or as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raxalign.analysis.cells import MEANS, Cell, Name, Value, cells, languages_of, over_runs
from raxalign.measured import Measured
from raxalign.plan.names import cell_name, ordered
from raxalign.report.cells.numbers import FEW, UNDECLARED, NumberFormat, heading_of, unit_of
from raxalign.report.cells.results import (
    UNTOUCHED,
    TableKey,
    idle_cells,
    table_of,
    why_untouched,
)
from raxalign.report.terminal.fit import TextTable, fitted, paragraph
from raxalign.report.terminal.selection import Selection

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan

FIELDS = (
    *("trial", "method", "params", "encoder", "languages", "sentences", "seed"),
    *("task", "task_params", "lang", "metric", "split", "value", "outdated"),
)


def as_json(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a JSON list, one row per value, each on a line of its own (the fast encoder of `json`
    does not indent).
    """
    return "".join(json_parts(rows))


def json_parts(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the text of `as_json` row by row."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    before = "[\n"
    for row in rows:
        yield before + encode(row)
        before = ",\n"
    yield "\n]" if before.startswith(",") else "[]"


def as_csv(rows: Iterable[Mapping[str, Any]], fields: Sequence[str] = FIELDS) -> str:
    """Return CSV with a header; mappings and lists as JSON, absent values empty."""
    return "".join(csv_parts(rows, fields))


def csv_parts(rows: Iterable[Mapping[str, Any]], fields: Sequence[str] = FIELDS) -> Iterator[str]:
    """Yield the text of `as_csv` row by row."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(fields)
    for row in rows:
        yield text.getvalue()
        text.seek(0)
        text.truncate()
        values = (row[name] for name in fields)
        writer.writerow(
            json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
            for value in values
        )
    yield text.getvalue()


@dataclass(frozen=True)
class TextBlock:
    """One table: of a task, metric and split, with its columns of values and its lines (one text
    per head and language). `note` is the number of pairs behind it, where the task records that.
    `runs` are the numbers of runs that its values with a spread are the means of.
    """

    title: str
    langs: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    note: str = ""
    heads: tuple[str, ...] = ("method", "sentences")
    runs: frozenset[int] = frozenset()


def blocks(
    rows: Sequence[Mapping[str, Any]],
    plan: Plan,
    selection: Selection = Selection(),  # noqa: B008 it is frozen
    *,
    per_seed: bool = False,
) -> list[TextBlock]:
    """Return one table per task and metric: one line per cell, one column per language (`ordered`),
    mean and standard deviation over runs.

    Args:
        rows: The results.
        plan: The plan of the grid.
        selection: What is shown.
        per_seed: Show one line per cell and seed, without means over seeds.
    """
    lines = cells(rows, plan.pivot, plan.measured)
    columns = selection.names((name for cell in lines for name in cell.values), plan)
    lines += idle_cells(plan)
    found = []
    for key in dict.fromkeys(map(table_of, columns)):
        task, metric, split = key
        langs = ordered((name[1] for name in columns if table_of(name) == key), plan)
        title, (note, most) = f"{task}: {metric} ({split})", _over(plan, lines, key, langs)
        if most is not None and most < FEW and not (selection.every or selection.metrics):
            few = f"{note}; too few for a result (`--all` shows the table)"
            found.append(TextBlock(title, (), (), few))
            continue
        table = _Table(plan, lines, [(task, lang, metric, split) for lang in langs], per_seed)
        shown, reasons = table.lines()
        notes = [*([note] if note else []), *reasons, *table.uneven_means()]
        notes += [] if table.measured.declared else [UNDECLARED]
        title += heading_of(table.measured)
        heads = ("method", "sentences", *(["seed"] if per_seed else []))
        runs = frozenset(value.n for value in table.values() if value.sd is not None)
        runs = frozenset() if per_seed else runs
        found.append(TextBlock(title, tuple(langs), tuple(shown), "\n".join(notes), heads, runs))
    return found


@dataclass(frozen=True)
class _Table:
    """The values of one table: those of some names in all cells."""

    plan: Plan
    cells: Sequence[Cell]
    names: Sequence[Name]
    per_seed: bool

    @property
    def measured(self) -> Measured:
        """What is declared of the metric of all names."""
        return self.plan.measured(self.names[0][0], self.names[0][2])

    def values(self) -> list[Value]:
        return [
            cell.values[name] for cell in self.cells for name in self.names if name in cell.values
        ]

    def uneven_means(self) -> Iterator[str]:
        """Yield a note where the means of the lines are over different languages."""
        for name in self.names:
            over = {
                tuple(sorted(languages_of(cell, name, self.plan.pivot)))
                for cell in self.cells
                if name[1] in MEANS and name in cell.values
            }
            if len(over) > 1:
                yield (
                    f"{name[1]}: not all lines have the same languages, so these means cannot be"
                    " compared"
                )

    def lines(self) -> tuple[list[tuple[str, ...]], list[str]]:
        """The lines of the cells that have a value of some of the names, or a reason why they have
        none; and these reasons.
        """
        several = len({cell.encoder for cell in self.cells}) > 1
        unit = unit_of(self.measured, (value.mean for value in self.values()))
        shown, reasons = list[tuple[str, ...]](), dict[str, None]()
        for cell in self.cells:
            reason = why_untouched(self.plan, cell, self.names[0][0])
            method = cell_name(cell, self.plan) + (f" [{cell.encoder}]" if several else "")
            size = f"{cell.sentences:,}" if cell.sentences is not None else ""
            if reason is not None:
                seed = [""] if self.per_seed else []
                shown.append((method, size, *seed, *[UNTOUCHED] * len(self.names)))
                reasons[reason] = None
            elif any(name in cell.values for name in self.names):
                for seed, values in self._of_cell(cell):
                    shown.append((method, size, *seed, *(_text(value, unit) for value in values)))
        return shown, list(reasons)

    def _of_cell(self, cell: Cell) -> list[tuple[list[str], list[Value | None]]]:
        """What names the lines of a cell besides it, and their values."""
        if not self.per_seed:
            return [([], [cell.values.get(name) for name in self.names])]
        by_seed = [cell.by_seed.get(name, {}) for name in self.names]
        return [
            (
                ["any" if seed is None else str(seed)],
                [over_runs([found[seed]]) if seed in found else None for found in by_seed],
            )
            for seed in sorted({seed for found in by_seed for seed in found}, key=str)
        ]


def _over(
    plan: Plan, lines: Sequence[Cell], table: TableKey, langs: Sequence[str]
) -> tuple[str, float | None]:
    """Return in words the number of pairs behind a metric in each language, and the largest of
    these numbers (None where the task does not report it).
    """
    (task, metric, split), counts, most = table, [], None
    for lang in langs:
        name = (task, lang, plan.count_of(task, metric), split)
        found = [cell.values[name].mean for cell in lines if name in cell.values]
        if found:
            low, high = f"{min(found):,.0f}", f"{max(found):,.0f}"
            counts.append(f"{lang} {low}" if low == high else f"{lang} {low} to {high}")
            most = max(most or 0.0, *found)
    return (f"pairs: {', '.join(counts)}" if counts else ""), most


def as_text(made: Sequence[TextBlock], *, width: int | None = None, transpose: bool = False) -> str:
    """Return tables for a terminal.

    Args:
        made: The tables.
        width: The columns of the terminal; None leaves every table as wide as it is.
        transpose: Whether methods are columns and languages are lines.
    """
    found: list[str] = []
    for block in made:
        found += paragraph(block.title, width)
        if block.lines:
            table = TextTable(block.heads, block.langs, block.lines)
            found += fitted(table.transposed("language") if transpose else table, width)
        found += [*paragraph(block.note, width), ""]
    if runs := sorted({run for block in made for run in block.runs}):
        number = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        legend = (
            f"±: standard deviation over {number} runs with different seeds, not an interval."
            " Intervals and tests, which read the predictions: `--compare`."
        )
        found += paragraph(legend, width)
    return "\n".join(found).rstrip("\n") + "\n"


def _text(value: Value | None, unit: NumberFormat) -> str:
    """A value: its mean, and the standard deviation over runs where there are several."""
    if value is None:
        return ""
    mean = unit.show(value.mean)
    return mean if value.sd is None else f"{mean} ± {unit.show(value.sd)}"
