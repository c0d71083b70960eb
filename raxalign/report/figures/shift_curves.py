"""Curves of a sweep over layers and weights of a shift (Liu et al. 2020, Figures 7 and 8)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from raxalign.report.figures.curves import MOST_CURVES
from raxalign.report.figures.panels import Curve, Panel

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
