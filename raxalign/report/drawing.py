"""Drawing: plain values in, SVG, PDF and PNG out. This file alone uses matplotlib, which is
imported when something is drawn. Series have colours and markers that no two share, and no text
lies on another.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from raxalign.lazy import np
from raxalign.report.document import Figure, identifier

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

Ends = tuple[float, float] | None
"""The lower and the upper end of an interval; None where there is none."""


@dataclass(frozen=True)
class Series:
    """Points that belong together, with the ends of their intervals and their names.

    Attributes:
        look: A `line`, one for dev values (`dashed`), one that was fitted (`curve`, without the
            marks of points), a horizontal line (`level`), a cloud of points (`dots`) or circles
            where others cross (`crossing`), which have no colour.
        band: The ends of an interval at each point, drawn as an area.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    ends: Sequence[Ends] = ()
    look: Literal["line", "dashed", "curve", "level", "dots", "crossing"] = "line"
    colour: int = 0
    names: Sequence[str] = ()
    x_ends: Sequence[Ends] = ()
    band: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Heat:
    """Values (rows, columns) as colours; a missing one is NaN."""

    values: Sequence[Sequence[float]]
    rows: Sequence[str]
    columns: Sequence[str]


@dataclass(frozen=True)
class Panel:
    """One pair of axes: what is drawn in it, its title and labels.

    Attributes:
        groups: Names of groups of dots that stand next to each other; every series then has a value
            for each, NaN where it is missing, and x is not looked at.
        links: Thin lines between points that belong together, as (x, y, x, y).
        ticks: The only ticks of the x axis.
        whole: Whether fractions are kept from its ticks.
        said: What the caption says of what the panel leaves out, after a space.
    """

    title: str
    x: str
    y: str
    series: Sequence[Series] = ()
    groups: Sequence[str] = ()
    links: Sequence[tuple[float, float, float, float]] = ()
    heat: Heat | None = None
    log: bool = False
    zero: bool = False
    ticks: Sequence[float] = ()
    whole: bool = False
    said: str = ""


