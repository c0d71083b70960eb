"""The grid's own tables: methods by languages for every task and metric, with their tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import final

from raxalign.analysis.cells import Cell, Name
from raxalign.analysis.metrics import spoken
from raxalign.plan.values.comparisons import baseline_cells
from raxalign.report.cells.judge import Judge, difference_text, remarks
from raxalign.report.cells.names import capitalized, in_columns, named, under
from raxalign.report.cells.numbers import FEW, LOWER, UNDECLARED, Unit
from raxalign.report.cells.results import Results
from raxalign.report.cells.untouched import UNTOUCHED, why
from raxalign.report.document import Entry, Line, Notes, Part, Share, Table, lifted, renumbered
from raxalign.report.sections.base import Section


@final
class OwnTables(Section):
    """A table per task and metric: a line per point of the grid, a column per language.

    The table of the first task's main metric is open, the others are folded.
    """

    VERSION = 1
    place = 20

    def share(self) -> Share | None:
        """Returns every table of the grid; None without results."""
        results, judge = self.material.results, self.material.judge
        if not results.cells:
            return None
        few = {entry for entry in results.tables if results.few(entry)}
        leading = (results.leading(task) for task in results.tasks)
        first = next((entry for entry in leading if entry is not None), None)
        made = tuple(
            _OwnTable(results, judge, *entry, few=entry in few).table(folded=entry != first)
            for entry in results.tables
        )
        lead = f"One line per point of the grid. {_against(results, judge)}"
        return Share((Part("grid", "The grid's own tables", lead, made),))


def _against(results: Results, judge: Judge) -> str:
    """What the values are compared with."""
    names = list(dict.fromkeys(named(cell, results.plan) for cell in judge.baselines))
    if not names and baseline_cells(results.cells, results.plan):
        return (
            "No method next to the baseline has results: nothing is compared and nothing is marked."
        )
    if not names:
        return (
            "The grid has no baseline (a method of kind none): nothing is compared and nothing is"
            " marked."
        )
    return (
        "Under each value: its 95 % interval, and its difference to the baseline"
        f" ({', '.join(names)}, on the same encoder) with the interval of the difference."
    )


@dataclass(frozen=True)
class _OwnTable:
    """Makes the table of one task, metric and split; `few` says that it is over too few pairs."""

    results: Results
    judge: Judge
    task: str
    metric: str
    split: str
    few: bool

    @cached_property
    def _names(self) -> tuple[Name, ...]:
        """The names of its values, one per column."""
        langs = self.results.by_table[self.task, self.metric, self.split]
        return tuple((self.task, lang, self.metric, self.split) for lang in langs)

    def table(self, *, folded: bool) -> Table:
        """Returns the table with its marks, notes and caption."""
        notes, lines = Notes(), []
        unit = self.results.unit(self.task, self.metric)
        for cell in self.results.cells:
            reason = why(self.results.plan, cell, self.task)
            if reason is not None or any(name in cell.values for name in self._names):
                label = named(cell, self.results.plan)
                entries = tuple(self._entries(cell, reason, unit, notes))
                sub = under(self.results, cell, (self.task, self.metric, self.split))
                lines.append(Line(label, entries, sub))
        everywhere, lines = lifted(
            lines, [entry for line in lines for entry in line.entries if entry.state == "value"]
        )
        caption = [*self._caption(unit), *(notes.texts[number - 1] for number in everywhere)]
        made = Table(
            f"grid-{self.task}-{self.metric}-{self.split}",
            f"{self.task}: {spoken(self.metric)}",
            tuple(in_columns(lang) for _, lang, _, _ in self._names),
            tuple(lines),
            " ".join(caption),
            tuple(notes.texts),
            folded=folded,
        )
        return renumbered(made)

    def _entries(self, cell: Cell, reason: str | None, unit: Unit, notes: Notes) -> Iterator[Entry]:
        """The cells of a line; where the task was not run for a `reason`, that in each."""
        for name in self._names:
            if reason is not None:
                yield Entry(UNTOUCHED, notes=(notes.number(reason),), state="absent")
            else:
                yield self._entry(cell, name, unit, notes)

    def _entry(self, cell: Cell, name: Name, unit: Unit, notes: Notes) -> Entry:
        """A value with what is known of it; over too few pairs nothing is marked."""
        value = cell.values.get(name)
        if value is None:
            return Entry("not run", state="absent")
        found = self.judge.of(cell, name)
        if found is None:
            return Entry(unit.show(value.mean))
        mark = "" if self.few else self.judge.mark(cell, name)
        return Entry(
            unit.show(value.mean),
            unit.show_interval(*(self.judge.interval(cell, name) or (None, None))),
            delta=difference_text(found, unit),
            mark=mark,
            notes=notes.numbers(tuple(remarks(found, unit))),
            worse=mark == "worse" if mark else None,
        )

    def _caption(self, unit: Unit) -> Iterator[str]:
        measured = self.results.plan.measured(self.task, self.metric)
        yield (
            f"{capitalized(spoken(self.metric))}{' in percent' if unit.sign else ''} on the"
            f" {'test' if self.split == 'test' else 'development'} set."
            f"{LOWER if measured.better == 'lower' else ''}"
        )
        if not measured.declared:
            yield f"{capitalized(UNDECLARED)}."
        params = self.results.task_params.get(self.task, {})
        selection = params.get("selection")
        if self.split == "dev" and selection not in (None, "last"):
            yield (
                f"The same set chose the checkpoint (selection: {selection}), so these values are"
                " optimistic."
            )
        if selection == "target-dev":
            yield (
                "The checkpoint was chosen on each target language's dev set: these are not"
                " zero-shot results."
            )
        if self.few:
            yield f"Over fewer than {FEW} pairs in every language: too few for a conclusion."
