"""The grid's own tables: methods by languages for every task and metric, with their tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.measured import spoken
from raxalign.plan.names import base_names
from raxalign.plan.values.comparisons import baseline_cells
from raxalign.report.cells.judge import difference_text, remarks
from raxalign.report.cells.names import capitalized, in_columns, named, under
from raxalign.report.cells.numbers import FEW, LOWER, UNDECLARED
from raxalign.report.cells.results import UNTOUCHED, TableKey, why_untouched
from raxalign.report.document import Entry, Line, Part, Share, Table, TableNotes, with_notes
from raxalign.report.sections.base import Section

_NOTHING = "nothing is compared and nothing is marked."


@final
class OwnTables(Section):
    """A table per task and metric: a line per point of the grid, a column per language.

    The table of the first task's main metric is open, the others are folded.
    """

    VERSION = 1
    place = 20

    def share(self) -> Share | None:
        """Return every table of the grid; None without results."""
        results = self.results
        if not results.cells:
            return None
        first = next(iter(results.leading_tables()), None)
        made = tuple(self._table(table, folded=table != first) for table in results.tables)
        lead = f"One line per point of the grid. {self._against()}"
        return Share((Part("grid", "The grid's own tables", lead, made),))

    def _against(self) -> str:
        """What the values are compared with."""
        results, judged = self.results, self.judge.compared
        pairs = [(entry.cell, entry.baseline) for entry in judged if entry.baseline]
        names = base_names(pairs, results.plan)
        if names:
            return (
                "Under each value: its 95 % interval, and its difference to the baseline"
                f" ({', '.join(names)}, on the same encoder) with the interval of the difference."
            )
        if baseline_cells(results.cells, results.plan):
            return f"No method next to the baseline has results: {_NOTHING}"
        return f"The grid has no baseline (a method of kind none): {_NOTHING}"

    def _table(self, table: TableKey, *, folded: bool) -> Table:
        """The table with its marks, notes and caption."""
        results, notes, lines = self.results, TableNotes(), []
        task, metric, split = table
        names, few = results.names_of(table), results.few(table)
        for cell in results.cells:
            reason = why_untouched(results.plan, cell, task)
            if reason is not None:
                note = (notes.number(reason),)
                entries = (Entry(UNTOUCHED, notes=note, state="absent"),) * len(names)
            elif any(name in cell.values for name in names):
                entries = tuple(self._entry(cell, name, notes, few=few) for name in names)
            else:
                continue
            lines.append(Line(named(cell, results.plan), entries, under(results, cell, table)))
        made = Table(
            f"grid-{task}-{metric}-{split}",
            f"{task}: {spoken(metric)}",
            tuple(in_columns(name[1], results.unseen) for name in names),
            tuple(lines),
            " ".join(self._caption(table, few=few)),
            folded=folded,
        )
        return with_notes(made, notes.texts)

    def _entry(self, cell: Cell, name: Name, notes: TableNotes, *, few: bool) -> Entry:
        """A value with what is known of it; over too few pairs nothing is marked."""
        judge, unit = self.judge, self.results.unit(name[0], name[2])
        value, found = cell.values.get(name), judge.of(cell, name)
        if value is None and cell.set and name[1] in MEANS:
            return Entry("–", state="empty")
        if value is None:
            return Entry("not run", state="absent")
        if found is None:
            return Entry(unit.show(value.mean))
        mark = "" if few else judge.mark(cell, name)
        return Entry(
            unit.show(value.mean),
            judge.shown(cell, name, unit),
            delta=difference_text(found, unit),
            mark=mark,
            notes=notes.numbers(remarks(found, unit)),
            worse=mark == "worse" if mark else None,
        )

    def _caption(self, table: TableKey, *, few: bool) -> Iterator[str]:
        results, (task, metric, split) = self.results, table
        measured = results.plan.measured(task, metric)
        yield (
            f"{capitalized(spoken(metric))}{' in percent' if measured.unit == 'share' else ''} on"
            f" the {'test' if split == 'test' else 'development'} set."
            f"{LOWER if measured.better == 'lower' else ''}"
        )
        if not measured.declared:
            yield f"{capitalized(UNDECLARED)}."
        selection = results.task_params.get(task, {}).get("selection")
        if split == "dev" and selection not in (None, "last"):
            yield (
                f"The same set chose the checkpoint (selection: {selection}), so these values are"
                " optimistic."
            )
        if selection == "target-dev":
            yield (
                "The checkpoint was chosen on each target language's dev set: these are not"
                " zero-shot results."
            )
        if few:
            yield f"Over fewer than {FEW} pairs in every language: too few for a conclusion."
