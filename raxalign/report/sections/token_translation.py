"""Token translation by mean shifts: its scores over layers and weights."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import final

from raxalign.analysis.cells import MEANS, Cell
from raxalign.analysis.metrics import spoken
from raxalign.report.cells.results import Results
from raxalign.report.document import Part, Share
from raxalign.report.figures.drawn import Sketch, drawn
from raxalign.report.figures.panels import Heat, Panel
from raxalign.report.sections.base import Section
from raxalign.tasks.translation.samples import shift_point

_CAPTION = (
    "One panel per language pair, in percent. Rows are layers, columns weights of the shift"
    " (as in Liu et al. 2020, Figures 7 and 8)."
)


@final
class TokenTranslation(Section):
    """A figure per score of a sweep over layers and weights: a heat map per language pair.

    Scores of such a sweep are named as token translation names them (``layer10_alpha2_bleu1``).
    """

    VERSION = 1
    place = 80

    def share(self) -> Share | None:
        """Return the figures; None where no task of the grid sweeps over layers and weights."""
        results = self.material.results
        sketches = [
            Sketch(
                f"heat-{task}-{stem}",
                f"{task}: {spoken(stem)} over layers and weights",
                _CAPTION,
                heat_panels(results, task, stem),
            )
            for task, stem in _sweeps(results)
        ]
        figures = drawn(sketches, self.material.figures)
        return Share((Part("figures", "Figures", figures=figures),)) if figures else None


def _sweeps(results: Results) -> Iterator[tuple[str, str]]:
    found = dict.fromkeys(
        (task, point[2])
        for task, _, metric, split in results.names
        if split == "test" and (point := shift_point(metric))
    )
    yield from found


def heat_panels(results: Results, task: str, stem: str) -> list[Panel]:
    """Return one panel per language: values over layers and weights of the first cell that has
    them.
    """
    for cell in results.cells:
        grids = _grids(cell, task, stem)
        panels = [
            Panel({"avg": "mean"}.get(lang, lang), "weight α", "layer", heat=_heat(grids[lang]))
            for lang in sorted(grids, key=lambda lang: (lang not in MEANS, lang))
        ]
        if panels:
            return panels
    return []


def _grids(cell: Cell, task: str, stem: str) -> dict[str, dict[tuple[int, float], float]]:
    """Language -> (layer, weight) -> value on test."""
    grids: dict[str, dict[tuple[int, float], float]] = defaultdict(dict)
    for (t, lang, metric, split), value in cell.values.items():
        point = shift_point(metric)
        if t == task and point is not None and point[2] == stem and split == "test":
            grids[lang][point[:2]] = value.mean
    return grids


def _heat(points: Mapping[tuple[int, float], float]) -> Heat:
    layers, weights = (sorted(set(axis)) for axis in zip(*points, strict=True))
    values = [
        [100 * points.get((layer, weight), math.nan) for weight in weights] for layer in layers
    ]
    return Heat(values, [str(layer) for layer in layers], [f"{weight:g}" for weight in weights])
