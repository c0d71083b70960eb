"""What more data would bring, and what a method is worth in data of another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import final

from raxalign.lazy import np
from raxalign.report.document import Entry, Line, Part, Share, Table, TableNotes, caption
from raxalign.report.drawing import Panel, Series, Sketch
from raxalign.report.sections.base import Section
from raxalign.values.curves import Crossing, SizeCurves

_DRAWN = 33  # points of a drawn curve


@final
class Worth(Section):
    """Curves over the number of sentence pairs, for grids with three sizes or more: where those of
    two methods cross, a figure with a panel per task, and a table per task of what four times the
    data would bring and of how many pairs of each method the others are worth.
    """

    VERSION = 2
    place = 32

    def share(self) -> Share | None:
        """Return the figure and the tables; None where nothing has enough sizes."""
        crossed = [list(one.crossings(self._shown(one)[0])) for one in self.fitted]
        both = list(zip(self.fitted, crossed, strict=True))
        told = " ".join(told for one, own in both for told in self._crossings(one, own))
        left = any(one.ahead(method)[1] is None for one in self.fitted for method in one.shown)
        about = caption("fitted", crossed=bool(told), left=left)
        title = "Fitted curves over the number of sentence pairs"
        sketch = Sketch("fitted-curves", title, about, [self._panel(*one) for one in both])
        part = Part("data", "What more data would bring", told)
        return self.one_part(part, [sketch], map(self._table, self.fitted))

    @cached_property
    def fitted(self) -> list[SizeCurves]:
        """The curves of each task's leading table that has some."""
        ledger = self.material.ledger
        if ledger is None:
            return []
        tables = self.results.leading_tables()
        found = (SizeCurves.of(self.results, ledger, table) for table in tables)
        return [one for one in found if one is not None]

    def _shown(self, found: SizeCurves, *others: str) -> tuple[list[str], str]:
        """Those of the methods with points, and of others, that there is room for, and what the
        caption says of the rest and of other encoders.
        """
        lines = {method: found.sizes.get(method, {}) for method in (*found.sizes, *others)}
        methods, some = self.fitting_curves(lines, found.table)
        return methods, some + self.of_encoder([c for m in methods for c in lines[m].values()])

    def _crossings(self, found: SizeCurves, crossed: Sequence[Crossing]) -> Iterator[str]:
        """Yield where the curves of two methods cross, and which is better on which side."""
        task, metric, _ = found.table
        higher = self.results.plan.measured(task, metric).sign > 0
        where = f"At {self.results.titled(task)} the" if len(self.fitted) > 1 else "The"
        for lower, upper, at, extrapolated in crossed:
            beyond = ", which is extrapolated" if extrapolated else ""
            cross = f"{where} curves of {lower} and {upper}{found.on(self.results)} cross at"
            sides = at.sides(lower, upper) if higher else at.sides(upper, lower)
            yield f"{cross} {at.as_size('pairs')}{beyond}: {sides}."

    def _panel(self, found: SizeCurves, crossed: Sequence[Crossing]) -> Panel:
        """The means with their intervals, and the curves with theirs, up to `SizeCurves.AHEAD`
        times the largest size, as far as they stay within the range of the metric.
        """
        task, metric, _ = found.table
        scale, series = self.results.unit(task, metric).scale, list[Series]()
        methods, some = self._shown(found)
        ticks: set[int] = set()
        for colour, method in enumerate(methods):
            cells = found.sizes[method]
            names = {size: cell.compared_mean(*found.table) for size, cell in cells.items()}
            means = [scale * found.curves.curves[method].means[k] for k in range(len(cells))]
            ends = [self.results.ends(cell, names[size], scale) for size, cell in cells.items()]
            known = method in found.shown
            label = method if known else f"{method} (no curve)"
            points = Series(label, list(cells), means, ends=ends, look="dots", colour=colour)
            series.append(points)
            (last, ahead), ticks = found.ahead(method), ticks | {*cells}
            if known:
                own = [one.at.value for one in crossed if method in (one.lower, one.upper)]
                low, high = found.curves.curves[method].within
                xs = np.geomspace(max(min([*cells, *own]), low), min(last, high), _DRAWN).tolist()
                at = list(filter(None, (found.curves.at(method, x) for x in xs)))
                band = [(scale * (one.low or 0.0), scale * (one.high or 0.0)) for one in at]
                ys = [scale * one.value for one in at]
                series.append(Series("", xs, ys, band=band, look="curve", colour=colour))
                ticks |= {last} if ahead else set()
        if crossed:
            xs, curves = [one.at.value for one in crossed], found.curves.curves
            ys = [scale * curves[one.lower].at(one.at.value) for one in crossed]
            low, high = min(ticks) / SizeCurves.AHEAD, max(ticks)
            spans = [(one.at.low or low, one.at.high or high) for one in crossed]
            series.append(Series("crossing", xs, ys, x_ends=spans, look="crossing"))
        basis = self.results.basis(task, [c for m in methods for c in found.sizes[m].values()])
        basis += f",{on}" if (on := found.on(self.results)) else ""
        y, x = self.results.axis(task, metric), "sentence pairs per language"
        return Panel(basis, x, y, series, log=True, ticks=sorted(ticks), said=some)

    def _table(self, found: SizeCurves) -> Table:
        """The table of a task: a line per method."""
        notes, (methods, some) = TableNotes(), self._shown(found, *found.refused)
        others = [method for method in methods if method in found.shown]
        others = others if len(others) > 1 else []
        columns = (f"{method} with {max(found.sizes[method]):,}" for method in others)
        task, on = self.results.titled(found.table[0]), found.on(self.results)
        title = f"{task}: what data is worth{on}"
        ahead = f"{SizeCurves.AHEAD} times as many"
        lines = tuple(self._lines(found, methods, others, notes))
        at = (found.curves.at(method, max(found.sizes[method])) for method in found.shown)
        about = caption("worth", wide=any(one is not None and one.wide for one in at)) + some
        return notes.on(Table("", title, ("largest", ahead, *columns), lines, about))

    def _lines(
        self, found: SizeCurves, methods: list[str], others: list[str], notes: TableNotes
    ) -> Iterator[Line]:
        unit = self.results.unit(*found.table[:2])

        def of_new(low: float | None, high: float | None) -> str:
            return f", new languages: {unit.show_interval(low, high)}"

        for method in methods:
            if method in found.refused:
                why = notes.number(f"No curve: {found.refused[method]}.")
                empty = (Entry.EMPTY,) * (2 + len(others))
                yield Line(method, empty, notes=(why,))
                continue
            largest = max(found.sizes[method])
            size, ahead = found.ahead(method)
            values = [
                Entry.EMPTY
                if one is None
                else Entry(
                    unit.show(one.value),
                    unit.show_interval(one.low, one.high),
                    below=f"{n:,} pairs{of_new(*one.wide) if one.wide else ''}",
                )
                for n, one in ((largest, found.curves.at(method, largest)), (size, ahead))
            ]
            left = found.curves.curves[method].leaves(size)
            own = (notes.number(f"No value: {left}."),) if left else ()
            worths = {name: estimate for name, _, estimate in found.worths(method)}
            cells = [
                Entry.EMPTY if other not in worths else Entry(worths[other].as_size())
                for other in others
            ]
            yield Line(method, (*values, *cells), notes=own)
