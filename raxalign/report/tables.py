"""Result rows as a table for people, as JSON, or as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raxalign.analysis.cells import Cell, Value, cells

if TYPE_CHECKING:
    from rich.table import Table

    from raxalign.plan.plan import Plan

FIELDS = ("trial", "method", "params", "encoder", "languages", "sentences", "seed", "task", "task_params", "lang", "metric", "split", "value")


def as_json(rows: Sequence[Mapping[str, Any]]) -> str:
    """A JSON list, a row a value."""
    return json.dumps(list(rows), ensure_ascii=False, indent=1)


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """CSV with a header; mappings and lists as JSON, absent values empty."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(FIELDS)
    for row in rows:
        writer.writerow([json.dumps(row[name]) if isinstance(row[name], dict | list) else row[name] for name in FIELDS])
    return text.getvalue()


def headings(cells_: Sequence[Cell], *, every: bool = False) -> list[tuple[str, str, str, str]]:
    """The columns (task, lang, metric, split) that some cell has; counts, standard errors and directions only with `every`."""
    found: dict[tuple[str, str, str, str], None] = {}
    for cell in cells_:
        found |= dict.fromkeys(cell.values)
    splits = {(task, split) for task, _, _, split in found}
    return [
        (task, lang, metric, split)
        for task, lang, metric, split in found
        if every or (_is_main(metric) and (split == "test" or (task, "test") not in splits))
    ]


def _is_main(metric: str) -> bool:
    return not metric.endswith(("_pairs", "_stderr", "_pivot"))


def as_tables(rows: Sequence[Mapping[str, Any]], plan: Plan, *, every: bool = False) -> list[Table]:
    """One table a task and metric: a line a cell, a column a language, mean and 95 % interval over seeds in per cent or as they are."""
    from rich.table import Table

    lines = cells(rows, plan.pivot)
    columns = headings(lines, every=every)
    tables = []
    for task, metric, split in dict.fromkeys((task, metric, split) for task, _, metric, split in columns):
        langs = [lang for t, lang, m, s in columns if (t, m, s) == (task, metric, split)]
        plain = sorted((lang for lang in langs if not lang.startswith("avg")), key=lambda lang: (lang != plan.pivot, lang))
        langs = [*plain, *(lang for lang in langs if lang.startswith("avg"))]
        caption = over(lines, task, metric, split, plain)
        table = Table(title=f"{task}: {metric} ({split})", title_justify="left", caption=caption, caption_justify="left")
        table.add_column("method")
        table.add_column("sentences", justify="right")
        for lang in langs:
            table.add_column(lang, justify="right")
        for cell in lines:
            values = [cell.values.get((task, lang, metric, split)) for lang in langs]
            if any(values):
                table.add_row(label(cell, plan), f"{cell.sentences:,}" if cell.sentences is not None else "", *map(show, values))
        tables.append(table)
    return tables


def over(lines: Sequence[Cell], task: str, metric: str, split: str, langs: Sequence[str]) -> str | None:
    """How many pairs a metric is taken over in each language, where the task tells: an accuracy over a handful says little."""
    counts = []
    for lang in langs:
        found = [cell.values[name].mean for cell in lines if (name := (task, lang, f"{metric}_pairs", split)) in cell.values]
        if found:
            low, high = f"{min(found):,.0f}", f"{max(found):,.0f}"
            counts.append(f"{lang} {low}" if low == high else f"{lang} {low} to {high}")
    return f"pairs: {', '.join(counts)}" if counts else None


def label(cell: Cell, plan: Plan) -> str:
    """The method of a cell with the params that vary in the grid."""
    axes = [f"{name}={cell.params[name]}" for name in plan.axes.get(cell.method, ()) if name in cell.params]
    return " ".join([cell.method, *axes])


def show(value: Value | None) -> str:
    """A value for a table: mean, and ± half the 95 % interval over seeds where there are several."""
    if value is None:
        return ""
    return f"{value.mean:.4f}" if value.half_width is None else f"{value.mean:.4f} ±{value.half_width:.4f}"
