"""Scores over the number of sentence pairs, over one numeric param of a method, and of several
encoders.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import final

from raxalign.analysis.cells import Cell
from raxalign.report.cells.choice import dev_of, measured_cells, of_methods, titled, value_of
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.names import named, symbol
from raxalign.report.cells.results import Results, TableKey
from raxalign.report.document import Part, Share
from raxalign.report.figures.curves import INTERVALS, LEVEL, MOST_CURVES, axis_of, levels
from raxalign.report.figures.drawing import drawn
from raxalign.report.figures.encoder_dots import encoder_sketches
from raxalign.report.figures.panels import Curve, Ends, Panel, Sketch
from raxalign.report.sections.base import Section

_CAPTION = (
    "Mean over languages, largest training set, other options as dev chooses them. Filled:"
    f" test; hollow, dashed: dev, on which a value is to be chosen. {INTERVALS} {LEVEL}"
)


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
        results, judge = self.material.results, self.material.judge
        caption = f"Mean over languages. {INTERVALS} {LEVEL}{of_methods(results, MOST_CURVES)}"
        title = "Learning curves over the number of sentence pairs"
        sketches = [Sketch("data-size", title, caption, size_panels(results, judge))]
        for method, axis in numeric_axes(results):
            panels = axis_panels(results, judge, method, axis)
            title = f"{method}: {symbol(axis)}"
            sketches.append(Sketch(f"curve-{method}-{axis}", title, _CAPTION, panels))
        sketches += encoder_sketches(results, judge)
        figures = drawn(sketches, self.material.figures)
        return Part("figures", "Figures", figures=figures).alone()


def _curve(
    judge: Judge, points: dict[float, Cell], table: TableKey, scale: float, **look: object
) -> Curve:
    """The curve of the means of some cells over languages, each at its place."""
    xs, means, ends = sorted(points), list[float](), list[Ends]()
    for x in xs:
        value = value_of(points[x], *table)
        means.append(math.nan if value is None else scale * value.mean)
        ends.append(judge.ends_of_mean(points[x], *table, scale=scale))
    return Curve(x=xs, y=means, ends=ends, **look)  # type: ignore[arg-type]


def size_panels(results: Results, judge: Judge) -> list[Panel]:
    """Return one panel per task: curves of methods that were run at several sizes."""
    panels = []
    for task in results.tasks:
        metric = results.main_metric(task)
        curves = _size_curves(results, judge, task, metric) if metric is not None else []
        if metric is not None and curves:
            panels.append(
                Panel(
                    titled(results, task),
                    "sentence pairs per language",
                    axis_of(results, task, metric),
                    [*curves, *levels(results, task, metric)],
                    log=True,
                    ticks=sorted({size for curve in curves for size in curve.x}),
                )
            )
    return panels


def _size_curves(results: Results, judge: Judge, task: str, metric: str) -> list[Curve]:
    """At most `MOST_CURVES` curves of several sizes, those with the best values on dev."""
    lines: dict[str, dict[float, Cell]] = defaultdict(dict)
    ranks: dict[str, float] = defaultdict(lambda: -math.inf)
    for cell in _some(results, task, metric):
        if cell.sentences is not None:
            name = _label(results, cell)
            lines[name][cell.sentences] = cell
            ranks[name] = max(ranks[name], dev_of(results, cell, task, metric))
    several = [name for name, points in lines.items() if len(points) > 1]
    best = sorted(several, key=lambda name: -ranks[name])[:MOST_CURVES]
    places = list(dict.fromkeys(_label(results, cell) for cell in results.cells))
    table, scale = (task, metric, results.split(task)), results.unit(task, metric).scale
    return [
        _curve(judge, lines[name], table, scale, label=name, colour=places.index(name))
        for name in lines
        if name in best
    ]


def _some(results: Results, task: str, metric: str) -> Sequence[Cell]:
    """All cells, or where they make too many curves, for each method and encoder those of the
    point that dev chooses.
    """
    cells = measured_cells(results, task, metric)
    if len({_label(results, cell) for cell in cells}) <= MOST_CURVES:
        return cells
    best: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for cell in cells:
        rank = dev_of(results, cell, task, metric)
        best[cell.method, cell.encoder][_label(results, cell)] += rank
    kept = {max(points, key=lambda name: points[name]) for points in best.values()}
    return [cell for cell in cells if _label(results, cell) in kept]


def _label(results: Results, cell: Cell) -> str:
    name = named(cell, results.plan)
    return f"{name} [{cell.encoder}]" if results.several_encoders else name


def numeric_axes(results: Results) -> Iterator[tuple[str, str]]:
    """Yield the (method, param) of the grid that has several values, all of them numbers."""
    searched = {study.method for study in results.plan.studies}  # their points lie in no line
    for method, axes in results.plan.axes.items():
        cells = [cell for cell in results.cells if cell.method == method]
        for axis in axes if method not in searched else ():
            values = {_number(cell, axis) for cell in cells}
            if len(values) > 1 and None not in values:
                yield method, axis


def axis_panels(results: Results, judge: Judge, method: str, axis: str) -> list[Panel]:
    """Return one panel per task: test and dev over the values of one numeric param; encoder and
    other params are those of the best point on dev.
    """
    own = [cell for cell in results.cells if cell.method == method]
    cells = [cell for cell in own if _number(cell, axis) is not None]
    largest = max((cell.sentences or 0 for cell in cells), default=0)
    cells = [cell for cell in cells if (cell.sentences or 0) == largest]
    panels: list[Panel] = []
    for task in results.tasks:
        metric = results.main_metric(task)
        if metric is not None and cells:
            line, others = _one_line(results, cells, axis, (task, metric))
            curves = _axis_curves(results, judge, line, (task, metric), axis)
            if curves:
                xs = [float(x) for x in curves[0].x]
                panels.append(
                    Panel(
                        f"{titled(results, task)}{others}",
                        symbol(axis),
                        axis_of(results, task, metric),
                        [*curves, *levels(results, task, metric)],
                        log=min(xs) > 0 and max(xs) / min(xs) >= 8,
                        ticks=xs if len(xs) <= 7 else (),
                    )
                )
    return panels


def _axis_curves(
    results: Results, judge: Judge, line: Sequence[Cell], measure: tuple[str, str], axis: str
) -> list[Curve]:
    """Test and dev, where they have several points; what is shown of dev next to test has no
    intervals.
    """
    curves = []
    for split, dashed in (("test", False), ("dev", True)):
        points = {
            x: cell
            for cell in line
            if (x := _number(cell, axis)) is not None and value_of(cell, *measure, split)
        }
        if len(points) > 1:
            scale, table = results.unit(*measure).scale, (*measure, split)
            curves.append(_curve(judge, points, table, scale, label=split, dashed=dashed, colour=1))
    return curves


def _one_line(
    results: Results, cells: Sequence[Cell], axis: str, measure: tuple[str, str]
) -> tuple[list[Cell], str]:
    """Of cells that differ in more than an axis, those of one line along it that has several
    points, the one with the best value on dev; and what else varies among the lines, as it is in
    this one.
    """
    lines: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        rest = {name: value for name, value in cell.params.items() if name != axis}
        lines[json.dumps({"encoder": cell.encoder, **rest}, sort_keys=True)].append(cell)

    def rank(line: str) -> tuple[bool, float]:
        dev = max(dev_of(results, cell, *measure) for cell in lines[line])
        return len(lines[line]) > 1, dev

    best = max(lines, key=rank)
    own, every = json.loads(best), [json.loads(line) for line in lines]
    varying = [
        f"{name}={value}"
        for name, value in own.items()
        if any(other.get(name) != value for other in every)
    ]
    return lines[best], f" ({', '.join(varying)})" if varying else ""


def _number(cell: Cell, axis: str) -> float | None:
    value = cell.params.get(axis)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
