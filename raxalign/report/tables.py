"""Result rows as a table for people, as JSON, or as CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raxalign.analysis.cells import MEANS, Cell, Name, Value, languages_of, over_runs
from raxalign.plan.names import cell_name, ordered
from raxalign.plan.plan import Plan
from raxalign.plan.values.numbers import FEW, UNDECLARED, NumberFormat, heading_of
from raxalign.plan.values.scoreboard import UNTOUCHED, Scoreboard, TableKey, table_of, why_untouched
from raxalign.report.cells.names import marked, unaligned
from raxalign.report.terminal.fit import TextTable, fitted, paragraph
from raxalign.report.terminal.selection import Selection

FIELDS = (
    *("trial", "method", "params", "encoder", "languages", "sentences", "seed"),
    *("task", "task_params", "lang", "metric", "split", "value", "outdated", "unseen", "joint"),
)

_FORMULA = re.compile(r"=(?s:.)|[@\t\r\n]|[+-](?![\d.]+(?:[eE][+-]?\d+)?$)")


def json_parts(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the text of a JSON list row by row, one row per value, each on a line of its own."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    before = "[\n"
    for row in rows:
        yield before + encode(row)
        before = ",\n"
    yield "\n]" if before.startswith(",") else "[]"


def csv_parts(rows: Iterable[Mapping[str, Any]], fields: Sequence[str] = FIELDS) -> Iterator[str]:
    """Yield CSV row by row, its header first; mappings and lists as JSON, absent values empty. Text
    that a spreadsheet would compute as a formula begins with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(fields)
    for row in rows:
        yield text.getvalue()
        text.seek(0)
        text.truncate()
        writer.writerow(_cell(row.get(name)) for name in fields)
    yield text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


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
    """Return one table per task and metric that is selected: one line per cell (with `per_seed` per
    cell and seed), one column per language (`ordered`), mean and standard deviation over runs.
    """
    board = Scoreboard.of(rows, plan)
    every, columns = board.cells, selection.names(board.names, plan)
    found = []
    for key in dict.fromkeys(map(table_of, columns)):
        task, metric, split = key
        langs = ordered((name[1] for name in columns if table_of(name) == key), plan)
        title, (note, most) = f"{task}: {metric} ({split})", _over(plan, every, key, langs)
        if most is not None and most < FEW and not (selection.every or selection.metrics):
            few = f"{note}; too few for a result (`--all` shows the table)"
            found.append(TextBlock(title, (), (), few))
            continue
        names = [(task, lang, metric, split) for lang in langs]
        measured = plan.measured(task, metric)
        values = [cell.values[name] for cell in every for name in names if name in cell.values]
        lines, reasons = _lines(board, names, per_seed=per_seed)
        notes = [*([note] if note else []), *reasons, *_uneven_means(plan, every, names)]
        notes += [] if measured.declared else [UNDECLARED]
        notes += [note.strip()] if (note := unaligned(every)) else []
        heads = ("method", "sentences", *(["seed"] if per_seed else []))
        runs = frozenset(value.n for value in values if value.sd is not None and not per_seed)
        title += heading_of(measured)
        found.append(TextBlock(title, tuple(langs), tuple(lines), "\n".join(notes), heads, runs))
    return found


def _uneven_means(plan: Plan, every: Sequence[Cell], names: Sequence[Name]) -> Iterator[str]:
    """Yield a note where the means of the lines are over different languages."""
    for name in names:
        own = [cell for cell in every if name[1] in MEANS and name in cell.values]
        if len({tuple(sorted(languages_of(cell, name, plan.pivot))) for cell in own}) > 1:
            yield (
                f"{name[1]}: not all lines have the same languages, so these means cannot be"
                " compared"
            )


def _lines(
    board: Scoreboard, names: Sequence[Name], *, per_seed: bool
) -> tuple[list[tuple[str, ...]], list[str]]:
    """The lines of the cells that have some value, or a reason for none; and these reasons."""
    plan, unit = board.plan, board.unit(names[0][0], names[0][2])
    shown, reasons = list[tuple[str, ...]](), dict[str, None]()
    for cell in board.cells:
        reason = why_untouched(plan, cell, names[0][0])
        method = cell_name(cell, plan) + (f" [{cell.encoder}]" if board.several_encoders else "")
        head = (method, f"{cell.sentences:,}" if cell.sentences is not None else "")
        if reason is not None:
            shown.append((*head, *([""] if per_seed else []), *[UNTOUCHED] * len(names)))
            reasons[reason] = None
        elif per_seed:
            by_seed = [cell.by_seed.get(name, {}) for name in names]
            for seed in sorted({seed for own in by_seed for seed in own}, key=str):
                values = (over_runs([own[seed]]) if seed in own else None for own in by_seed)
                texts = (_text(value, unit) for value in values)
                shown.append((*head, "any" if seed is None else str(seed), *texts))
        elif any(name in cell.values for name in names):
            own = [(name[1], _text(cell.values.get(name), unit)) for name in names]
            shown.append((*head, *(marked(text, cell, lang) for lang, text in own)))
    return shown, list(reasons)


def _over(
    plan: Plan, lines: Sequence[Cell], table: TableKey, langs: Sequence[str]
) -> tuple[str, float | None]:
    """Return the number of pairs behind a metric per language, in words, and the largest."""
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
    """Return tables for a terminal of a width (None: each is as wide as it is); with `transpose`
    methods are columns.
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
            f"±: standard deviation over {number} runs with different seeds, not a confidence"
            " interval. `--compare` shows confidence intervals and tests."
        )
        found += paragraph(legend, width)
    return "\n".join(found).rstrip("\n") + "\n"


def _text(value: Value | None, unit: NumberFormat) -> str:
    """A value: its mean, and the standard deviation over runs where there are several."""
    if value is None:
        return ""
    mean = unit.show(value.mean)
    return mean if value.sd is None else f"{mean} ± {unit.show(value.sd)}"
