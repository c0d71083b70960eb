"""Learning curves: scores over the number of sentence pairs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import final

from raxalign.analysis.cells import Cell
from raxalign.report.cells.choice import dev_of, of_methods, titled, value_of
from raxalign.report.cells.judge import Judge, ends_of_mean
from raxalign.report.cells.names import named
from raxalign.report.cells.results import Results
from raxalign.report.document import Part, Share
from raxalign.report.figures.curves import INTERVALS, LEVEL, MOST_CURVES, axis_of, levels
from raxalign.report.figures.drawn import Sketch, drawn
from raxalign.report.figures.panels import Curve, Ends, Panel
from raxalign.report.sections.base import Section


@final
class LearningCurves(Section):
    """A figure with a panel per task: a curve per method that was run at several sizes."""

    VERSION = 1
    place = 30

    def share(self) -> Share | None:
        """Return the figure; None where no method was run at several sizes."""
        results = self.material.results
        figures = drawn([_sketch(results, self.material.judge)], self.material.figures)
        return Share((Part("figures", "Figures", figures=figures),)) if figures else None


def _sketch(results: Results, judge: Judge) -> Sketch:
    caption = f"Mean over languages. {INTERVALS} {LEVEL}{of_methods(results, MOST_CURVES)}"
    title = "Learning curves over the number of sentence pairs"
    return Sketch("data-size", title, caption, size_panels(results, judge))


def size_panels(results: Results, judge: Judge) -> list[Panel]:
    """Return one panel per task: curves of methods that were run at several sizes."""
    panels = []
    for task in results.tasks:
        metric = results.main_metric(task)
        curves = _curves(results, judge, task, metric) if metric is not None else []
        if metric is not None and curves:
            ticks = sorted({size for curve in curves for size in curve.x})
            panels.append(
                Panel(
                    titled(results, task),
                    "sentence pairs per language",
                    axis_of(results, task, metric),
                    [*curves, *levels(results, task, metric)],
                    log=True,
                    ticks=ticks,
                )
            )
    return panels


def _curves(results: Results, judge: Judge, task: str, metric: str) -> list[Curve]:
    """At most `MOST_CURVES` curves of several sizes, those with the best values on dev."""
    lines: dict[str, dict[int, tuple[float, Ends]]] = defaultdict(dict)
    entry, scale = (task, metric, results.split(task)), results.unit(task, metric).scale
    ranks: dict[str, float] = defaultdict(lambda: -math.inf)
    for cell in _some(results, task, metric):
        value, name = value_of(cell, task, metric, results.split(task)), _label(results, cell)
        if cell.sentences is not None and value is not None:
            ends = ends_of_mean(judge, cell, entry, scale)
            lines[name][cell.sentences] = scale * value.mean, ends
            ranks[name] = max(ranks[name], dev_of(results, cell, task, metric))
    several = [name for name, points in lines.items() if len(points) > 1]
    best = sorted(several, key=lambda name: -ranks[name])[:MOST_CURVES]
    shown = [(name, points) for name, points in lines.items() if name in best]
    places = list(dict.fromkeys(_label(results, cell) for cell in results.cells))
    return [_curve(name, points, places.index(name)) for name, points in shown]


def _curve(name: str, points: Mapping[int, tuple[float, Ends]], colour: int) -> Curve:
    sizes = sorted(points)
    means, ends = zip(*(points[size] for size in sizes), strict=True)
    return Curve(name, sizes, means, ends, colour=colour)


def _some(results: Results, task: str, metric: str) -> Sequence[Cell]:
    """All cells, or where they make too many curves, for each method and size the one that dev
    chooses.
    """
    cells = [
        cell
        for cell in results.cells
        if value_of(cell, task, metric, results.split(task)) is not None
    ]
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
