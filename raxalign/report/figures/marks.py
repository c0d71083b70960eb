"""What is drawn between the axes: series with colours and markers that no two share, values as
colours, and names of points that do not overprint each other; and the settings of matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from raxalign.lazy import np
from raxalign.report.figures.panels import Ends, Heat, Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

INK, RULE = "#1a1b1c", "#d8d9da"
"""Colours that nothing else in a drawing has, so that a page can put its own in their place."""
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
    "svg.hashsalt": "raxalign",
    "pdf.fonttype": 42,
}
_MARKERS = 10  # of a line of many points
_PLACES = (
    *((4, 3, "left", "bottom"), (4, -3, "left", "top"), (-4, 3, "right", "bottom")),
    *((-4, -3, "right", "top"), (0, 6, "center", "bottom"), (0, -6, "center", "top")),
    *((9, 9, "left", "bottom"), (9, -9, "left", "top"), (-9, 9, "right", "bottom")),
    *((-9, -9, "right", "top"), (16, 0, "left", "center"), (-16, 0, "right", "center")),
)
"""Offsets of a name from its point in typographic points, with the side on which it stands."""


def colour_of(place: int) -> str:
    """Return the colour of a series by its place among all of them."""
    return COLOURS[place % len(COLOURS)]


def marker_of(place: int) -> str:
    """Return its marker: series of one colour have different ones, so that 64 can be told apart."""
    return MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]


def draw_series(axes: Axes, series: Series) -> None:
    """Draw a series with its error bars, its band and the names of its points."""
    colour, look = colour_of(series.colour), series.look
    if look == "level":
        style: dict[str, Any] = {"linewidth": 1.2, "linestyle": (0, (4, 2)), "label": series.label}
        axes.axhline(series.y[0], color=colour, **style)
        return
    style = {"color": colour, "marker": marker_of(series.colour), "label": series.label}
    if look == "dots":
        style |= {"alpha": 0.9, "linestyle": "none", "markersize": 4.5}
    else:
        style |= {"linewidth": 1.4, "markersize": 4}
        style |= {"linestyle": (0, (3, 2)) if look == "dashed" else "-"}
        style |= {"markerfacecolor": "none" if look == "dashed" else colour}
    if look in ("pre", "post"):
        style["drawstyle"] = f"steps-{look}"
    if look in ("pre", "post") or series.band:
        style["markevery"] = max(1, len(series.x) // _MARKERS)
    if series.band:
        low, high = zip(*series.band, strict=True)
        axes.fill_between(series.x, low, high, color=colour, alpha=0.18, linewidth=0)
    _error_bars(axes, (series.x, series.y), series.x_ends, "xerr", colour)
    _error_bars(axes, (series.x, series.y), series.ends, "yerr", colour)
    axes.plot(series.x, series.y, **style)
    text: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7, "color": colour}
    for x, y, name in zip(series.x, series.y, series.names, strict=False):
        axes.annotate(name, (x, y), xytext=(4, 3), **text)


def draw_groups(axes: Axes, panel: Panel) -> None:
    """Draw the dots of all series of a panel, group by group, with their error bars."""
    axes.grid(visible=True, which="major", axis="y")
    apart, count = 0.8 / len(panel.series), len(panel.groups)
    for place, series in enumerate(panel.series):
        offset, colour = (place - (len(panel.series) - 1) / 2) * apart, colour_of(series.colour)
        places = [at + offset for at in range(count)]
        style: dict[str, Any] = {"color": colour, "linestyle": "none", "markersize": 4}
        style |= {"marker": marker_of(series.colour), "label": series.label}
        axes.plot(places, list(series.y), **style)
        _error_bars(axes, (places, series.y), series.ends, "yerr", colour)
    for at in range(1, count):
        axes.axvline(at - 0.5, color=RULE, linewidth=0.6)
    axes.set_xticks(range(count), list(panel.groups))
    axes.set_xlim(-0.5, count - 0.5)
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
        bars: dict[str, Any] = {along: [low, high], "elinewidth": 0.9, "capsize": 1.8}
        axes.errorbar(xs, ys, fmt="none", ecolor=colour, alpha=0.6, capthick=0.9, **bars)


def draw_heat(axes: Axes, heat: Heat) -> None:
    """Draw values as colours, with their numbers where there is room."""
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


def spread_names(figure: Canvas) -> None:
    """Move the names of points to where there is room; one without room is left out."""
    from matplotlib.transforms import Bbox

    for axes in figure.axes:
        names: list[Any] = [text for text in axes.texts if hasattr(text, "xyann")]
        inside = axes.get_window_extent()
        points = [axes.transData.transform(text.xy) for text in names]
        taken = [Bbox.from_bounds(x - 2.5, y - 2.5, 5, 5) for x, y in points]  # of their markers
        for text, own in zip(names, list(taken), strict=True):
            for x, y, across, up in _PLACES:
                text.set(position=(x, y), ha=across, va=up)
                box = text.get_window_extent()
                within = inside.x0 <= box.x0 and box.x1 <= inside.x1 + 8
                if within and not any(box.overlaps(other) for other in taken if other is not own):
                    taken.append(box)
                    break
            else:
                text.set_visible(False)
