"""The grid's own tables: methods by languages for every task and metric, with their tests."""

from __future__ import annotations

from dataclasses import replace
from typing import final

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.measured import FEW, spoken
from raxalign.report.document import Entry, Line, Part, Share, Table, TableNotes, caption
from raxalign.report.sections.base import Section
from raxalign.values.scoreboard import UNTOUCHED, TableKey, why_uncompared, why_untouched


@final
class OwnTables(Section):
    """A table per task and metric: a line per configuration of the grid, a column per language.

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
        pairs = [(entry.cell, entry.baseline) for entry in self.results.compared if entry.baseline]
        why = why_uncompared(results.plan, results.cells)
        lead = caption("own_tables", names=results.plan.base_names(pairs), why=why)
        return Share((Part("grid", "The grid's own tables", lead, made),))

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
            lines.append(Line(results.named(cell), entries, self.under(cell, table)))
        made = Table(
            f"grid-{task}-{metric}-{split}",
            f"{task}: {spoken(metric)}",
            tuple(results.column(name[1]) for name in names),
            tuple(lines),
            self._caption(table, few=few),
            folded=folded,
        )
        return notes.on(made)

    def _entry(self, cell: Cell, name: Name, notes: TableNotes, *, few: bool) -> Entry:
        """A value with what is known of it; over too few pairs nothing is marked."""
        results, unit = self.results, self.results.unit(name[0], name[2])
        value, found = cell.values.get(name), results.at(cell, name)
        if value is None and cell.set and name[1] in MEANS:
            return Entry("–", state="empty")
        if value is None:
            lang = name[1].removesuffix(f"-{self.results.plan.pivot}")
            failed = (t for t in results.lacking.failed if lang in t.languages)
            facts = ((t.method, t.params, t.encoder, t.sentences) for t in failed)
            there = any(Cell.key_of(*of) == cell.key for of in facts)
            return Entry("failed" if there else "not run", state="absent")
        entry = self.entry(cell, name)
        entry = replace(entry, mark="", worse=None) if few else entry
        return replace(entry, notes=notes.numbers(found.remarks(unit))) if found else entry

    def _caption(self, table: TableKey, *, few: bool) -> str:
        results, (task, metric, split) = self.results, table
        return caption(
            "own_table",
            metric=spoken(metric),
            measured=results.plan.measured(task, metric),
            split=split,
            selection=results.task_params.get(task, {}).get("selection"),
            few=FEW if few else 0,
        )
