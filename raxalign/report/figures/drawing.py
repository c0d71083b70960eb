"""Drawing: plain values in, SVG, PDF and PNG out. This file, `marks` and `labels` alone use
matplotlib, which is imported when something is drawn.

Ink and rules have colours of their own that nothing else has, so that a page can put its own in
their place (``currentColor``, ``var(--rule)``).
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.report.document import Figure, identifier
from raxalign.report.figures.labels import spread_labels, wrapped
from raxalign.report.figures.marks import STYLE, draw_cloud, draw_curve, draw_dots, draw_heat
from raxalign.report.figures.page import INK, for_page, unique
from raxalign.report.figures.panels import Curve, Ends, Panel, Points, Sketch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

MOST_PANELS = 12  # of a figure
_FILES: dict[str, dict[str, Any]] = {
    "pdf": {"metadata": {"CreationDate": None, "Creator": None}},
    "png": {"dpi": 160, "facecolor": "white", "metadata": {"Software": None}},
}
_LABEL = 40  # letters of an axis's label in one line


def drawn(sketches: Iterable[Sketch], folder: Path) -> tuple[Figure, ...]:
    """Draw the sketches that have panels into a folder, at most `MOST_PANELS` panels of each; its
    caption counts what is left out.
    """
    figures = []
    for sketch in sketches:
        if sketch.panels:
            caption, name = sketch.caption, identifier(sketch.name)
            if len(sketch.panels) > MOST_PANELS:
                caption += f" The first {MOST_PANELS} of {len(sketch.panels)} panels."
            svg = draw(sketch.panels[:MOST_PANELS], folder, name)
            figures.append(Figure(f"figure-{name}", sketch.title, name, svg, caption))
    return tuple(figures)


def draw(panels: Sequence[Panel], folder: Path, name: str) -> str:
    """Write ``<name>.svg``, ``<name>.pdf`` and ``<name>.png`` into a folder; returns the SVG for a
    page, in the page's own ink and without its size.
    """
    with opened_canvas(panels) as figure:
        text = io.StringIO()
        nothing = {"Date": None, "Creator": None}
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
        svg = unique(text.getvalue(), name)
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        for ending, options in _FILES.items():  # whole, as matplotlib trips over a full disk
            data = io.BytesIO()
            figure.savefig(data, format=ending, **options)
            (folder / f"{name}.{ending}").write_bytes(data.getvalue())
    return for_page(svg, name)


@contextmanager
def opened_canvas(panels: Sequence[Panel]) -> Iterator[Canvas]:
    """Open a figure with the panels drawn and laid out, while the package's settings hold."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    # three panels stand next to each other, or one of dots, which are wide
    columns = 1 if any(panel.dots for panel in panels) else min(len(panels), 3)
    rows = -(-len(panels) // columns)
    dots = max(len(panel.dots) * len(panel.names) for panel in panels)
    width = max(3.1 * columns, 4.2, min(0.13 * dots, 9.3))
    labels = list(dict.fromkeys(label for panel in panels for label in panel.labels))
    legend = 0.17 * (-(-len(labels) // _legend_columns(labels, width))) if labels else 0.0
    with mpl.rc_context({**STYLE, "svg.hashsalt": "raxalign"}):
        figure = Canvas(figsize=(width, 2.7 * rows + 0.3 + legend), layout="constrained")
        FigureCanvasAgg(figure)
        _fill(figure, figure.subplots(rows, columns, squeeze=False), panels)
        figure.draw_without_rendering()  # lays it out once for all files
        figure.set_layout_engine("none")
        spread_labels(figure)
        yield figure


def _fill(figure: Canvas, grid: Any, panels: Sequence[Panel]) -> None:
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid.flat, panels, strict=False):
        _panel(axes, panel)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    if len(handles) > 1 or (handles and any(panel.curves or panel.dots for panel in panels)):
        columns = _legend_columns(list(handles), figure.get_size_inches()[0])
        place = {"loc": "outside lower center", "ncols": columns}
        figure.legend(list(handles.values()), list(handles), **place)


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """The columns of a legend that fit into a width in inches: letters are 0.068 inches wide, and
    each label has its sign next to it.
    """
    longest = 0.068 * max(map(len, labels)) + 0.5
    return max(1, min(len(labels), int((width - 0.2) / longest), 6))


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(wrapped(panel.x, _LABEL))
    axes.set_ylabel(wrapped(panel.y, _LABEL - 6))
    if panel.heat is not None:
        draw_heat(axes, panel.heat)
        return
    if panel.zero:
        axes.axhline(0, color=INK, linewidth=0.7)
    if panel.dots:
        draw_dots(axes, panel)
        values = [y for dots in panel.dots for y in dots.values]
        axes.set_ylim(*_around(values, [end for dots in panel.dots for end in dots.ends], panel.y))
        return
    axes.grid(visible=True, which="major")
    if panel.log:
        axes.set_xscale("log")
    for curve in panel.curves:
        draw_curve(axes, curve)
    for x, y, other_x, other_y in panel.links:
        style: dict[str, Any] = {"color": INK, "linewidth": 0.6, "linestyle": ":", "alpha": 0.6}
        axes.plot((x, other_x), (y, other_y), **style)
    for cloud in panel.points:
        draw_cloud(axes, cloud)
    if panel.ticks or panel.whole:
        _ticks(axes, panel)
    if panel.ends:
        axes.update_datalim([(end, panel.points[0].y[0]) for end in panel.ends])
    axes.margins(x=0.08, y=0.12)
    if any(cloud.x_ends or cloud.y_ends for cloud in panel.points):
        xs, x_ends = zip(*((cloud.x, cloud.x_ends) for cloud in panel.points), strict=True)
        ys, y_ends = zip(*((cloud.y, cloud.y_ends) for cloud in panel.points), strict=True)
        axes.set_xlim(*_around([*chain(*xs)], [*chain(*x_ends)], panel.x))
        axes.set_ylim(*_around([*chain(*ys)], [*chain(*y_ends)], panel.y))
    if panel.curves:
        series: list[Curve | Points] = [*panel.curves, *panel.points]
        values = [y for one in series for y in one.y]
        values += [end for curve in panel.curves for ends in curve.band for end in ends]
        ends = [end for curve in panel.curves for end in curve.ends]
        axes.set_ylim(*_around(values, ends, panel.y))


def _around(values: Sequence[float], ends: Sequence[Ends], label: str) -> tuple[float, float]:
    """The limits of an axis: all values, and their intervals as far as they reach to each side by
    no more than the values themselves do; those of two runs would leave the values no room. The
    axis of a share ends with it.
    """
    there = [value for value in values if not math.isnan(value)] or [0.0]
    low, high = min(there), max(there)
    # a point of percent; of other units, a hundredth of the largest value
    percent = "(%)" in label or "(points)" in label
    grain = 1.0 if percent else max(map(abs, there)) / 100 or 1.0
    room = max(high - low, 4.0 * grain)
    known = [end for end in ends if end is not None]
    bottom = min([low, *(max(end[0], low - room) for end in known)])
    top = max([high, *(min(end[1], high + room) for end in known)])
    pad = max(0.06 * (top - bottom), 0.5 * grain)
    share = label.endswith("(%)") and low >= 0 and high <= 100
    # half of a point's marker would be cut off at the ends of a share
    return (max(bottom - pad, -2.0), min(top + pad, 102.0)) if share else (bottom - pad, top + pad)


def _ticks(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator, NullLocator

    if not panel.ticks:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        return
    shown = (f"{tick / 1000:g}k" if tick >= 10_000 else f"{tick:,g}" for tick in panel.ticks)
    axes.set_xticks(list(panel.ticks), list(panel.tick_names or shown))
    axes.xaxis.set_minor_locator(NullLocator())
