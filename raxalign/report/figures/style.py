"""How figures look: colours and markers that no two series share, and the settings of
matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raxalign.report.figures.page import INK, RULE

COLOURS = (
    "#2f7fc1",
    "#d9632b",
    "#1f9e77",
    "#c2649a",
    "#c99a1c",
    "#7a6fc0",
    "#5aa9c9",
    "#8a8d91",
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


def colour_of(place: int) -> str:
    """Return the colour of a series by its place among all of them."""
    return COLOURS[place % len(COLOURS)]


def marker_of(place: int) -> str:
    """Return its marker: series of one colour have different ones, so that 64 can be told apart."""
    return MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]