@dataclass(frozen=True)
class Sketch:
    """A figure before it is drawn: `name` is the stem of its files, and `basis` names over all
    panels the task, the set and the training runs, where the panels' own titles do not.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    basis: str = ""

    def drawn(self, folder: Path, mark: str) -> Figure:
        """Draw its panels into a folder, under a mark."""
        name = identifier(self.name)
        svg = draw(self.panels, folder, name, "\n".join(filter(None, (self.basis, mark))))
        wide = _size(self.panels)[1] > _HALF
        return Figure(f"figure-{name}", self.title, name, svg, self.caption, wide)


INK, RULE = "#1a1b1c", "#d8d9da"
"""Colours that nothing else in a drawing has, so that a page can put its own in their place."""
COLOURS = (
    *("#2f7fc1", "#d9632b", "#1f9e77", "#c2649a"),
    *("#c99a1c", "#7a6fc0", "#5aa9c9", "#8a8d91"),
)  # legible on white and on near black, and for the colour-blind
_TINT = 0.65  # of a series' colour in its text, the rest is ink
MARKERS = "osD^vPX*"
_STYLE = Path(__file__).with_name("raxalign.mplstyle")
_MARKERS = 10  # of a line of many points
_PLACES = (
    *((4, 3, "left", "bottom"), (4, -3, "left", "top"), (-4, 3, "right", "bottom")),
    *((-4, -3, "right", "top"), (0, 6, "center", "bottom"), (0, -6, "center", "top")),
    *((9, 9, "left", "bottom"), (9, -9, "left", "top"), (-9, 9, "right", "bottom")),
    *((-9, -9, "right", "top"), (16, 0, "left", "center"), (-16, 0, "right", "center")),
)
"""Offsets of a name from its point in typographic points, with the side on which it stands."""
_FILES: dict[str, dict[str, Any]] = {
    "pdf": {"metadata": {"CreationDate": None, "Creator": None}},
    "png": {"dpi": 160, "facecolor": "white", "metadata": {"Software": None}},
}
_HALF, _FULL = 4.65, 9.5  # inches: two figures of one panel stand next to each other on a page
_ROW, _LINE = 2.7, 0.16  # inches of a row of panels, and of a line of text
_LETTERS = 13  # in an inch of a line


def draw(panels: Sequence[Panel], folder: Path, name: str, heading: str = "") -> str:
    """Write ``<name>.svg``, ``<name>.pdf`` and ``<name>.png`` into a folder; returns the SVG for a
    page, in the page's own ink and without its size.
    """
    with opened_canvas(panels, heading) as figure:
        text = io.StringIO()
        nothing = {"Date": None, "Creator": None}
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
        svg = _with_own_names(text.getvalue(), name)
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        for ending, options in _FILES.items():  # whole, as matplotlib trips over a full disk
            data = io.BytesIO()
            figure.savefig(data, format=ending, **options)
            (folder / f"{name}.{ending}").write_bytes(data.getvalue())
    return _for_page(svg, name)


def _size(panels: Sequence[Panel]) -> tuple[int, float]:
    """The columns of panels, of which those of groups have one, and the width in inches."""
    if any(panel.groups for panel in panels):
        dots = max(len(panel.series) * len(panel.groups) for panel in panels)
        return 1, _HALF if 0.13 * dots <= _HALF else _FULL
    return {1: 1, 2: 2, 4: 2}.get(len(panels), 3), _HALF if len(panels) == 1 else _FULL


@contextmanager
def opened_canvas(panels: Sequence[Panel], heading: str = "") -> Iterator[Canvas]:
    """Open a figure with the panels drawn and laid out under a heading, in the package's style."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    columns, width = _size(panels)
    rows = -(-len(panels) // columns)
    labels = list(dict.fromkeys(one.label for panel in panels for one in panel.series))
    lines = -(-len(labels) // _legend_columns(labels, width)) if labels else 0
    above = [_wrapped(line, width - 0.2) for line in heading.splitlines()]
    lines += sum(text.count("\n") + 1 for text in above)
    lines += rows * max(_titled(panel, width / columns).count("\n") for panel in panels)
    with mpl.rc_context(fname=_STYLE):
        figure = Canvas(figsize=(width, _ROW * rows + 0.3 + _LINE * lines), layout="constrained")
        FigureCanvasAgg(figure)
        if above:
            figure.suptitle("\n".join(above), x=0.02, ha="left", fontsize=8.5)
        _fill(figure, figure.subplots(rows, columns, squeeze=False), panels)
        figure.draw_without_rendering()  # lays it out once for all files
        spread_ticks(figure)
        figure.set_layout_engine(None)  # one called "none" draws all twice for each file
        spread_names(figure)
        yield figure


def _wrapped(text: str, inches: float) -> str:
    return textwrap.fill(text, int(_LETTERS * inches), break_on_hyphens=False)


def _titled(panel: Panel, inches: float) -> str:
    """The title of a panel of so many inches, in lines that fit over its axes."""
    return _wrapped(panel.title, inches - 0.8)


def _fill(figure: Canvas, grid: Any, panels: Sequence[Panel]) -> None:
    handles: dict[str, Any] = {}
    inches = figure.get_size_inches()[0] / grid.shape[1]
    for axes, panel in zip(grid.flat, panels, strict=False):
        axes.set_title(_titled(panel, inches))
        axes.set_xlabel(_wrapped(panel.x, min(inches - 0.4, 3.1)))
        axes.set_ylabel(_wrapped(panel.y, _ROW - 0.5))
        _panel(axes, panel)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    every = [(panel, series) for panel in panels for series in panel.series]
    clouds = all(series.look == "dots" and not panel.groups for panel, series in every)
    if len(handles) > 1 or (handles and not clouds):
        columns = _legend_columns(list(handles), figure.get_size_inches()[0])
        place = {"loc": "outside lower center", "ncols": columns}
        figure.legend(list(handles.values()), list(handles), **place)


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """The columns of a legend that fit into inches; letters are 0.068 inches wide."""
    longest = 0.068 * max(map(len, labels)) + 0.5
    return max(1, min(len(labels), int((width - 0.2) / longest), 6))


def _panel(axes: Axes, panel: Panel) -> None:
    ys = [y for series in panel.series for y in series.y]
    ys += [end for series in panel.series for ends in series.band for end in ends]
    ends = [end for series in panel.series for end in series.ends]
    if panel.heat is not None:
        draw_heat(axes, panel.heat)
        return
    if panel.zero:
        axes.axhline(0, color=INK, linewidth=0.7)
    if panel.groups:
        draw_groups(axes, panel)
        axes.set_ylim(*_around(ys, ends, panel.y))
        return
    axes.grid(visible=True, which="major")
    if panel.log:
        axes.set_xscale("log")
    for x, y, other_x, other_y in panel.links:
        style: dict[str, Any] = {"color": INK, "linewidth": 0.6, "linestyle": ":", "alpha": 0.6}
        axes.plot((x, other_x), (y, other_y), **style)
    for series in panel.series:
        draw_series(axes, series)
    _ticks(axes, panel)
    axes.margins(x=0.08, y=0.12)
    clouds = [series for series in panel.series if series.look == "dots"]
    if not panel.log and any(cloud.x_ends or cloud.ends for cloud in clouds):
        x_ends = [end for cloud in clouds for end in cloud.x_ends]
        axes.set_xlim(*_around([x for cloud in clouds for x in cloud.x], x_ends, panel.x))
    if len(clouds) < len(panel.series) or ends:
        axes.set_ylim(*_around(ys, ends, panel.y))


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
    from matplotlib.ticker import LogFormatter, MaxNLocator, NullLocator

    if panel.ticks:
        shown = (f"{tick / 1000:g}k" if tick >= 10_000 else f"{tick:,g}" for tick in panel.ticks)
        axes.set_xticks(list(panel.ticks), list(shown))
        axes.xaxis.set_minor_locator(NullLocator())
    elif panel.log:  # its own formatters write mathematics, which no text is read as
        axes.xaxis.set_major_formatter(LogFormatter())
        axes.xaxis.set_minor_formatter(LogFormatter())
    elif panel.whole:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _with_own_names(svg: str, name: str) -> str:
    """A drawing whose names are its own and short; those that nothing refers to go."""
    used = dict.fromkeys(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    drawing = f"f{sha256(name.encode()).hexdigest()[:6]}"
    names = {before: f"{drawing}-{number}" for number, before in enumerate(used)}
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{names[m[1]]}"' if m[1] in names else "", svg)
    return re.sub(r'(url\(#|href="#)([^)"]+)', lambda m: m[1] + names[m[2]], svg)


def _for_page(svg: str, name: str) -> str:
    """A drawing without prolog and metadata, its numbers and styles shortened: a page is a third
    smaller for it. Its width follows the page's, from three quarters of its own on.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"(\d\.\d\d)\d+", r"\1", re.sub(r"\n\s*", "\n", svg))
    svg = re.sub(
        r'(?<=\sd=")[^"]+', lambda m: re.sub(r"\s*([A-Za-z])\s*", r"\1", m[0].strip()), svg
    )
    svg = svg.replace("xlink:href=", "href=")
    rules = ""  # styles that are used several times, as classes that drawings may share
    for style, count in Counter(re.findall(r'style="([^"]+)"', svg)).items():
        if count > 2:
            own = f"g{sha256(style.encode()).hexdigest()[:8]}"
            svg, rules = (
                svg.replace(f'style="{style}"', f'class="{own}"'),
                f"{rules}.{own}{{{style}}}",
            )
    head, rest = svg.split(">", 1)
    width = re.search(r'width="([0-9.]+)pt"', head)
    wide = float(width[1]) * 4 / 3 if width else 640.0  # points are 4/3 pixels
    head = re.sub(r'\s(?:width|height)="[^"]*"', "", head)
    # below three quarters of its width its text would be too small to read, and above, too large
    head += (
        f' role="img" aria-labelledby="caption-{name}"'
        f' style="max-width:{1.3 * wide:.0f}px;min-width:{0.75 * wide:.0f}px"'
    )
    svg = f"{head}><style>{rules}</style>{rest}"
    for colour in COLOURS:  # text is legible in the page's ink, be it light or dark
        mixed = f"color-mix(in srgb, {colour} {_TINT:.0%}, currentColor)"
        svg = svg.replace(_dark(colour), mixed)
    return svg.replace(INK, "currentColor").replace(RULE, "var(--rule)")


def colour_of(place: int) -> str:
    """Return the colour of a series by its place among all of them."""
    return COLOURS[place % len(COLOURS)]


def _dark(colour: str) -> str:
    """Return a colour for text: with so much ink in it that it is legible on white."""
    pairs = ((colour[at : at + 2], INK[at : at + 2]) for at in (1, 3, 5))
    mixed = (_TINT * int(own, 16) + (1 - _TINT) * int(ink, 16) for own, ink in pairs)
    return "#" + "".join(f"{round(part):02x}" for part in mixed)


def marker_of(place: int) -> str:
    """Return its marker: series of one colour have different ones, so that 64 can be told apart."""
    return MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]


def draw_series(axes: Axes, series: Series) -> None:
    """Draw a series with its error bars, its band and the names of its points."""
    look = series.look
    colour = INK if look == "crossing" else colour_of(series.colour)
    if look == "level":
        style: dict[str, Any] = {"linewidth": 1.2, "linestyle": (0, (4, 2)), "label": series.label}
        axes.axhline(series.y[0], color=colour, **style)
        return
    style = {"color": colour, "marker": marker_of(series.colour), "label": series.label}
    if look == "crossing":
        style |= {"marker": "o", "linestyle": "none", "markersize": 8, "markerfacecolor": "none"}
    elif look == "dots":
        style |= {"alpha": 0.9, "linestyle": "none", "markersize": 4.5}
    else:
        style |= {"linewidth": 1.4, "markersize": 4}
        style |= {"linestyle": (0, (3, 2)) if look == "dashed" else "-"}
        style |= {"markerfacecolor": "none" if look == "dashed" else colour}
    if series.band:
        style["markevery"] = max(1, len(series.x) // _MARKERS)
        style["marker"] = "" if look == "curve" else style["marker"]
        low, high = zip(*series.band, strict=True)
        axes.fill_between(series.x, low, high, color=colour, alpha=0.18, linewidth=0)
    _error_bars(axes, (series.x, series.y), series.x_ends, "xerr", colour)
    _error_bars(axes, (series.x, series.y), series.ends, "yerr", colour)
    axes.plot(series.x, series.y, **style)
    text: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7, "color": _dark(colour)}
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
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7}
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                style["color"] = _legible(mesh.cmap(mesh.norm(value)))
                axes.text(column + 0.5, row + 0.5, f"{value:.1f}", **style)
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=7.5)


def _legible(background: npt.ArrayLike) -> str:
    """Black or white, whichever has the larger contrast to a background (WCAG 2)."""
    linear = [((part + 0.055) / 1.055) ** 2.4 for part in np.asarray(background)[:3]]
    return "black" if np.dot(linear, (0.2126, 0.7152, 0.0722)) > 0.179 else "white"


def spread_ticks(figure: Canvas) -> None:
    """Turn the tick labels of an x axis that lie on each other, and leave out what still does."""
    crowded = [axes for axes in figure.axes if any(_covering(axes.xaxis))]
    for axes in crowded:
        axes.tick_params(axis="x", labelrotation=90)
    if crowded:
        figure.draw_without_rendering()
    for axes in figure.axes:
        for label in [*_covering(axes.xaxis), *_covering(axes.yaxis)]:
            label.set_visible(False)


def _covering(axis: Axis) -> Iterator[Text]:
    """Yield the tick labels of an axis that lie on one before that is not yielded itself."""
    free: list[Bbox] = []
    for label in axis.get_ticklabels(which="both"):
        box = label.get_window_extent()
        if label.get_text() and any(box.overlaps(other) for other in free):
            yield label
        elif label.get_text():
            free.append(box)


def spread_names(figure: Canvas) -> None:
    """Move the names of points to where there is room, on no error bar if that can be; one without
    room is left out.
    """
    from matplotlib.transforms import Bbox

    for axes in figure.axes:
        names: list[Any] = [text for text in axes.texts if hasattr(text, "xyann")]
        inside = axes.get_window_extent()
        points = [axes.transData.transform(text.xy) for text in names]
        taken = [Bbox.from_bounds(x - 3.5, y - 3.5, 7, 7) for x, y in points]  # of their markers
        segments = (s for each in axes.containers for bars in each[2] for s in bars.get_segments())
        bars = [Bbox(axes.transData.transform(segment)).padded(1) for segment in segments]
        ways = [(bars, place) for place in _PLACES] + [([], place) for place in _PLACES]
        for text, own in zip(names, list(taken), strict=True):
            for avoided, (x, y, across, up) in ways:
                text.set(position=(x, y), ha=across, va=up)
                box = text.get_window_extent()
                within = inside.x0 <= box.x0 and box.x1 <= inside.x1 + 8
                within = within and inside.y0 <= box.y0 and box.y1 <= inside.y1
                near = (other for other in (*taken, *avoided) if other is not own)
                if within and not any(map(box.overlaps, near)):
                    taken.append(box)
                    break
            else:
                text.set_visible(False)
