"""What each search chose on development sets, and what fresh seeds say about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from raxalign.analysis.cells import Cell
from raxalign.grid.estimates import duration
from raxalign.grid.study import Study, StudyRecord, Tried
from raxalign.grid.trial import plain
from raxalign.report.document import Entry, Line, Part, Share, Table, caption
from raxalign.report.sections.base import Section
from raxalign.search.words import SearchReport
from raxalign.values.numbers import NumberFormat
from raxalign.values.results import rows

_COLUMNS = ("dev", "dev, fresh seeds", "test, fresh seeds", "trials", "worker time")


@final
class Searches(Section):
    """A table of what each search chose."""

    VERSION = 3
    place = 55

    def share(self) -> Share | None:
        """Return the table; None for a grid without a search that has scores."""
        plan, storage = self.material.plan, self.material.storage
        if storage is None:
            return None
        searches = SearchReport(plan, storage)
        seen = [(study, searches.measured(study)) for study in plan.studies]
        lines = [line for study, record in seen for line in self._lines(study, record)]
        if not lines:
            return None
        metrics = dict.fromkeys(
            f"{study.objective.name}{' (lower is better)' if study.objective.lower else ''}"
            for study, record in seen
            if record.done
        )
        about = caption("search_table", metrics=metrics)
        title, corner = "Chosen by search", "chosen configuration"
        table = Table("searches", title, _COLUMNS, tuple(lines), about, corner=corner)
        return Share((Part("searches", "Searches", caption("searches"), (table,)),))

    def _lines(self, study: Study, record: StudyRecord) -> Iterator[Line]:
        """Yield the line of the chosen point of a study that has one."""
        chosen = record.chosen
        if chosen is None or chosen.score is None:
            return
        objective, done = study.objective, record.done
        declared = self.material.plan.measured(objective.task, objective.metric)
        unit = NumberFormat.of(declared, (entry.score for entry in done if entry.score is not None))
        taken = sum(entry.measured for entry in done)
        failed = sum(entry.state == "failed" for entry in record.tried)
        count = [f"{len(done)}"]
        count += [f"{taken} of them from earlier grids"] if taken else []
        count += [f"{failed} more failed"] if failed else []
        count += [f"{len(record.pruned)} more pruned"] if record.pruned else []
        count += [] if record.finished else ["not finished"]
        shown = (
            Entry(unit.show(chosen.score)),
            self._fresh(study, chosen, unit, "dev"),
            self._fresh(study, chosen, unit, "test"),
            Entry(", ".join(count)),
            Entry(duration(sum(entry.seconds or 0.0 for entry in record.tried))),
        )
        values = (
            f"{self.results.symbol(name)}={plain(value)}" for name, value in chosen.values.items()
        )
        group = f"{'+'.join(study.languages)}, {study.sentences:,} pairs"
        yield Line(f"{study.method} {' '.join(values)}", shown, group)

    def _fresh(self, study: Study, entry: Tried, unit: NumberFormat, split: str) -> Entry:
        """Return the score of the runs that confirm a point, with its interval."""
        cell, objective = self._confirming(study, entry), study.objective
        if cell is None:
            return Entry("not run", state="empty")
        name = (objective.task, objective.lang, objective.metric, split)
        if name not in cell.values:
            return Entry(f"no {split} values")
        return Entry(unit.show(cell.values[name].mean), self.results.shown(cell, name, unit))

    def _confirming(self, study: Study, entry: Tried) -> Cell | None:
        """Return the cell of the runs that confirm a point. Two studies of one method may choose
        the same values: their runs share a cell of the grid, and are taken apart here.
        """
        plan, ledger, storage = self.material.plan, self.material.ledger, self.material.storage
        keys = SearchReport(plan, storage).confirming(study, entry) if storage else set[str]()
        cell = next((cell for cell in self.results.cells if keys & set(cell.trials)), None)
        if cell is None or keys >= set(cell.trials) or ledger is None:
            return cell
        own = plan.only(plan.by_key[key] for key in sorted(keys))
        return next(iter(Cell.grouped(rows(own, ledger), plan.pivot, plan.measured)), None)
