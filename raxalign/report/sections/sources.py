"""Tasks that are trained on several languages in turn: which language to train on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import groupby, starmap
from typing import final

from raxalign.analysis.significance import ContrastTest
from raxalign.report.document import Entry, Line, Part, Share, Table, caption
from raxalign.report.sections.base import Section
from raxalign.values.numbers import NumberFormat
from raxalign.values.sources import SourceMatrix

_MEAN = "avg_zero_shot"


@final
class Sources(Section):
    """For tasks with `train_on`: a matrix of sources and targets per task and method, with the best
    source of each target and the regret of always using one; and a table per task of the rank
    correlations of measures without labels with transfer.
    """

    VERSION = 2
    place = 28

    def share(self) -> Share | None:
        """Return the tables; None where no task is trained on several languages."""
        part = Part("sources", "Which language to train on")
        return self.one_part(part, tables=[*starmap(self._matrix, self.found), *self._predictors()])

    @cached_property
    def found(self) -> list[tuple[SourceMatrix, str]]:
        """The matrices, those of one task one after the other, and what captions say of others."""
        found = []
        every = SourceMatrix.of(self.results, self.material.ledger)
        for table, own in groupby(every, key=lambda matrix: matrix.table):
            cells, some = self.cells_of(table[0], table[1], self.MOST_METHODS)
            found += [(one, some) for one in own if any(one.cell is cell for cell in cells)]
        return found

    def _matrix(self, found: SourceMatrix, some: str) -> Table:
        results, unit = self.results, self.results.unit(*found.table[:2])
        columns = (*map(results.column, [*found.targets, _MEAN]), "regret")
        lines = [self._line(found, source, unit) for source in found.tasks]
        chosen = "dev" if found.chosen_by == "dev" else f"{found.chosen_by} itself"
        best = [Entry(found.best[t]) if t in found.best else Entry.EMPTY for t in found.targets]
        empty = (Entry.EMPTY, Entry.EMPTY)
        lines.append(Line("best source", (*best, *empty), sub=f"by {chosen}"))
        for source in {results.plan.pivot} & {*found.tasks} or found.tasks:
            each = [_regret(found.regret(source, [t]), unit) for t in found.targets]
            lines.append(Line(f"regret of always {source}", (*each, *empty)))
        about = caption("sources", by=chosen) + some
        label = f"{found.name} by source, {results.named(found.cell)}"
        basis = results.basis(found.table[0], [found.cell])
        about = f"{basis.replace(found.table[0], found.name, 1)}. {about}"
        return Table("", label, columns, tuple(lines), about, corner="trained on")

    def _line(self, found: SourceMatrix, source: str, unit: NumberFormat) -> Line:
        """The values from one source."""
        entries = []
        for target in (*found.targets, _MEAN):
            name = found.at(source, target)
            value = found.cell.values.get(name)
            if value is None:
                entries.append(Entry.EMPTY)
                continue
            text, own = unit.show(value.mean), "trained on" if target == source else ""
            entries.append(Entry(text, self.results.shown(found.cell, name, unit), below=own))
        return Line(source, (*entries, _regret(found.regret(source), unit)))

    def _predictors(self) -> Iterator[Table]:
        """A table per task: measures, and the methods whose values they are of."""
        for name, some in dict.fromkeys((found.name, some) for found, some in self.found):
            own = [found for found, _ in self.found if found.name == name]
            lines = []
            for measure in own[0].measures():
                label = f"{measure[0]}: {self.results.axis(*measure[:2])}"
                entries = tuple(_correlation(found, measure) for found in own)
                if any(entry.state == "value" for entry in entries):
                    lines.append(Line(label, entries))
            columns = tuple(self.results.named(found.cell) for found in own)
            if lines:
                title = f"{name}: what predicts transfer without labels"
                about = caption("predictors") + some
                yield Table("", title, columns, tuple(lines), about, corner="measure")


def _regret(found: ContrastTest | None, unit: NumberFormat) -> Entry:
    if found is None:
        return Entry.EMPTY
    if found.runs == ():
        return Entry("0", below="the best")
    return Entry(unit.show_difference(found.value), unit.show_interval(found.low, found.high))


def _correlation(found: SourceMatrix, measure: tuple[str, str, str]) -> Entry:
    predicted = found.predicted(measure)
    if predicted is None:
        return Entry.EMPTY
    rho, ends, n = predicted
    shown = [NumberFormat.number(value, 2) for value in (rho, *(ends or ()))]
    without = f"{' to '.join(shown[1:])}, " if ends else ""
    return Entry(f"ρ = {shown[0]}", below=f"{without}n = {n}")
