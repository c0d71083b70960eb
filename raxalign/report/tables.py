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
from raxalign.report.cells.numbers import FEW, UNDECLARED, Unit, heading_of, unit_of
from raxalign.report.cells.untouched import UNTOUCHED, idle_cells, why
from raxalign.report.terminal.fit import Texts, fitted, paragraph
from raxalign.report.terminal.selection import Selection

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan

FIELDS = (
    "trial",
    "method",
    "params",
    "encoder",
    "languages",
    "sentences",
    "seed",
    "task",
    "task_params",
    "lang",
    "metric",
    "split",
    "value",
    "outdated",
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


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """CSV with a header; mappings and lists as JSON, absent values empty."""
    return "".join(csv_parts(rows))


def csv_parts(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the text of `as_csv` row by row."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(FIELDS)
    for row in rows:
        yield text.getvalue()
        text.seek(0)
        text.truncate()
        writer.writerow(
            [
                (
                    json.dumps(row[name], ensure_ascii=False)
                    if isinstance(row[name], dict | list)
                    else row[name]
                )
                for name in FIELDS
            ]
        )
    yield text.getvalue()


@dataclass(frozen=True)
class Block:
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

    @property
    def texts(self) -> Texts:
        """The table alone."""
        return Texts(self.heads, self.langs, self.lines)


def blocks(
    rows: Sequence[Mapping[str, Any]],
    plan: Plan,
    selection: Selection = Selection(),  # noqa: B008 it is frozen
    *,
    per_seed: bool = False,
) -> list[Block]:
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
    for entry in dict.fromkeys((task, metric, split) for task, _, metric, split in columns):
        task, metric, split = entry
        langs = ordered((lang for t, lang, m, s in columns if (t, m, s) == entry), plan)
        title, (note, most) = f"{task}: {metric} ({split})", _over(plan, lines, entry, langs)
        if most is not None and most < FEW and not (selection.every or selection.metrics):
            few = f"{note}; too few for a result (`--all` shows the table)"
            found.append(Block(title, (), (), few))
            continue
        table = _Table(plan, lines, [(task, lang, metric, split) for lang in langs], per_seed)
        shown, reasons = table.lines()
        unknown = [] if table.measured.declared else [UNDECLARED]
        notes = [*([note] if note else []), *reasons, *table.uneven_means(), *unknown]
        title += heading_of(table.measured)
        heads = ("method", "sentences", *(["seed"] if per_seed else []))
        runs = frozenset() if per_seed else table.runs()
        found.append(Block(title, tuple(langs), tuple(shown), "\n".join(notes), heads, runs))
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

    @property
    def unit(self) -> Unit:
        return unit_of(self.measured, (value.mean for value in self._values()))

    def runs(self) -> frozenset[int]:
        return frozenset(value.n for value in self._values() if value.sd is not None)

    def uneven_means(self) -> list[str]:
        """Return a note where the means of the lines are over different languages."""
        found = []
        for name in self.names:
            over = {
                tuple(sorted(languages_of(cell, name, self.plan.pivot)))
                for cell in self.cells
                if name[1] in MEANS and name in cell.values
            }
            if len(over) > 1:
                found.append(
                    f"{name[1]}: not all lines have the same languages, so these means cannot be"
                    " compared"
                )
        return found

    def lines(self) -> tuple[list[tuple[str, ...]], list[str]]:
        """The lines of the cells that have a value of some of the names, or a reason why they have
        none; and these reasons.
        """
        several = len({cell.encoder for cell in self.cells}) > 1
        unit, shown = self.unit, list[tuple[str, ...]]()
        reasons: dict[str, None] = {}
        for cell in self.cells:
            reason = why(self.plan, cell, self.names[0][0])
            if reason is None and not any(name in cell.values for name in self.names):
                continue
            method = cell_name(cell, self.plan) + (f" [{cell.encoder}]" if several else "")
            size = f"{cell.sentences:,}" if cell.sentences is not None else ""
            if reason is not None:
                seed = [""] if self.per_seed else []
                shown.append((method, size, *seed, *[UNTOUCHED] * len(self.names)))
                reasons |= {reason: None}
                continue
            for seed, values in self._of_cell(cell):
                shown.append((method, size, *seed, *(show(value, unit) for value in values)))
        return shown, list(reasons)

    def _of_cell(self, cell: Cell) -> list[tuple[list[str], list[Value | None]]]:
        """Return what names the lines of a cell besides it, and their values."""
        if not self.per_seed:
            return [([], [cell.values.get(name) for name in self.names])]
        by_seed = [cell.by_seed.get(name, {}) for name in self.names]
        seeds = sorted({seed for found in by_seed for seed in found}, key=str)
        return [
            (
                ["any" if seed is None else str(seed)],
                [over_runs([found[seed]]) if seed in found else None for found in by_seed],
            )
            for seed in seeds
        ]

    def _values(self) -> list[Value]:
        return [
            cell.values[name] for cell in self.cells for name in self.names if name in cell.values
        ]


def _over(
    plan: Plan, lines: Sequence[Cell], entry: tuple[str, str, str], langs: Sequence[str]
) -> tuple[str, float | None]:
    """Return in words the number of pairs behind a metric in each language, and the largest of
    these numbers (None where the task does not report it).
    """
    (task, metric, split), counts, most = entry, [], None
    for lang in langs:
        found = [
            cell.values[name].mean
            for cell in lines
            if (name := (task, lang, plan.count_of(task, metric), split)) in cell.values
        ]
        if found:
            low, high = f"{min(found):,.0f}", f"{max(found):,.0f}"
            counts.append(f"{lang} {low}" if low == high else f"{lang} {low} to {high}")
            most = max(most or 0.0, *found)
    return (f"pairs: {', '.join(counts)}" if counts else ""), most


def as_text(made: Sequence[Block], *, width: int | None = None, transpose: bool = False) -> str:
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
            texts = block.texts.transposed("language") if transpose else block.texts
            found += fitted(texts, width)
        found += [*paragraph(block.note, width), ""]
    if runs := frozenset[int]().union(*(block.runs for block in made)):
        found += paragraph(_legend(runs), width)
    return "\n".join(found).rstrip("\n") + "\n"


def _legend(runs: frozenset[int]) -> str:
    low, high = min(runs), max(runs)
    number = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"±: standard deviation over {number} runs with different seeds, not an interval. Intervals"
        " and tests, which read the predictions: `--compare`."
    )


def show(value: Value | None, unit: Unit) -> str:
    """Return a value for a table: mean, and the standard deviation over runs where there are
    several.
    """
    if value is None:
        return ""
    mean = unit.show(value.mean)
    return mean if value.sd is None else f"{mean} ± {unit.show(value.sd)}"
