"""Token translation by mean shifts: its scores over layers and weights.

Curves of a sweep over layers and weights of a shift (Liu et al. 2020, Figures 7 and 8).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, final

from raxalign.analysis.cells import MEANS, Cell
from raxalign.analysis.metrics import spoken
from raxalign.plan.names import ordered
from raxalign.report.cells.results import Results
from raxalign.report.document import Part, Share, Table
from raxalign.report.figures.curves import MOST_CURVES
from raxalign.report.figures.drawn import Sketch, drawn
from raxalign.report.figures.panels import Curve, Heat, Panel
from raxalign.report.predictions.translations import sample_tables
from raxalign.report.sections.base import Section
from raxalign.tasks.translation.counts import shift_point

Points = Mapping[tuple[int, float], float]
"""(layer, weight) -> value."""


def over_weights(title: str, label: str, points: Points) -> Panel | None:
    """Make a panel with a curve per layer over the weights; None where there is one weight."""
    return _panel(title, label, "weight α", list(_curves(points, "weight")))


def over_layers(title: str, label: str, points: Points) -> Panel | None:
    """Make a panel with a curve per weight over the layers; None where there is one layer."""
    return _panel(title, label, "layer", list(_curves(points, "layer")))


def _panel(title: str, label: str, x: str, curves: Sequence[Curve]) -> Panel | None:
    if not curves:
        return None
    xs = curves[0].x
    return Panel(title, x, label, curves, ticks=xs if len(xs) <= 13 else ())


def _curves(points: Points, axis: Literal["layer", "weight"]) -> Iterator[Curve]:
    """Yield the curves along one axis, one per value of the other; of many the most even choice."""
    layers, weights = (sorted(set(found)) for found in zip(*points, strict=True))
    along, others = (layers, weights) if axis == "layer" else (weights, layers)
    if len(along) < 2:
        return
    for colour, other in enumerate(_even(others)):
        ys = [
            100 * points.get((x, other) if axis == "layer" else (int(other), x), math.nan)
            for x in along
        ]
        label = f"α {other:g}" if axis == "layer" else f"layer {other:g}"
        if not any(math.isnan(y) for y in ys):
            yield Curve(label, [float(x) for x in along], ys, colour=colour)


def _even(values: Sequence[float]) -> list[float]:
    """Choose at most `MOST_CURVES` values, the first and the last among them."""
    if len(values) <= MOST_CURVES:
        return list(values)
    step = (len(values) - 1) / (MOST_CURVES - 1)
    return [values[round(place * step)] for place in range(MOST_CURVES)]


_CAPTION = (
    "One panel per language pair, in percent. Rows are layers, columns weights of the shift"
    " (as in Liu et al. 2020, Figures 7 and 8)."
)


@final
class TokenTranslation(Section):
    """Figures per score of a sweep over layers and weights, with a heat map and curves per language
    pair, and the first translated sentences where their texts are kept (`samples`).

    Scores of such a sweep are named as token translation names them (``layer10_alpha2_bleu1``).
    """

    VERSION = 1
    place = 95

    def share(self) -> Share | None:
        """Return the figures and sentences; None where no task of the grid sweeps over layers and
        weights.
        """
        results = self.material.results
        sweeps = list(_sweeps(results))
        sketches = [sketch for task, stem in sweeps for sketch in _sketches(results, task, stem)]
        figures = drawn(sketches, self.material.figures)
        parts: tuple[Part, ...] = (Part("figures", "Figures", figures=figures),) if figures else ()
        tables = tuple(self._sentences(dict.fromkeys(task for task, _ in sweeps)))
        if tables:
            parts += (Part("translations", "Translated sentences", tables=tables),)
        return Share(parts) if parts else None

    def _sentences(self, tasks: Iterable[str]) -> Iterator[Table]:
        """The tables of kept texts of each task, of the first cell that has some."""
        ledger = self.material.ledger
        for task in tasks if ledger is not None else ():
            for cell in self.material.results.cells:
                languages = self.material.plan.languages
                tables = (
                    list(sample_tables(cell, task, ledger, languages)) if ledger is not None else []
                )
                if tables:
                    yield from tables
                    break


def _sweeps(results: Results) -> Iterator[tuple[str, str]]:
    found = dict.fromkeys(
        (task, point[2])
        for task, _, metric, split in results.names
        if split == "test" and (point := shift_point(metric))
    )
    yield from found


def _sketches(results: Results, task: str, stem: str) -> Iterator[Sketch]:
    """The figures of one score: over layers and weights, over weights, and over layers."""
    title = f"{task}: {spoken(stem)}"
    yield Sketch(
        f"heat-{task}-{stem}",
        f"{title} over layers and weights",
        _CAPTION,
        heat_panels(results, task, stem),
    )
    grids = _first_grids(results, task, stem)
    for axis, make, figure in (
        ("weights", over_weights, "7" if stem == "convert_rate" else "8a"),
        ("layers", over_layers, "" if stem == "convert_rate" else "8b"),
    ):
        panels = [
            make(_shown(lang), f"{spoken(stem)} (%)", grids[lang])
            for lang in _ordered(results, grids)
        ]
        as_in = f" As in Liu et al. 2020, Figure {figure}." if figure else ""
        caption = f"One panel per language pair, in percent, on test.{as_in}"
        yield Sketch(
            f"{axis}-{task}-{stem}",
            f"{title} over {axis}",
            caption,
            [panel for panel in panels if panel is not None],
        )


def heat_panels(results: Results, task: str, stem: str) -> list[Panel]:
    """Return one panel per language: values over layers and weights of the first cell that has
    them.
    """
    grids = _first_grids(results, task, stem)
    return [
        Panel(_shown(lang), "weight α", "layer", heat=_heat(grids[lang]))
        for lang in _ordered(results, grids)
    ]


def _first_grids(
    results: Results, task: str, stem: str
) -> dict[str, dict[tuple[int, float], float]]:
    """Return the values of the first cell that has some; see `_grids`."""
    return next((grids for cell in results.cells if (grids := _grids(cell, task, stem))), {})


def _ordered(results: Results, langs: Iterable[str]) -> list[str]:
    """Return languages as the grid has them, the means first."""
    return sorted(ordered(langs, results.plan), key=lambda lang: lang not in MEANS)


def _shown(lang: str) -> str:
    return {"avg": "mean"}.get(lang, lang)


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
