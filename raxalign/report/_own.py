"""The grid's own tables: methods by languages for every task and metric, with their tests, and what
dev chooses.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from raxalign.analysis.cells import Cell, Name, Value
from raxalign.analysis.metrics import spoken
from raxalign.plan.names import plain
from raxalign.report._marks import Judge, difference_text, remarks
from raxalign.report._numbers import Unit, metric_unit
from raxalign.report._results import Results
from raxalign.report._untouched import UNTOUCHED, why
from raxalign.report.document import Entry, Line, Notes, Section, Table, lifted, renumbered
from raxalign.report.tables import FEW

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan

_Entry = tuple[str, str, str]  # (task, metric, split)
_GREEK = {"lambda": "λ", "alpha": "α"}


def own_section(results: Results, judge: Judge) -> Section:
    """Every table of the grid."""
    few = {entry for entry in results.tables if _few(results, entry)}
    first = _compared_by(results, few)
    made = tuple(
        _table(results, judge, entry, few=entry in few, folded=entry not in first)
        for entry in results.tables
    )
    return Section(
        "grid",
        "The grid's own tables",
        f"A line for each point of the grid. {_against(results, judge)}",
        made,
    )


def _against(results: Results, judge: Judge) -> str:
    """What the values are compared with."""
    names = list(dict.fromkeys(named(cell, results.plan) for cell in judge.baselines))
    if not names:
        return (
            "The grid has no baseline (a method of the kind none), so that nothing is compared and"
            " nothing is marked."
        )
    return (
        "Under each value its 95 % interval, and its difference to the baseline"
        f" ({', '.join(names)}, on the same encoder) with the interval of that."
    )


def _compared_by(results: Results, few: AbstractSet[_Entry]) -> AbstractSet[_Entry]:
    """The table of each task that stands open: that of its main metric, or the first one over
    examples enough.
    """
    first: dict[str, _Entry] = {}
    for entry in sorted(
        results.tables, key=lambda entry: (entry in few, entry[1] != results.main_metric(entry[0]))
    ):
        if entry not in few:
            first.setdefault(entry[0], entry)
    return set(first.values())


def _table(results: Results, judge: Judge, entry: _Entry, *, few: bool, folded: bool) -> Table:
    task, metric, split = entry
    langs = results.by_table[entry]
    reasons = {
        id(cell): reason
        for cell in results.cells
        if (reason := why(results.plan, cell, task)) is not None
    }
    cells = [
        cell
        for cell in results.cells
        if id(cell) in reasons or any((task, lang, metric, split) in cell.values for lang in langs)
    ]
    unit = metric_unit(
        cell.values[name].mean
        for cell in cells
        for lang in langs
        if (name := (task, lang, metric, split)) in cell.values
    )
    notes = Notes()
    lines = []
    for cell in cells:
        if id(cell) in reasons:
            entries = tuple(
                Entry(UNTOUCHED, notes=(notes.number(reasons[id(cell)]),), state="absent")
                for _ in langs
            )
        else:
            entries = tuple(
                _entry(judge, cell, (task, lang, metric, split), unit, notes, few=few)
                for lang in langs
            )
        lines.append(Line(named(cell, results.plan), tuple(entries), _under(results, cell, entry)))
    everywhere, lines = lifted(
        lines, [entry for line in lines for entry in line.entries if entry.state == "value"]
    )
    caption = " ".join(
        [
            *_caption(results, task, metric, split, unit, few),
            *(notes.texts[number - 1] for number in everywhere),
        ]
    )
    heads = tuple(
        {"avg": "mean", "avg_zero_shot": "mean, zero-shot"}.get(lang, lang) for lang in langs
    )
    title = f"{task}: {spoken(metric)}"
    return renumbered(
        Table(
            f"grid-{task}-{metric}-{split}",
            title,
            heads,
            tuple(lines),
            caption,
            tuple(notes.texts),
            folded=folded,
        )
    )


def _entry(judge: Judge, cell: Cell, name: Name, unit: Unit, notes: Notes, *, few: bool) -> Entry:
    """A value with what is known of it; over too few pairs nothing is marked."""
    value = cell.values.get(name)
    if value is None:
        return Entry("not run", state="absent")
    found = judge.of(cell, name)
    if found is None:
        return Entry(unit.show(value.mean))
    mark = "" if few else judge.mark(cell, name)
    return Entry(
        unit.show(value.mean),
        unit.show_interval(*(judge.interval(cell, name) or (None, None))),
        delta=difference_text(found, unit),
        mark=mark,
        notes=notes.numbers(tuple(remarks(found, unit))),
        worse=mark == "worse" if mark else None,
    )


def _under(results: Results, cell: Cell, entry: _Entry) -> str:
    """The encoder where there are several, the size of the training set, and over how many seeds
    the values of a table are.
    """
    facts = [cell.encoder] if len({other.encoder for other in results.cells}) > 1 else []
    facts += [f"{cell.sentences:,} pairs"] if cell.sentences is not None else []
    seeds = max(
        (value.n for name, value in cell.values.items() if (name[0], name[2], name[3]) == entry),
        default=0,
    )
    return ", ".join([*facts, *([f"{seeds} seeds" if seeds > 1 else "1 seed"] if seeds else [])])


def _few(results: Results, entry: _Entry) -> bool:
    """Whether an accuracy is over so few pairs that it tells nothing."""
    task, metric, split = entry
    names = [(task, lang, f"{metric}_pairs", split) for lang in results.by_table[entry]]
    counts = [
        cell.values[name].mean for cell in results.cells for name in names if name in cell.values
    ]
    return bool(counts) and max(counts) < FEW


def _caption(
    results: Results, task: str, metric: str, split: str, unit: Unit, few: bool
) -> Iterator[str]:
    yield (
        f"{_begun(spoken(metric))}{' in percent' if unit.sign else ''} on the"
        f" {'test' if split == 'test' else 'development'} set."
    )
    params = results.task_params.get(task, {})
    selection = params.get("selection")
    if split == "dev" and selection not in (None, "last"):
        yield (
            f"The same set chose the checkpoint (selection: {selection}), so these values are"
            " optimistic."
        )
    if selection == "target-dev":
        yield (
            "The checkpoint was chosen on each target language's dev set: these are no zero-shot"
            " results."
        )
    if few:
        yield f"Over fewer than {FEW} pairs in every language: too few to tell anything."


def _begun(text: str) -> str:
    return text[0].upper() + text[1:]


def chosen_section(results: Results, judge: Judge) -> Section | None:
    """For each method with several points: the one with the best dev mean, and its test value; None
    where no method has several.
    """
    tables = [
        table for task in results.tasks if (table := _chosen(results, judge, task)) is not None
    ]
    if not tables:
        return None
    lead = (
        "Where a method has several points, the one with the highest mean over languages on the"
        " development set is taken, and its test value is what an honest comparison may quote. The"
        " best test value of all points is beside it, to show what choosing on test would have"
        " gained."
    )
    return Section("chosen", "Chosen on dev", lead, tuple(tables))


def _chosen(results: Results, judge: Judge, task: str) -> Table | None:
    metric = results.main_metric(task)
    groups: dict[tuple[str, str, int | None], list[Cell]] = defaultdict(list)
    for cell in results.cells:
        if (
            metric is not None
            and mean_name(cell, task, metric, "dev")
            and mean_name(cell, task, metric, "test")
        ):
            groups[cell.method, cell.encoder, cell.sentences].append(cell)
    if metric is None or not any(len(cells) > 1 for cells in groups.values()):
        return None
    lines = []
    unit = metric_unit(
        value.mean
        for cells in groups.values()
        for cell in cells
        for value in [_mean(cell, task, metric, "test")]
    )
    for (method, _, _), cells in groups.items():
        best = max(cells, key=lambda cell: _mean(cell, task, metric, "dev").mean)
        top = max(_mean(cell, task, metric, "test").mean for cell in cells)
        dev, test = _mean(best, task, metric, "dev"), _mean(best, task, metric, "test")
        point = named(best, results.plan).removeprefix(method).strip() or "–"
        around = unit.show_interval(
            *(judge.interval(best, mean_name(best, task, metric, "test")) or (None, None))
        )
        shown = [
            Entry(point),
            Entry(unit.show(dev.mean)),
            Entry(unit.show(test.mean), around),
            Entry(unit.show(top)),
        ]
        lines.append(
            Line(
                method,
                (*shown, Entry(f"{len(cells)}")),
                _under(results, best, (task, metric, "test")),
            )
        )
    caption = (
        f"{_begun(spoken(metric))}{' in percent' if unit.sign else ''}, mean over languages. Chosen"
        " on dev."
    )
    selection = results.task_params.get(task, {}).get("selection")
    if selection not in (None, "last"):
        caption += (
            f" The dev set also chose the checkpoints (selection: {selection}), so that the dev"
            " values are optimistic."
        )
    columns = ("chosen point", "dev", "test", "best test of all", "points")
    return Table(f"chosen-{task}", task, columns, tuple(lines), caption)


def named(cell: Cell, plan: Plan) -> str:
    """The method of a cell with the params that vary, numbers without needless zeros: ``finetune
    λ=0.1``.
    """
    axes = [
        f"{_GREEK.get(axis, axis)}={plain(cell.params[axis])}"
        for axis in plan.axes.get(cell.method, ())
        if axis in cell.params
    ]
    return " ".join([cell.method, *axes])


def measured(cell: Cell, plan: Plan) -> str:
    """What stands under the name of a published row: the method, its params that vary, and the size
    of its training set.
    """
    size = f", {cell.sentences:,} pairs" if cell.sentences is not None else ""
    return f"{named(cell, plan)}{size}"


def mean_name(cell: Cell, task: str, metric: str, split: str) -> Name | None:
    """The name of a cell's mean over languages: the zero-shot one where there is one, or the only
    language there is.
    """
    for lang in ("avg_zero_shot", "avg"):
        if (task, lang, metric, split) in cell.values:
            return (task, lang, metric, split)
    only = [name for name in cell.values if (name[0], name[2], name[3]) == (task, metric, split)]
    return only[0] if len(only) == 1 else None


def _mean(cell: Cell, task: str, metric: str, split: str) -> Value:
    name = mean_name(cell, task, metric, split)
    return cell.values[name] if name is not None else Value(math.nan, None, 0)
