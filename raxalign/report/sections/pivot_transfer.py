"""The pivot against transfer: what alignment gains in other languages, and what it costs in the
pivot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import final

from raxalign.analysis.cells import Cell, Name
from raxalign.report.cells.choice import (
    best_on_dev,
    colour_of,
    of_encoder,
    of_methods,
    titled,
    transfer_tasks,
)
from raxalign.report.cells.judge import Judge, ends_of
from raxalign.report.cells.results import Results
from raxalign.report.document import Part, Share
from raxalign.report.figures.curves import MOST_CURVES, axis_of
from raxalign.report.figures.drawn import Sketch, drawn
from raxalign.report.figures.panels import Panel, Points
from raxalign.report.sections.base import Section

_CAPTION = (
    "One point per method: its score in the pivot, and its mean over the other languages. Dotted:"
    " the Pareto front, that is, the methods that no other one beats in both. Error bars: 95 %"
    " intervals over runs and examples; one that leaves the panel is longer than it shows."
)


@final
class PivotTransfer(Section):
    """A figure with a panel per transfer task that also scores the pivot: the pivot's score against
    the mean over the other languages, with the Pareto front.
    """

    VERSION = 1
    place = 42

    def share(self) -> Share | None:
        """Return the figure; None where no transfer task scores the pivot for several methods."""
        results = self.material.results
        caption = f"{_CAPTION}{of_encoder(results)}{of_methods(results, MOST_CURVES)}"
        panels = list(pareto_panels(results, self.material.judge))
        sketch = Sketch("pivot-transfer", "The pivot against transfer", caption, panels)
        figures = drawn([sketch], self.material.figures)
        return Share((Part("figures", "Figures", figures=figures),)) if figures else None


def pareto_panels(results: Results, judge: Judge) -> Iterator[Panel]:
    """Yield a panel per transfer task with values of the pivot for at least two methods."""
    pivot = results.plan.pivot
    for task, metric in transfer_tasks(results):
        split = results.split(task)
        names: tuple[Name, Name] = (
            (task, pivot, metric, split),
            (task, "avg_zero_shot", metric, split),
        )
        cells = [
            cell
            for cell in best_on_dev(results, MOST_CURVES, task, metric)
            if all(name in cell.values for name in names)
        ]
        if len(cells) > 1:
            points = [_point(results, judge, cell, names) for cell in cells]
            yield Panel(
                titled(results, task),
                f"{pivot}, the pivot: {axis_of(results, task, metric)}",
                f"mean over the others: {axis_of(results, task, metric)}",
                points=points,
                links=list(_front(points, results.plan.measured(task, metric).sign)),
            )


def _point(results: Results, judge: Judge, cell: Cell, names: tuple[Name, Name]) -> Points:
    scale = results.unit(names[0][0], names[0][2]).scale
    x, y = ([scale * cell.values[name].mean] for name in names)
    x_ends, y_ends = ([ends_of(judge, cell, name, scale)] for name in names)
    return Points(cell.method, x, y, [cell.method], colour_of(results, cell), x_ends, y_ends)


def _front(points: Sequence[Points], sign: int) -> Iterator[tuple[float, float, float, float]]:
    """Lines between the points that no other one beats in both, from left to right; larger values
    beat where `sign` is 1, smaller ones where it is -1, and none where it is 0.
    """
    spots = sorted({(cloud.x[0], cloud.y[0]) for cloud in points})
    best = [
        (x, y)
        for x, y in spots
        if not any(
            a * sign >= x * sign and b * sign >= y * sign and (a, b) != (x, y) for a, b in spots
        )
    ]
    for (x, y), (a, b) in pairwise(best):
        yield x, y, a, b
