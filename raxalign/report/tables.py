"""Results that a user asked for as tables for a terminal, as JSON or CSV, and as short tables for
papers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from raxalign.analysis.cells import MEANS, Cell, Name, Value
from raxalign.errors import RaxalignError
from raxalign.grid.plan import Plan
from raxalign.measured import FEW, spoken
from raxalign.printing import TextTable, paragraph
from raxalign.report.document import Entry, Line, Table, caption, marked, unaligned
from raxalign.values.comparisons import baseline_cells, look_lines
from raxalign.values.numbers import UNDECLARED, NumberFormat
from raxalign.values.results import csv_parts
from raxalign.values.scoreboard import UNTOUCHED, Scoreboard, TableKey, why_untouched


@dataclass(frozen=True)
class Selection:
    """The tasks, metrics, languages and splits to show; an empty one stands for the usual choice:
    all tasks and languages, what is worth a table (`every`: all metrics), and dev only where there
    is no test.

    A language means its pair with the pivot as well (`de` also `de-en`).
    """

    tasks: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    langs: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    every: bool = False

    @property
    def narrows(self) -> bool:
        """Whether anything is left out that is usually shown."""
        return bool(self.tasks or self.metrics or self.langs or self.splits)

    def names(self, found: Iterable[Name], plan: Plan) -> list[Name]:
        """Return those of the names of values that are shown, in their order."""
        names = list(dict.fromkeys(found))
        tested = {task for task, _, _, split in names if split == "test"}
        return [
            (task, lang, metric, split)
            for task, lang, metric, split in names
            if self._takes((task, lang, metric, split), plan.pivot)
            and (self.every or self.splits or split == "test" or task not in tested)
            and (self.every or self.metrics or plan.measured(task, metric).role == "score")
        ]

    def rows(self, rows: Sequence[Mapping[str, Any]], pivot: str) -> list[Mapping[str, Any]]:
        """Return those result rows that were asked for: without any wish all of them."""
        names = [(row["task"], row["lang"], row["metric"], row["split"]) for row in rows]
        return [row for row, name in zip(rows, names, strict=True) if self._takes(name, pivot)]

    def cells(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the cells with the values of the wanted tasks, metrics and splits alone; all their
        languages stay, so that means are those over all of them.
        """
        whole = replace(self, langs=())
        return [
            replace(cell, values={n: v for n, v in cell.values.items() if whole._takes(n, "")})
            for cell in cells
        ]

    def takes_lang(self, lang: str, pivot: str) -> bool:
        """Return whether a language, or a pair with the pivot, was asked for."""
        return not self.langs or lang in self.langs or lang.removesuffix(f"-{pivot}") in self.langs

    def refuse_unknown(self, rows: Sequence[Mapping[str, Any]], plan: Plan) -> None:
        """Raise `RaxalignError` where no result is what was asked for, with what there is; of tasks
        with the language that each is trained on, which the name of some has.
        """
        asked = {"task": self.tasks, "metric": self.metrics, "lang": self.langs}
        for column, every in {**asked, "split": self.splits}.items():
            there = dict.fromkeys(row[column] for row in rows)
            if column == "lang":
                alone = (lang.removesuffix(f"-{plan.pivot}") for lang in there)
                there |= dict.fromkeys([*alone, *MEANS])
            for wanted in every:
                if wanted not in there:
                    near = get_close_matches(wanted, there, n=1)
                    hint = f"did you mean {near[0]}? " if near else ""
                    trained = [n for n, s in plan.evaluated.items() if "trained" in s.inputs]
                    shown = [
                        f"{name} (trained on {plan.home_of(name)})" if name in trained else name
                        for name in there
                    ]
                    known = f"{hint}there are: {', '.join(shown)}"
                    raise RaxalignError(f"--{column} {wanted}: no result has it; {known}")

    def _takes(self, name: Name, pivot: str) -> bool:
        task, lang, metric, split = name
        return (
            (not self.tasks or task in self.tasks)
            and (not self.metrics or metric in self.metrics)
            and self.takes_lang(lang, pivot)
            and (not self.splits or split in self.splits)
        )


_MOST = 10  # lines of a table


