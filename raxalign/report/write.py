"""The results as files: CSV, JSON and Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.analysis.cells import cells
from raxalign.report.tables import as_csv, as_json, headings, label, show

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan


def write_report(rows: Sequence[Mapping[str, Any]], plan: Plan, folder: Path) -> list[Path]:
    """Write ``results.csv``, ``results.json`` and ``results.md``; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"results.csv": as_csv(rows), "results.json": as_json(rows), "results.md": as_markdown(rows, plan)}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def as_markdown(rows: Sequence[Mapping[str, Any]], plan: Plan) -> str:
    """A table a task and metric, a line a cell, a column a language; ± is half the 95 % t interval over seeds."""
    lines = cells(rows, plan.pivot)
    columns = headings(lines)
    parts = [f"# {plan.name}", f"{plan.points} points, {len(plan.trials)} trials."]
    for task, metric, split in dict.fromkeys((task, metric, split) for task, _, metric, split in columns):
        langs = [lang for t, lang, m, s in columns if (t, m, s) == (task, metric, split)]
        parts.append(f"## {task}: {metric} ({split})")
        table = ["| method | sentences | " + " | ".join(langs) + " |", "|---|---:|" + "---:|" * len(langs)]
        for cell in lines:
            values = [cell.values.get((task, lang, metric, split)) for lang in langs]
            if any(values):
                sentences = f"{cell.sentences:,}" if cell.sentences is not None else ""
                table.append(f"| {label(cell, plan)} | {sentences} | " + " | ".join(map(show, values)) + " |")
        parts.append("\n".join(table))
    return "\n\n".join(parts) + "\n"
