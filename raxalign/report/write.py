"""The results as files: CSV, JSON and Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.report.tables import as_csv, as_json, blocks

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
    parts = [f"# {plan.name}", f"{plan.points} points, {len(plan.trials)} trials. ± is half the 95 % interval over seeds."]
    for block in blocks(rows, plan):
        table = [("method", "sentences", *block.langs), ("---", *["---:"] * (len(block.langs) + 1)), *block.lines]
        parts += [f"## {block.title}", *(["\n".join(_line(line) for line in table)] if block.lines else []), *([block.note] if block.note else [])]
    return "\n\n".join(parts) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
