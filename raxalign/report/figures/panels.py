"""Panels as plain values: what is drawn, and the titles and labels of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Ends = tuple[float, float] | None
"""The lower and the upper end of an interval; None where there is none."""


@dataclass(frozen=True)
class Curve:
    """Points with the ends of their intervals; `dashed` for dev values and published ones, `level`
    for a horizontal line.

    With `steps` the curve is a staircase: each value holds from its point on (`post`) or up to it
    (`pre`). `band` has the lower and the upper end of an interval at each point, and is drawn as an
    area.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    ends: Sequence[Ends] = ()
    dashed: bool = False
    level: bool = False
    colour: int = 0
    steps: Literal["", "pre", "post"] = ""
    band: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Points:
    """A cloud with a name for each point; `x_ends` and `y_ends` are the ends of the points'
    intervals.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    names: Sequence[str] = ()
    colour: int = 0
    x_ends: Sequence[Ends] = ()
    y_ends: Sequence[Ends] = ()


@dataclass(frozen=True)
class Heat:
    """Values (rows, columns); a missing one is NaN. `label` says what the colours stand for."""

    values: Sequence[Sequence[float]]
    rows: Sequence[str]
    columns: Sequence[str]
    label: str = ""


@dataclass(frozen=True)
class Dots:
    """One value per name of the panel with the ends of its interval; a missing value is NaN."""

    label: str
    values: Sequence[float]
    colour: int = 0
    ends: Sequence[Ends] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes: what is drawn in it, its title and labels. `links` are thin lines between
    points that belong together, each as the coordinates (x, y, x, y) of its ends; `names` are those
    of groups of dots; `ticks` are the only ticks of the x axis, with names of their own where there
    are `tick_names`; `whole` keeps fractions from its ticks. `ends` are on the x axis whatever
    is drawn.
    """

    title: str
    x: str
    y: str
    curves: Sequence[Curve] = ()
    points: Sequence[Points] = ()
    links: Sequence[tuple[float, float, float, float]] = ()
    heat: Heat | None = None
    dots: Sequence[Dots] = ()
    names: Sequence[str] = ()
    log: bool = False
    zero: bool = False
    ticks: Sequence[float] = ()
    tick_names: Sequence[str] = ()
    whole: bool = False
    ends: tuple[float, float] | None = None

    @property
    def labels(self) -> list[str]:
        """The labels of its series."""
        series: list[Curve | Points | Dots] = [*self.curves, *self.points, *self.dots]
        return [one.label for one in series]


@dataclass(frozen=True)
class Sketch:
    """A figure before it is drawn: `name` is the stem of its files."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
