"""Drawing: plain values in, SVG, PDF and PNG out. This file, `marks` and `labels` alone use
matplotlib, which is imported when something is drawn.

Ink and rules have colours of their own that nothing else has, so that a page can put its own in
their place (``currentColor``, ``var(--rule)``).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.report.figures.labels import spread_labels, wrapped
from raxalign.report.figures.marks import draw_bars, draw_cloud, draw_curve, draw_heat
from raxalign.report.figures.page import INK, for_page, unique
from raxalign.report.figures.panels import Panel
from raxalign.report.figures.style import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_LABEL = 40  # letters of an axis's label in one line


def draw(panels: Sequence[Panel], folder: Path, name: str) -> str:
    """Write ``<name>.svg``, ``<name>.pdf`` and ``<name>.png`` into a folder; returns the SVG for a
    page, in the page's own ink and without its size.
    """
    with opened_canvas(panels) as figure:
        text = io.StringIO()
        figure.savefig(
            text, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
        svg = unique(text.getvalue(), name)
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None, "Creator": None})
        figure.savefig(
            folder / f"{name}.png", dpi=160, facecolor="white", metadata={"Software": None}
        )
    return for_page(svg, name)


@contextmanager
def opened_canvas(panels: Sequence[Panel]) -> Iterator[Canvas]:
    """Open a figure with the panels drawn and laid out, while the package's settings hold."""
    with _canvas(panels) as figure:
        _fill(figure, panels)
        figure.draw_without_rendering()  # lays it out once for all files
        figure.set_layout_engine("none")
        spread_labels(figure)
        yield figure


@contextmanager
def _canvas(panels: Sequence[Panel]) -> Iterator[Canvas]:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    columns = _columns(panels)
    rows = -(-len(panels) // columns)
    bars = max(len(panel.bars) * len(panel.names) for panel in panels)
    width = max(3.1 * columns, 4.2, min(0.12 * bars, 9.3))
    labels = _labels(panels)
    legend = 0.17 * (-(-len(labels) // _legend_columns(labels, width))) if labels else 0.0
    with mpl.rc_context({**STYLE, "svg.hashsalt": "raxalign"}):
        figure = Canvas(figsize=(width, 2.7 * rows + 0.3 + legend), layout="constrained")
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
            ncols=_legend_columns(list(handles), figure.get_size_inches()[0]),
        )


def _labels(panels: Sequence[Panel]) -> list[str]:
    """The labels of all series, each once."""
    found: list[str] = []
    for panel in panels:
        found += [curve.label for curve in panel.curves]
        found += [cloud.label for cloud in panel.points]
        found += [bars.label for bars in panel.bars]
    return list(dict.fromkeys(found))


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
    if panel.bars:
        draw_bars(axes, panel)
        return
    axes.grid(visible=True, which="major")
    if panel.log:
        axes.set_xscale("log")
    if panel.zero:
        axes.axhline(0, color=INK, linewidth=0.7)
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
        axes.set_xlim(*_around([x for cloud in panel.points for x in cloud.x]))
        axes.set_ylim(*_around([y for cloud in panel.points for y in cloud.y]))
    if panel.curves:
        axes.set_ylim(*_reach(panel))


def _around(values: Sequence[float]) -> tuple[float, float]:
    """The limits of an axis of points with intervals: by the points alone, as for curves."""
    pad = max(0.4 * (max(values) - min(values)), 3.0)
    return min(values) - pad, max(values) + pad


def _reach(panel: Panel) -> tuple[float, float]:
    """The limits of the axis of values: by the means alone, since the intervals of two seeds would
    leave no room for them; where there are bands or a cloud, by these too. The axis of a share ends
    shortly above 100 %.
    """
    more = [end for curve in panel.curves for ends in curve.band for end in ends]
    more += [y for cloud in panel.points for y in cloud.y]
    values = [y for curve in panel.curves for y in curve.y] + more
    extent = max(values) - min(values)
    pad = max(0.06 * extent, 0.5) if more else max(0.45 * extent, 2.0)
    low, high = min(values) - pad, max(values) + pad
    if min(values) >= 0 and not panel.points:  # half of a point's marker would be cut off
        low = max(low, 0.0)
    share = panel.y.endswith("(%)") and max(values) <= 100
    return low, min(high, 104.0) if share else high


def _ticks(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator, NullLocator

    if not panel.ticks:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        return
    names = panel.tick_names or [
        f"{tick / 1000:g}k" if tick >= 10_000 else f"{tick:,g}" for tick in panel.ticks
    ]
    axes.set_xticks(list(panel.ticks), list(names))
    axes.xaxis.set_minor_locator(NullLocator())
