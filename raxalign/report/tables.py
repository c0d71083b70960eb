"""Result rows as a table for people, as JSON, or as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raxalign.analysis.cells import Cell, Value, cells
from raxalign.analysis.metrics import is_main
from raxalign.plan.names import cell_name
from raxalign.report.cells.numbers import FEW
from raxalign.report.cells.untouched import UNTOUCHED, idle_cells, why

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


def headings(cells_: Sequence[Cell], *, every: bool = False) -> list[tuple[str, str, str, str]]:
    """Return the columns (task, lang, metric, split) that some cell has; counts, standard errors
    and directions only with `every`.
    """
    found: dict[tuple[str, str, str, str], None] = {}
    for cell in cells_:
        found |= dict.fromkeys(cell.values)
    splits = {(task, split) for task, _, _, split in found}
    return [
        (task, lang, metric, split)
        for task, lang, metric, split in found
        if every or (is_main(metric) and (split == "test" or (task, "test") not in splits))
    ]


@dataclass(frozen=True)
class Block:
    """One table: of a task, metric and split, with its columns of values and its lines (method,
    sentences, one text per column). `note` is the number of pairs behind it, where the task records
    that.
    """

    title: str
    langs: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    note: str = ""


_TESTS = "Intervals and tests, which read the predictions: `--compare`."


def blocks(rows: Sequence[Mapping[str, Any]], plan: Plan, *, every: bool = False) -> list[Block]:
    """Return one table per task and metric: one line per cell, one column per language (the pivot
    first, means last), mean and sd over runs.
    """
    lines = cells(rows, plan.pivot)
    columns = headings(lines, every=every)
    lines += idle_cells(plan)
    found = []
    for entry in dict.fromkeys((task, metric, split) for task, _, metric, split in columns):
        task, metric, split = entry
        langs = sorted(
            (lang for t, lang, m, s in columns if (t, m, s) == entry),
            key=lambda lang: (lang.startswith("avg"), lang != plan.pivot, lang),
        )
        title, (note, most) = f"{task}: {metric} ({split})", _over(lines, entry, langs)
        if most is not None and most < FEW and not every:
            few = f"{note}; too few for a result (`--all` shows the table)"
            found.append(Block(title, (), (), few))
            continue
        shown, reasons = _lines(lines, plan, [(task, lang, metric, split) for lang in langs])
        notes = [*([note] if note else []), *reasons]
        found.append(Block(title, tuple(langs), tuple(shown), "\n".join(notes)))
    return found


def _lines(
    cells_: Sequence[Cell], plan: Plan, names: Sequence[tuple[str, str, str, str]]
) -> tuple[list[tuple[str, ...]], list[str]]:
    """The lines of the cells that have a value of some of the names, or a reason why they have
    none; and these reasons.
    """
    several = len({cell.encoder for cell in cells_}) > 1
    shown: list[tuple[str, ...]] = []
    reasons: dict[str, None] = {}
    for cell in cells_:
        values, reason = [cell.values.get(name) for name in names], why(plan, cell, names[0][0])
        if any(values) or reason is not None:
            method = cell_name(cell, plan) + (f" [{cell.encoder}]" if several else "")
            texts = map(show, values) if reason is None else [UNTOUCHED] * len(values)
            size = f"{cell.sentences:,}" if cell.sentences is not None else ""
            shown.append((method, size, *texts))
            reasons |= {reason: None} if reason is not None else {}
    return shown, list(reasons)


def _over(
    lines: Sequence[Cell], entry: tuple[str, str, str], langs: Sequence[str]
) -> tuple[str, float | None]:
    """Return in words the number of pairs behind a metric in each language, and the largest of
    these numbers (None where the task does not report it).
    """
    (task, metric, split), counts, most = entry, [], None
    for lang in langs:
        found = [
            cell.values[name].mean
            for cell in lines
            if (name := (task, lang, f"{metric}_pairs", split)) in cell.values
        ]
        if found:
            low, high = f"{min(found):,.0f}", f"{max(found):,.0f}"
            counts.append(f"{lang} {low}" if low == high else f"{lang} {low} to {high}")
            most = max(most or 0.0, *found)
    return (f"pairs: {', '.join(counts)}" if counts else ""), most


def as_text(
    rows: Sequence[Mapping[str, Any]], plan: Plan, *, every: bool = False, width: int | None = None
) -> str:
    """Return the tables for a terminal; `width` None takes that of the terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=io.StringIO(), width=width or Console().width)
    made = blocks(rows, plan, every=every)
    for block in made:
        console.print(Text(block.title))
        if not block.lines:
            console.print(Text(block.note, "dim"))
            continue
        table = Table()
        table.add_column("method")
        for name in ("sentences", *block.langs):
            table.add_column(name, justify="right")
        for line in block.lines:
            table.add_row(*map(Text, line))
        console.print(table)
        if block.note:
            console.print(Text(block.note, "dim"))
    if any("(" in value for block in made for line in block.lines for value in line[2:]):
        console.print(Text(f"In parentheses: standard deviation over runs. {_TESTS}", "dim"))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def show(value: Value | None) -> str:
    """Return a value for a table: mean, and in parentheses the standard deviation over runs where
    there are several.
    """
    if value is None:
        return ""
    return f"{value.mean:.4f}" if value.sd is None else f"{value.mean:.4f} ({value.sd:.4f})"
