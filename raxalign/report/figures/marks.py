"""What is drawn between the axes: curves, clouds, groups of dots, and values as colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from raxalign.report.figures.labels import wrapped
from raxalign.report.figures.page import RULE
from raxalign.report.figures.panels import Curve, Ends, Heat, Panel, Points
from raxalign.report.figures.style import colour_of, marker_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABEL = 34  # letters of a label in one line
_MARKERS = 10  # of a curve of many points
_BAR: dict[str, Any] = {"elinewidth": 0.9, "capsize": 1.8, "capthick": 0.9}


def draw_curve(axes: Axes, curve: Curve) -> None:
    """Draw a curve with its error bars or its band, a staircase, or a level."""
    colour = colour_of(curve.colour)
    if curve.level:
        axes.axhline(
            curve.y[0], color=colour, linewidth=1.2, linestyle=(0, (4, 2)), label=curve.label
        )
        return
    face = "none" if curve.dashed else colour
    style: dict[str, Any] = {
        "color": colour,
        "linewidth": 1.4,
        "marker": marker_of(curve.colour),
        "markersize": 4,
        "markerfacecolor": face,
        "label": curve.label,
    }
    if curve.steps or curve.band:
        style["markevery"] = max(1, len(curve.x) // _MARKERS)
    if curve.steps:
        style["drawstyle"] = f"steps-{curve.steps}"
    if curve.band:
        low, high = zip(*curve.band, strict=True)
        axes.fill_between(curve.x, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(curve.x, curve.y, linestyle=(0, (3, 2)) if curve.dashed else "-", **style)
    _error_bars(axes, (curve.x, curve.y), curve.ends, "yerr", colour)


def draw_cloud(axes: Axes, cloud: Points) -> None:
    """Draw a cloud with its error bars and the names of its points."""
    colour = colour_of(cloud.colour)
    _error_bars(axes, (cloud.x, cloud.y), cloud.x_ends, "xerr", colour)
    _error_bars(axes, (cloud.x, cloud.y), cloud.y_ends, "yerr", colour)
    axes.plot(
        cloud.x,
        cloud.y,
        linestyle="none",
        marker=marker_of(cloud.colour),
        markersize=4.5,
        color=colour,
        alpha=0.9,
        label=cloud.label,
    )
    for x, y, name in zip(cloud.x, cloud.y, cloud.names, strict=False):
        axes.annotate(
            name, (x, y), xytext=(4, 3), textcoords="offset points", fontsize=7, color=colour
        )


def _reach(value: float, ends: tuple[float, float] | None) -> tuple[float, float]:
    """How far an interval reaches to both sides of a value."""
    low, high = ends if ends is not None else (value, value)
    return max(0.0, value - low), max(0.0, high - value)


def draw_dots(axes: Axes, panel: Panel) -> None:
    """Draw a group of dots per name, one per series, with their error bars."""
    axes.grid(visible=True, which="major", axis="y")
    apart = 0.8 / len(panel.dots)
    for place, dots in enumerate(panel.dots):
        offset = (place - (len(panel.dots) - 1) / 2) * apart
        places = [at + offset for at in range(len(panel.names))]
        style: dict[str, Any] = {"color": colour_of(dots.colour), "linestyle": "none"}
        style |= {"marker": marker_of(dots.colour), "markersize": 4, "label": dots.label}
        axes.plot(places, list(dots.values), **style)
        _error_bars(axes, (places, dots.values), dots.ends, "yerr", colour_of(dots.colour))
    for at in range(1, len(panel.names)):
        axes.axvline(at - 0.5, color=RULE, linewidth=0.6)
    axes.set_xticks(range(len(panel.names)), list(panel.names))
    axes.set_xlim(-0.5, len(panel.names) - 0.5)
    axes.tick_params(axis="x", length=0)


def _error_bars(
    axes: Axes,
    points: tuple[Sequence[float], Sequence[float]],
    ends: Sequence[Ends],
    along: Literal["xerr", "yerr"],
    colour: str,
) -> None:
    """Draw the intervals that are known of points (their x and their y)."""
    known = [place for place, end in enumerate(ends) if end is not None]
    if known:
        values = points[0] if along == "xerr" else points[1]
        reach = [_reach(values[place], ends[place]) for place in known]
        xs, ys = ([axis[place] for place in known] for axis in points)
        bars: dict[str, Any] = {along: list(zip(*reach, strict=True)), **_BAR}
        axes.errorbar(xs, ys, fmt="none", ecolor=colour, alpha=0.6, **bars)


def draw_heat(axes: Axes, heat: Heat) -> None:
    """Draw values as colours, with their numbers where there is room."""
    import numpy as np

    values = np.asarray(heat.values, dtype=float)
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(values), cmap="cividis", edgecolors="none", rasterized=False
    )
    axes.set_xticks([i + 0.5 for i in range(len(heat.columns))], heat.columns)
    axes.set_yticks([i + 0.5 for i in range(len(heat.rows))], heat.rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if values.size <= 60:
        low, high = np.nanmin(values), np.nanmax(values)
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                light = high > low and (value - low) / (high - low) > 0.55
                axes.text(
                    column + 0.5,
                    row + 0.5,
                    f"{value:.1f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="#101010" if light else "#f4f4f4",
                )
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=7.5)
    if heat.label:
        bar.set_label(wrapped(heat.label, _LABEL), fontsize=7.5)
