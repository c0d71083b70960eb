"""What methods gain over the original encoder, language by language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

from raxalign.analysis.cells import Cell
from raxalign.plan.values.comparisons import Compared
from raxalign.report.cells.choice import (
    baseline,
    best_on_dev,
    colour_of,
    of_encoder,
    of_methods,
    single_languages,
    titled,
    transfer_tasks,
)
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results
from raxalign.report.document import Part, Share
from raxalign.report.figures.curves import MOST_CURVES, axis_of, counted
from raxalign.report.figures.drawn import Sketch, drawn
from raxalign.report.figures.panels import Panel, Points
from raxalign.report.sections.base import Section


@final
class Gains(Section):
    """A figure with a panel per transfer task: the gain of each language over its baseline, a
    cloud per method.
    """

    VERSION = 1
    place = 40

    def share(self) -> Share | None:
        """Return the figure; None where no transfer task was run with a baseline and a method."""
        results = self.material.results
        caption = (
            "One point per language; the baseline is the original encoder (as in Kulshreshtha et"
            " al. 2020, Figure 2). Methods at their largest training set and the point that dev"
            " chooses. Error bars: the 95 % interval of the difference over runs and examples; one"
            " that leaves the panel is longer than it shows."
            f"{of_encoder(results)}{of_methods(results, MOST_CURVES)}"
        )
        title = "Gain over the baseline against the baseline"
        sketch = Sketch(
            "gain-over-baseline", title, caption, gain_panels(results, self.material.judge)
        )
        figures = drawn([sketch], self.material.figures)
        return Share((Part("figures", "Figures", figures=figures),)) if figures else None


def gain_panels(results: Results, judge: Judge) -> list[Panel]:
    """Return one panel per transfer task, one cloud per method."""
    panels = []
    for task, metric in transfer_tasks(results):
        clouds = list(_clouds(results, judge, task, metric))
        if clouds:
            panels.append(
                Panel(
                    titled(results, task),
                    f"baseline {axis_of(results, task, metric)}, {_n(clouds)}",
                    _difference(results, task, metric),
                    points=clouds,
                    zero=True,
                )
            )
    return panels


def _difference(results: Results, task: str, metric: str) -> str:
    """The label of the axis of differences."""
    lower = results.plan.measured(task, metric).better == "lower"
    points = " (points)" if results.unit(task, metric).sign else ""
    return f"difference{', lower is better' if lower else ''}{points}"


def _n(clouds: Sequence[Points]) -> str:
    return counted((len(cloud.x) for cloud in clouds), "languages")


def _clouds(results: Results, judge: Judge, task: str, metric: str) -> Iterator[Points]:
    """The clouds of the methods besides the baseline; none without one."""
    base = baseline(results, task, metric)
    for cell in best_on_dev(results, MOST_CURVES, task, metric):
        if base is not None and cell is not base:
            yield from _cloud(results, judge, (task, metric), (cell, base))


def _cloud(
    results: Results, judge: Judge, measure: tuple[str, str], pair: tuple[Cell, Cell]
) -> Iterator[Points]:
    """The cloud of a cell by a (task, metric), over the languages that the baseline has too; `pair`
    is the cell and its baseline.
    """
    cell, base = pair
    task, metric = measure
    split = results.split(task)
    langs = [
        lang
        for lang in single_languages(results, task, metric, cell)
        if (task, lang, metric, split) in base.values
    ]
    scale = results.unit(task, metric).scale
    x = [scale * base.values[task, lang, metric, split].mean for lang in langs]
    y = [
        scale * cell.values[task, lang, metric, split].mean - a
        for lang, a in zip(langs, x, strict=True)
    ]
    if langs:
        names = langs if len(langs) <= 12 else ()
        ends = [_ends(judge.of(cell, (task, lang, metric, split)), scale) for lang in langs]
        yield Points(cell.method, x, y, names, colour_of(results, cell), y_ends=ends)


def _ends(found: Compared | None, scale: float) -> tuple[float, float] | None:
    """The interval of a difference, multiplied by a scale."""
    test = found.comparison if found is not None else None
    if test is None or test.low is None or test.high is None:
        return None
    return scale * test.low, scale * test.high
