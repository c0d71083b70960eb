"""What methods gain over the original encoder, language by language."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from raxalign.analysis.cells import Cell
from raxalign.report.cells.choice import (
    baseline,
    best_on_dev,
    colour_of,
    of_encoder,
    of_methods,
    representatives,
    single_languages,
    titled,
    transfer_tasks,
)
from raxalign.report.cells.results import Results
from raxalign.report.document import Part, Share
from raxalign.report.figures.curves import MOST_CURVES, in_percent
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
            f" chooses.{of_encoder(results)}{of_methods(results, MOST_CURVES)}"
        )
        title = "Gain over the baseline against the baseline"
        sketch = Sketch("gain-over-baseline", title, caption, gain_panels(results))
        figures = drawn([sketch], self.material.figures)
        return Share((Part("figures", "Figures", figures=figures),)) if figures else None


def gain_panels(results: Results) -> list[Panel]:
    """Return one panel per transfer task, one cloud per method."""
    panels = []
    for task, metric in transfer_tasks(results):
        clouds = list(_clouds(results, task, metric))
        if clouds:
            panels.append(
                Panel(
                    titled(results, task),
                    f"baseline {in_percent(metric)}",
                    "difference (points)",
                    points=clouds,
                    zero=True,
                )
            )
    return panels


def _clouds(results: Results, task: str, metric: str) -> Iterator[Points]:
    """The clouds of the methods besides the baseline; none without one."""
    base = baseline(results, task, metric)
    for cell in best_on_dev(representatives(results, task, metric), MOST_CURVES, task, metric):
        if base is not None and cell is not base:
            yield from _cloud(results, (task, metric), cell, base)


def _cloud(results: Results, measure: tuple[str, str], cell: Cell, base: Cell) -> Iterator[Points]:
    """The cloud of a cell by a (task, metric), over the languages that the baseline has too."""
    task, metric = measure
    split = results.split(task)
    langs = [
        lang
        for lang in single_languages(results, task, metric, cell)
        if (task, lang, metric, split) in base.values
    ]
    x = [100 * base.values[task, lang, metric, split].mean for lang in langs]
    y = [
        100 * cell.values[task, lang, metric, split].mean - a
        for lang, a in zip(langs, x, strict=True)
    ]
    if langs:
        names = langs if len(langs) <= 12 else ()
        yield Points(cell.method, x, y, names, colour_of(results, cell))
