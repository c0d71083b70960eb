"""Drawing: plain values in, SVG and PNG out. The only file that uses matplotlib, which is imported
when something is drawn.

Ink and rules have colours of their own that nothing else has, so that a page can put its own in
their place (``currentColor``, ``var(--rule)``).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.report.figures.page import INK, RULE, for_page, unique
from raxalign.report.figures.panels import Curve, Heat, Panel, Points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

COLOURS = (
    "#2f7fc1",
    "#d9632b",
    "#1f9e77",
    "#c2649a",
    "#c99a1c",
    "#7a6fc0",
    "#5aa9c9",
    "#8a8d91",
)  # legible on white and on near black
MARKERS = "osD^vPX*"
_STYLE: Mapping[str, Any] = {
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
}


def draw(panels: Sequence[Panel], folder: Path, name: str) -> str:
    """Write ``<name>.svg`` and ``<name>.png`` into a folder; returns the SVG for a page, in the
    page's own ink and without its size.
    """
    with _canvas(panels) as figure:
        _fill(figure, panels)
        figure.draw_without_rendering()  # lays it out once for both files
        figure.set_layout_engine("none")
        text = io.StringIO()
        figure.savefig(
            text, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
        svg = unique(text.getvalue(), name)
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        figure.savefig(
            folder / f"{name}.png", dpi=160, facecolor="white", metadata={"Software": None}
        )
    return for_page(svg, name)


@contextmanager
def _canvas(panels: Sequence[Panel]) -> Iterator[Canvas]:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    columns = _columns(panels)
    rows = -(-len(panels) // columns)
    bars = max(len(panel.bars) * len(panel.names) for panel in panels)
    with mpl.rc_context({**_STYLE, "svg.hashsalt": "raxalign"}):
        figure = Canvas(
            figsize=(max(3.1 * columns, 4.2, min(0.12 * bars, 9.3)), 2.7 * rows + 0.45),
            layout="constrained",
        )
        FigureCanvasAgg(figure)
        yield figure


def _columns(panels: Sequence[Panel]) -> int:
    """The panels next to each other: three, or one of bars, which are wide."""
    return 1 if any(panel.bars for panel in panels) else min(len(panels), 3)


def _fill(figure: Canvas, panels: Sequence[Panel]) -> None:
    columns = _columns(panels)
    grid = figure.subplots(-(-len(panels) // columns), columns, squeeze=False)
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid.flat, panels, strict=False):
        _panel(axes, panel)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    if len(handles) > 1 or (handles and any(panel.curves or panel.bars for panel in panels)):
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=min(len(handles), 4 if columns > 1 else 2),
        )


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    if panel.heat is not None:
        _heat(axes, panel.heat)
        return
    if panel.bars:
        _bars(axes, panel)
        return
    axes.grid(visible=True, which="major")
    if panel.log:
        axes.set_xscale("log")
    if panel.zero:
        axes.axhline(0, color=INK, linewidth=0.7)
    for curve in panel.curves:
        _curve(axes, curve)
    for x, y, other_x, other_y in panel.links:
        style: dict[str, Any] = {"color": INK, "linewidth": 0.6, "linestyle": ":", "alpha": 0.6}
        axes.plot((x, other_x), (y, other_y), **style)
    for cloud in panel.points:
        _cloud(axes, cloud)
    if panel.ticks:
        _ticks(axes, panel.ticks)
    axes.margins(x=0.08, y=0.12)
    if panel.curves:
        axes.set_ylim(*_reach(panel.curves, share=panel.y.endswith("(%)")))


def _reach(curves: Sequence[Curve], *, share: bool) -> tuple[float, float]:
    """The limits of the axis of values: by the means alone, since the intervals of two seeds would
    leave no room for them. The axis of a share ends shortly above 100 %.
    """
    values = [y for curve in curves for y in curve.y]
    pad = max(0.45 * (max(values) - min(values)), 2.0)
    low, high = min(values) - pad, max(values) + pad
    if min(values) >= 0:
        low = max(low, 0.0)
    return low, min(high, 104.0) if share and max(values) <= 100 else high


def _curve(axes: Axes, curve: Curve) -> None:
    colour = COLOURS[curve.colour % len(COLOURS)]
    if curve.level:
        axes.axhline(
            curve.y[0], color=colour, linewidth=1.2, linestyle=(0, (4, 2)), label=curve.label
        )
        return
    marker = MARKERS[curve.colour % len(MARKERS)]
    face = "none" if curve.dashed else colour
    style: dict[str, Any] = {
        "color": colour,
        "linewidth": 1.4,
        "marker": marker,
        "markersize": 4,
        "markerfacecolor": face,
        "label": curve.label,
    }
    axes.plot(curve.x, curve.y, linestyle=(0, (3, 2)) if curve.dashed else "-", **style)
    known = [
        (x, y, half)
        for x, y, half in zip(curve.x, curve.y, curve.spread, strict=False)
        if half is not None
    ]
    if known and len(known) == len(curve.x):
        low, high = ([y + sign * half for _, y, half in known] for sign in (-1, 1))
        axes.fill_between(curve.x, low, high, color=colour, alpha=0.13, linewidth=0)
    # a band between a point with an interval and one without would show an interval that nobody
    # measured
    elif known:
        xs, ys, halves = zip(*known, strict=True)
        axes.errorbar(xs, ys, halves, fmt="none", ecolor=colour, alpha=0.45, elinewidth=1.2)


def _cloud(axes: Axes, cloud: Points) -> None:
    colour = COLOURS[cloud.colour % len(COLOURS)]
    axes.plot(
        cloud.x,
        cloud.y,
        linestyle="none",
        marker=MARKERS[cloud.colour % len(MARKERS)],
        markersize=4.5,
        color=colour,
        alpha=0.9,
        label=cloud.label,
    )
    for x, y, name in zip(cloud.x, cloud.y, cloud.names, strict=False):
        axes.annotate(
            name, (x, y), xytext=(4, 3), textcoords="offset points", fontsize=7, color=colour
        )


def _bars(axes: Axes, panel: Panel) -> None:
    """Draw a group of bars per name."""
    axes.grid(visible=True, which="major", axis="y")
    width = 0.8 / len(panel.bars)
    for place, bars in enumerate(panel.bars):
        offset = (place - (len(panel.bars) - 1) / 2) * width
        axes.bar(
            [at + offset for at in range(len(panel.names))],
            list(bars.values),
            width,
            color=COLOURS[bars.colour % len(COLOURS)],
            label=bars.label,
        )
    axes.set_xticks(range(len(panel.names)), list(panel.names))
    axes.tick_params(axis="x", length=0)


def _heat(axes: Axes, heat: Heat) -> None:
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


def _ticks(axes: Axes, ticks: Sequence[float]) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xticks(
        list(ticks), [f"{tick / 1000:g}k" if tick >= 10_000 else f"{tick:,g}" for tick in ticks]
    )
    axes.xaxis.set_minor_locator(NullLocator())
