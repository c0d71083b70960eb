"""Scores over one numeric param of a method, and of several encoders."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import final

from raxalign.analysis.cells import Cell
from raxalign.report.cells.choice import dev_of, titled, value_of
from raxalign.report.cells.judge import Judge, ends_of_mean
from raxalign.report.cells.names import symbol
from raxalign.report.cells.results import Results
from raxalign.report.document import Part, Share
from raxalign.report.figures.curves import INTERVALS, LEVEL, axis_of, levels
from raxalign.report.figures.drawn import Sketch, drawn
from raxalign.report.figures.encoder_dots import encoder_sketches
from raxalign.report.figures.panels import Curve, Ends, Panel
from raxalign.report.sections.base import Section

_CAPTION = (
    "Mean over languages, largest training set, other options as dev chooses them. Filled:"
    f" test; hollow, dashed: dev, on which a value is to be chosen. {INTERVALS} {LEVEL}"
)


@final
class AxisCurves(Section):
    """A figure per method and numeric param of several values: test and dev over its values; and
    one per task with a dot per encoder and language, in grids with several encoders. Where these
    are trained with several windows, another one shows what the shorter windows cost.
    """

    VERSION = 1
    place = 35

    def share(self) -> Share | None:
        """Return the figures; None where the grid varies no numeric param and no encoder."""
        results = self.material.results
        sketches = [
            Sketch(
                f"curve-{method}-{axis}",
                f"{method}: {symbol(axis)}",
                _CAPTION,
                axis_panels(results, self.material.judge, method, axis),
            )
            for method, axis in numeric_axes(results)
        ]
        sketches += encoder_sketches(results, self.material.judge)
        figures = drawn(sketches, self.material.figures)
        return Share((Part("figures", "Figures", figures=figures),)) if figures else None


def numeric_axes(results: Results) -> Iterator[tuple[str, str]]:
    """Yield the (method, param) of the grid that has several values, all of them numbers."""
    searched = {study.method for study in results.plan.studies}  # their points lie in no line
    for method, axes in results.plan.axes.items():
        for axis in axes if method not in searched else ():
            values = {
                _number(cell.params.get(axis)) for cell in results.cells if cell.method == method
            }
            if len(values) > 1 and None not in values:
                yield method, axis


def axis_panels(results: Results, judge: Judge, method: str, axis: str) -> list[Panel]:
    """Return one panel per task: test and dev over the values of one numeric param; encoder and
    other params are those of the best point on dev.
    """
    cells = [
        cell
        for cell in results.cells
        if cell.method == method and _number(cell.params.get(axis)) is not None
    ]
    largest = max((cell.sentences or 0 for cell in cells), default=0)
    cells = [cell for cell in cells if (cell.sentences or 0) == largest]
    panels: list[Panel] = []
    for task in results.tasks:
        metric = results.main_metric(task)
        if metric is not None and cells:
            line, others = _one_line(results, cells, axis, (task, metric))
            panels += _panel(results, judge, (task, metric), line, (axis, others))
    return panels


def _panel(
    results: Results,
    judge: Judge,
    measure: tuple[str, str],
    line: Sequence[Cell],
    along: tuple[str, str],
) -> Iterator[Panel]:
    """The panel of a (task, metric), where the line has several points `along` an axis; its other
    part says what the other params are.
    """
    axis, others = along
    curves = list(_curves(judge, line, measure, axis, results.unit(*measure).scale))
    if curves:
        xs = [float(x) for x in curves[0].x]
        yield Panel(
            f"{titled(results, measure[0])}{others}",
            symbol(axis),
            axis_of(results, *measure),
            [*curves, *levels(results, *measure)],
            log=min(xs) > 0 and max(xs) / min(xs) >= 8,
            ticks=xs if len(xs) <= 7 else (),
        )


def _curves(
    judge: Judge, line: Sequence[Cell], measure: tuple[str, str], axis: str, scale: float
) -> Iterator[Curve]:
    """Test and dev, where they have several points; what is shown of dev next to test has no
    intervals.
    """
    for split, dashed in (("test", False), ("dev", True)):
        found: dict[float, tuple[float, Ends]] = {}
        for cell in line:
            value, x = value_of(cell, *measure, split), _number(cell.params.get(axis))
            if value is not None and x is not None:
                around = ends_of_mean(judge, cell, (*measure, split), scale)
                found[x] = scale * value.mean, around
        xs = sorted(found)
        if len(xs) > 1:
            means, ends = [found[x][0] for x in xs], [found[x][1] for x in xs]
            yield Curve(split, xs, means, ends, dashed=dashed, colour=1)


def _one_line(
    results: Results, cells: Sequence[Cell], axis: str, measure: tuple[str, str]
) -> tuple[list[Cell], str]:
    """Of cells that differ in more than an axis, those of one line along it that has several
    points, the one with the best value on dev; and what else varies among the lines, as it is in
    this one.
    """
    lines: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        rest = {
            "encoder": cell.encoder,
            **{name: value for name, value in cell.params.items() if name != axis},
        }
        lines[json.dumps(rest, sort_keys=True)].append(cell)
    best = max(
        lines,
        key=lambda line: (
            len(lines[line]) > 1,
            max(dev_of(results, cell, *measure) for cell in lines[line]),
        ),
    )
    facts = [json.loads(line) for line in lines]
    own = json.loads(best)
    varying = [
        f"{name}={own[name]}"
        for name in own
        if any(other.get(name) != own[name] for other in facts)
    ]
    return lines[best], f" ({', '.join(varying)})" if varying else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
