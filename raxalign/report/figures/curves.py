"""Panels as plain values, and what several sections share of them: how many curves there are, and
the labels of axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from raxalign.measured import spoken
from raxalign.plan.values.scoreboard import Scoreboard

Ends = tuple[float, float] | None
"""The lower and the upper end of an interval; None where there is none."""


@dataclass(frozen=True)
class Series:
    """Points that belong together, with the ends of their intervals and their names.

    Attributes:
        look: A `line`, one for dev values (`dashed`), a horizontal line (`level`) or a cloud of
            points (`dots`).
        band: The ends of an interval at each point, drawn as an area.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    ends: Sequence[Ends] = ()
    look: Literal["line", "dashed", "level", "dots"] = "line"
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


@dataclass(frozen=True)
class Sketch:
    """A figure before it is drawn: `name` is the stem of its files."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]


MOST_CURVES = 8
_OVER = {
    "contextual_accuracy": "contextual accuracy, pairs unseen in training",
    "contextual_accuracy_all": "contextual accuracy, all pairs",
    "noncontextual_accuracy": "non-contextual accuracy, pairs unseen in training",
    "noncontextual_accuracy_all": "non-contextual accuracy, all pairs",
}


def axis_of(results: Scoreboard, task: str, metric: str) -> str:
    """Return the label of an axis of a metric, with a direction that readers may not expect."""
    lower = results.plan.measured(task, metric).better == "lower"
    percent = " (%)" if results.unit(task, metric).sign else ""
    return f"{_OVER.get(metric, spoken(metric))}{', lower is better' if lower else ''}{percent}"


def counted(numbers: Iterable[int], what: str) -> str:
    """Return the sizes behind the points of a panel: ``n = 3 to 4 languages``."""
    found = sorted(numbers)
    more = f" to {found[-1]}" if found[0] != found[-1] else ""
    return f"n = {found[0]}{more} {what}"
