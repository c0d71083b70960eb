"""Scores over the number of sentence pairs, over a numeric param of a method, and of encoders."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from raxalign.analysis.cells import Cell, Name, Value
from raxalign.plan.values.comparisons import baseline_cells
from raxalign.plan.values.scoreboard import TableKey
from raxalign.report.document import Part, Share, caption
from raxalign.report.drawing import Ends, Panel, Series, Sketch
from raxalign.report.sections.base import Section

_SIZE = re.compile(r" ?\bmax_sentences=(\d+)")
_SEED = re.compile(r" ?\bseed=\d+")


@final
class Curves(Section):
    """A figure with a panel per task: a curve per method that was run at several sizes; a figure
    per method and numeric param of several values: test and dev over its values; and one per task
    with a dot per encoder and language, in grids with several encoders.
    """

    VERSION = 1
    place = 30

    def share(self) -> Share | None:
        """Return the figures; None where the grid varies no size, numeric param or encoder."""
        results = self.results
        about = caption("by_size") + self.of_methods(self.MOST_CURVES)
        title = "Learning curves over the number of sentence pairs"
        sketches = [Sketch("data-size", title, about, self.size_panels())]
        for method, axis in self.numeric_axes():
            panels, title = self.axis_panels(method, axis), f"{method}: {self.results.symbol(axis)}"
            sketches.append(Sketch(f"curve-{method}-{axis}", title, caption("by_param"), panels))
        for task in results.tasks:
            panels, title = self.encoder_panels(task), f"{results.titled(task)}: encoders"
            sketches.append(Sketch(f"encoders-{task}", title, caption("by_encoder"), panels))
        return self.one_part(Part("figures", "Figures"), sketches)

    def _measures(self) -> list[tuple[str, str]]:
        """The (task, main metric) of the tasks that have one."""
        main = self.results.main_metric
        return [(task, metric) for task in self.results.tasks if (metric := main(task))]

    def _curve(self, points: Mapping[float, Cell], table: TableKey, **look: Any) -> Series:
        """The curve of the means of some cells over languages, each at its place."""
        xs, means, ends = sorted(points), list[float](), list[Ends]()
        scale = self.results.unit(*table[:2]).scale
        for x in xs:
            value = points[x].mean(*table)
            means.append(math.nan if value is None else scale * value.mean)
            ends.append(self.results.ends(points[x], points[x].mean_name(*table), scale))
        return Series(x=xs, y=means, ends=ends, **look)

    def _level(self, task: str, metric: str) -> list[Series]:
        """The baseline as a horizontal line; nothing where the grid has no value of it."""
        results, base = self.results, self.results.baseline(task, metric)
        value = base.mean(task, metric, results.split(task)) if base is not None else None
        if base is None or value is None:
            return []
        scaled = results.unit(task, metric).scale * value.mean
        return [Series(base.method, (), [scaled], look="level", colour=7)]

    def size_panels(self) -> list[Panel]:
        """Return a panel per task: curves of methods that were run at several sizes."""
        panels = []
        for task, metric in self._measures():
            if curves := self._size_curves(task, metric):
                title, x = self.results.titled(task), "sentence pairs per language"
                series, y = [*curves, *self._level(task, metric)], self._axis(task, metric)
                ticks = sorted({size for curve in curves for size in curve.x})
                panels.append(Panel(title, x, y, series, log=True, ticks=ticks))
        return panels

    def _axis(self, task: str, metric: str) -> str:
        return self.results.axis(task, metric)

    def _size_curves(self, task: str, metric: str) -> list[Series]:
        """At most `MOST_CURVES` curves of several sizes, those with the best values on dev."""
        results = self.results
        lines: dict[str, dict[float, Cell]] = defaultdict(dict)
        ranks: dict[str, float] = defaultdict(lambda: -math.inf)
        for cell in self._some(task, metric):
            if cell.sentences is not None:
                name = self._label(cell)
                lines[name][cell.sentences] = cell
                ranks[name] = max(ranks[name], results.dev_of(cell, task, metric))
        several = [name for name, points in lines.items() if len(points) > 1]
        best = sorted(several, key=lambda name: -ranks[name])[: self.MOST_CURVES]
        places = list(dict.fromkeys(map(self._label, results.cells)))
        table = (task, metric, results.split(task))
        return [
            self._curve(lines[name], table, label=name, colour=places.index(name))
            for name in lines
            if name in best
        ]

    def _some(self, task: str, metric: str) -> Sequence[Cell]:
        """All cells; of too many, of each method those of the point that dev chooses."""
        cells = self.results.measured_cells(task, metric)
        if len(set(map(self._label, cells))) <= self.MOST_CURVES:
            return cells
        best: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for cell in cells:
            rank = self.results.dev_of(cell, task, metric)
            best[cell.method, cell.encoder][self._label(cell)] += rank
        kept = {max(points, key=lambda name: points[name]) for points in best.values()}
        return [cell for cell in cells if self._label(cell) in kept]

    def _label(self, cell: Cell) -> str:
        name = self.results.named(cell)
        return f"{name} [{cell.encoder}]" if self.results.several_encoders else name

    def numeric_axes(self) -> Iterator[tuple[str, str]]:
        """Yield the (method, param) of the grid that has several values, all of them numbers."""
        plan = self.results.plan
        searched = {study.method for study in plan.studies}  # their points lie in no line
        for method, axes in plan.axes.items():
            cells = [cell for cell in self.results.cells if cell.method == method]
            for axis in axes if method not in searched else ():
                values = {_number(cell, axis) for cell in cells}
                if len(values) > 1 and None not in values:
                    yield method, axis

    def axis_panels(self, method: str, axis: str) -> list[Panel]:
        """Return a panel per task: test and dev over the values of a numeric param; encoder and
        other params are those of the best point on dev.
        """
        every = [cell for cell in self.results.cells if cell.method == method]
        own = {id(c): (c, x) for c in every if (x := _number(c, axis)) is not None}
        largest = max((cell.sentences or 0 for cell, _ in own.values()), default=0)
        cells = [cell for cell, _ in own.values() if (cell.sentences or 0) == largest]
        panels: list[Panel] = []
        for task, metric in self._measures() if cells else ():
            line, others = self._one_line(cells, axis, (task, metric))
            curves = []
            for split, look in (("test", "line"), ("dev", "dashed")):
                table = (task, metric, split)
                points = {own[id(cell)][1]: cell for cell in line if cell.mean(*table)}
                if len(points) > 1:
                    curves.append(self._curve(points, table, label=split, look=look, colour=1))
            if curves:
                xs = [float(x) for x in curves[0].x]
                title, y = f"{self.results.titled(task)}{others}", self._axis(task, metric)
                series = [*curves, *self._level(task, metric)]
                log, ticks = min(xs) > 0 and max(xs) / min(xs) >= 8, xs if len(xs) <= 7 else ()
                panels.append(
                    Panel(title, self.results.symbol(axis), y, series, log=log, ticks=ticks)
                )
        return panels

    def _one_line(
        self, cells: Sequence[Cell], axis: str, measure: tuple[str, str]
    ) -> tuple[list[Cell], str]:
        """Of cells that differ in more than an axis, those of one line along it that has several
        points, the one with the best value on dev; and what else varies among the lines, as it is
        in this one.
        """
        lines: dict[str, list[Cell]] = defaultdict(list)
        for cell in cells:
            rest = {name: value for name, value in cell.params.items() if name != axis}
            lines[json.dumps({"encoder": cell.encoder, **rest}, sort_keys=True)].append(cell)

        def rank(line: str) -> tuple[bool, float]:
            dev = max(self.results.dev_of(cell, *measure) for cell in lines[line])
            return len(lines[line]) > 1, dev

        best = max(lines, key=rank)
        every = [json.loads(line) for line in lines]
        varying = [
            f"{name}={value}"
            for name, value in json.loads(best).items()
            if any(other.get(name) != value for other in every)
        ]
        return lines[best], f" ({', '.join(varying)})" if varying else ""

    def encoder_panels(self, task: str) -> list[Panel]:
        """Return a panel per size of the encoders' training text that has several encoders: the
        main metric of each encoder in each language.
        """
        results = self.results
        table = (task, results.main_metric(task) or "", results.split(task))
        langs, scale = results.transferred(table), results.unit(*table[:2]).scale
        names = [(task, lang, *table[1:]) for lang in langs]
        bases = baseline_cells(results.cells, results.plan)
        cells = [cell for cell in bases if any(name in cell.values for name in names)]
        sizes = {id(c): int(m[1]) if (m := _SIZE.search(c.encoder)) else None for c in cells}
        labels = {id(cell): _SEED.sub("", _SIZE.sub("", cell.encoder)) for cell in cells}
        colours = list(dict.fromkeys(labels.values()))
        panels = []
        for size in sorted(set(sizes.values()) - {None}, key=lambda n: n or 0) or [None]:
            alike: dict[str, list[Cell]] = defaultdict(list)  # apart from their training's seed
            for cell in cells:
                if sizes[id(cell)] in (size, None):
                    alike[labels[id(cell)]].append(cell)
            dots = []
            for label, found in alike.items():
                means, ends = zip(*(self._mean(found, name, scale) for name in names), strict=True)
                dots.append(Series(label, (), means, ends, "dots", colours.index(label)))
            title = "" if size is None else f"{size:,} sentences per language"
            if len(dots) > 1:
                panels.append(Panel(title, "", self._axis(*table[:2]), dots, langs))
        return panels

    def _mean(self, cells: Sequence[Cell], name: Name, scale: float) -> tuple[float, Ends]:
        """The mean of a value over encoders that are alike (NaN: none has it), and its interval."""
        there = [cell for cell in cells if name in cell.values]
        if not there:
            return math.nan, None
        over, alone = Value.of([cell.values[name].mean for cell in there]), len(there) == 1
        ends = self.results.ends(there[0], name, scale) if alone else over.ends(scale)
        return scale * over.mean, ends


def _number(cell: Cell, axis: str) -> float | None:
    value = cell.params.get(axis)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