@dataclass(frozen=True)
class ShownLines:
    """The cells that a table shows, the baselines first, and what its caption says of those that it
    leaves out. Of many points of a method and encoder it has the one that dev chooses at the
    largest training set, without dev values the first, and the one that the answer is about.
    """

    results: Scoreboard
    cells: Sequence[Cell]
    one_per_method: str

    @classmethod
    def of(cls, results: Scoreboard, table: TableKey) -> ShownLines:
        """Choose the cells of a table."""
        names = results.names_of(table)
        there = [cell for cell in results.cells if any(name in cell.values for name in names)]
        bases = {id(cell) for cell in baseline_cells(there, results.plan)}
        kept, some = there, ""
        if len(there) > _MOST:
            ranks = {id(c): (c.sentences or 0, results.dev_of(c, *table[:2])) for c in there}
            best: dict[tuple[str, str], Cell] = {}
            for cell in there:
                rival = best.setdefault((cell.method, cell.encoder), cell)
                if ranks[id(cell)] > ranks[id(rival)]:
                    best[cell.method, cell.encoder] = cell
            tables = results.compared_tables()
            answered = results.leader(tables[0])[0][:1] if tables else []
            chosen = {id(cell) for cell in (*best.values(), *answered)}
            kept = [cell for cell in there if id(cell) in chosen]
            facts = {
                "left_out": len(there) - len(kept),
                "by_dev": any(r > -math.inf for key, (_, r) in ranks.items() if key not in bases),
                "encoders": len({cell.encoder for cell in there}) > 1,
                "answered": len(kept) > len(best),
            }
            some = f" {caption('one_per_method', **facts)}" if facts["left_out"] else ""
        sets = list(dict.fromkeys(cell.set for cell in there))
        kept = sorted(kept, key=lambda cell: (sets.index(cell.set), id(cell) not in bases))
        return cls(results, kept, some)

    @property
    def labels(self) -> list[str]:
        """The method of each line, with what else tells it from the others."""
        sizes = len({cell.sentences for cell in self.cells} - {None}) > 1
        encoders = len({cell.encoder for cell in self.cells}) > 1
        labels = []
        for cell in self.cells:
            facts = [self.results.named(cell)]
            facts += [cell.encoder] if encoders else []
            facts += [f"{cell.sentences:,} pairs"] if sizes and cell.sentences is not None else []
            labels.append(", ".join(facts))
        return labels

    def untouched(self, task: str) -> str:
        """Return what a caption says of the methods that change nothing that a task reads."""
        results = self.results
        idle = (c for c in results.cells if why_untouched(results.plan, c, task) is not None)
        names = dict.fromkeys(results.named(cell) for cell in idle)
        told = f" Not shown, as they change nothing that it reads: {', '.join(names)}."
        return told if names else ""


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
    shown = ShownLines.of(results, table)
    cells = shown.cells
    unit = results.unit(task, metric)
    lines = tuple(
        Line(label, tuple(_entry(results, cell, name, unit) for name in names))
        for label, cell in zip(shown.labels, cells, strict=True)
    )
    about = f"{results.lacking.short} {_caption(results, cells, table)}".strip()
    about += unaligned(cells) + shown.one_per_method + shown.untouched(task)
    tested = results.select(table)
    about += "".join(f" {line}." for line in look_lines(tested, results.plan))
    anchor = f"{results.plan.name}-{task}-{metric}" + ("" if split == "test" else f"-{split}")
    columns = tuple(results.column(name[1]) for name in names)
    return Table(anchor, f"{task}: {spoken(metric)}", columns, lines, about)


def _entry(results: Scoreboard, cell: Cell, name: Name, unit: NumberFormat) -> Entry:
    value, around = cell.values.get(name), results.interval(cell, name)
    if value is None:
        return Entry.EMPTY
    half = f"±{unit.show((around[1] - around[0]) / 2)}" if around else ""
    shown = marked(unit.show(value.mean), cell, name[1])
    return Entry(shown, half, mark=results.mark(cell, name))


def _caption(results: Scoreboard, cells: Sequence[Cell], table: TableKey) -> str:
    task, metric, split = table
    own = [(cell, name) for cell in cells for name in cell.names_of(table)]
    runs = sorted({cell.values[name].n for cell, name in own})
    shown = [found for one in own if (found := results.at(*one)) is not None]
    around = sum(found.interval is not None for found in shown)
    pairs = [(found.cell, found.baseline) for found in shown if found.baseline]
    uneven = _uneven_means(results, dict.fromkeys(name for _, name in own))
    told = "".join(f" {results.column(lang).capitalize()}: {caption('uneven')}." for lang in uneven)
    about = caption(
        "short_table",
        unit=results.unit(task, metric),
        measured=results.plan.measured(task, metric),
        split=split,
        runs=f"{runs[0]} to {runs[-1]}" if len(runs) > 1 else f"{runs[0]}",
        around=around,
        without=around < len(own),
        bases=results.plan.base_names(pairs),
    )
    return about + told


