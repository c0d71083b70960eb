"""What is drawn between the axes: curves, clouds, groups of dots, and values as colours; with
colours and markers that no two series share, and the settings of matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from raxalign.report.figures.labels import wrapped
from raxalign.report.figures.page import INK, RULE
from raxalign.report.figures.panels import Curve, Ends, Heat, Panel, Points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (
    *("#2f7fc1", "#d9632b", "#1f9e77", "#c2649a"),
    *("#c99a1c", "#7a6fc0", "#5aa9c9", "#8a8d91"),
)  # legible on white and on near black, and for the colour-blind
MARKERS = "osD^vPX*"
STYLE: Mapping[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
_LABEL = 34  # letters of a label in one line
_MARKERS = 10  # of a curve of many points
_BAR: dict[str, Any] = {"elinewidth": 0.9, "capsize": 1.8, "capthick": 0.9}


def colour_of(place: int) -> str:
    """Return the colour of a series by its place among all of them."""
    return COLOURS[place % len(COLOURS)]


def marker_of(place: int) -> str:
    """Return its marker: series of one colour have different ones, so that 64 can be told apart."""
    return MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]


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
    style: dict[str, Any] = {"color": colour, "alpha": 0.9, "linestyle": "none"}
    style |= {"marker": marker_of(cloud.colour), "markersize": 4.5, "label": cloud.label}
    axes.plot(cloud.x, cloud.y, **style)
    text: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7, "color": colour}
    for x, y, name in zip(cloud.x, cloud.y, cloud.names, strict=False):
        axes.annotate(name, (x, y), xytext=(4, 3), **text)


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
    known = {place: end for place, end in enumerate(ends) if end is not None}
    if known:
        values = points[0] if along == "xerr" else points[1]
        low = [max(0.0, values[place] - end[0]) for place, end in known.items()]
        high = [max(0.0, end[1] - values[place]) for place, end in known.items()]
        xs, ys = ([axis[place] for place in known] for axis in points)
        bars: dict[str, Any] = {along: [low, high], **_BAR}
        axes.errorbar(xs, ys, fmt="none", ecolor=colour, alpha=0.6, **bars)


def draw_heat(axes: Axes, heat: Heat) -> None:
    """Draw values as colours, with their numbers where there is room."""
    import numpy as np

    values = np.asarray(heat.values, dtype=float)
    masked = np.ma.masked_invalid(values)
    mesh = axes.pcolormesh(masked, cmap="cividis", edgecolors="none", rasterized=False)
    axes.set_xticks([i + 0.5 for i in range(len(heat.columns))], heat.columns)
    axes.set_yticks([i + 0.5 for i in range(len(heat.rows))], heat.rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if values.size <= 60:
        low, high = np.nanmin(values), np.nanmax(values)
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7}
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                light = high > low and (value - low) / (high - low) > 0.55
                style["color"] = "#101010" if light else "#f4f4f4"
                axes.text(column + 0.5, row + 0.5, f"{value:.1f}", **style)
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=7.5)
    if heat.label:
        bar.set_label(wrapped(heat.label, _LABEL), fontsize=7.5)