FIELDS = (
    *("trial", "method", "params", "encoder", "languages", "sentences", "seed"),
    *("task", "task_params", "lang", "metric", "split", "value", "outdated", "unseen", "joint"),
)


def row_parts(
    rows: Iterable[Mapping[str, Any]], kind: str, fields: Sequence[str] | None = None
) -> Iterator[str]:
    """Yield rows as ``json`` or ``csv`` (`kind`), the latter with some fields as its columns (None:
    those of results), part by part as they are read.
    """
    return csv_parts(rows, fields or FIELDS) if kind == "csv" else json_parts(rows)


def json_parts(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the text of a JSON list row by row, one row per value, each on a line of its own."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    before = "[\n"
    for row in rows:
        yield before + encode(row)
        before = ",\n"
    yield "\n]" if before.startswith(",") else "[]"


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
    selection: Selection = Selection(),
    *,
    per_seed: bool = False,
) -> list[TextBlock]:
    """Return one table per task and metric that is selected: one line per cell (with `per_seed` per
    cell and seed), one column per language (`ordered`), mean and standard deviation over runs.
    """
    board = Scoreboard.of(rows, plan)
    every, columns = board.cells, selection.names(board.names, plan)
    found = []
    for key in dict.fromkeys((n[0], n[2], n[3]) for n in columns):
        task, metric, split = key
        langs = plan.ordered(name[1] for name in columns if (name[0], *name[2:]) == key)
        title, (note, most) = f"{task}: {metric} ({split})", _over(plan, every, key, langs)
        if most is not None and most < FEW and not (selection.every or selection.metrics):
            few = f"{note}; too few for a result (`--all` shows the table)"
            found.append(TextBlock(title, (), (), few))
            continue
        names = [(task, lang, metric, split) for lang in langs]
        measured = plan.measured(task, metric)
        values = [cell.values[name] for cell in every for name in names if name in cell.values]
        lines, reasons = _lines(board, names, per_seed=per_seed)
        notes = [*([note] if note else []), *reasons]
        notes += [f"{lang}: {caption('uneven')}" for lang in _uneven_means(board, names)]
        notes += [] if measured.declared else [UNDECLARED]
        notes += [note.strip()] if (note := unaligned(every)) else []
        heads = ("method", "sentences", *(["seed"] if per_seed else []))
        runs = frozenset(value.n for value in values if value.sd is not None and not per_seed)
        title += NumberFormat.heading(measured)
        found.append(TextBlock(title, tuple(langs), tuple(lines), "\n".join(notes), heads, runs))
    return found


def _uneven_means(board: Scoreboard, names: Iterable[Name]) -> list[str]:
    """Return the means that lines have over different languages."""
    cells, pivot = board.cells, board.plan.pivot
    return [name[1] for name in names if Cell.shared([(c, name) for c in cells], pivot) is not None]


def _lines(
    board: Scoreboard, names: Sequence[Name], *, per_seed: bool
) -> tuple[list[tuple[str, ...]], list[str]]:
    """The lines of the cells that have some value, or a reason for none; and these reasons."""
    plan, unit = board.plan, board.unit(names[0][0], names[0][2])
    shown, reasons = list[tuple[str, ...]](), dict[str, None]()
    for cell in board.cells:
        reason = why_untouched(plan, cell, names[0][0])
        method = plan.cell_name(cell) + (f" [{cell.encoder}]" if board.several_encoders else "")
        head = (method, f"{cell.sentences:,}" if cell.sentences is not None else "")
        if reason is not None:
            shown.append((*head, *([""] if per_seed else []), *[UNTOUCHED] * len(names)))
            reasons[reason] = None
        elif per_seed:
            by_seed = [cell.by_seed.get(name, {}) for name in names]
            for seed in sorted({seed for own in by_seed for seed in own}, key=str):
                values = (Value.of([own[seed]]) if seed in own else None for own in by_seed)
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
            found += (table.transposed("language") if transpose else table).fitted(width)
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
