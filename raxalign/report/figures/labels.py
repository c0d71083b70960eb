"""Names of points that do not overprint each other."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_PLACES = (
    *((4, 3, "left", "bottom"), (4, -3, "left", "top"), (-4, 3, "right", "bottom")),
    *((-4, -3, "right", "top"), (0, 6, "center", "bottom"), (0, -6, "center", "top")),
    *((9, 9, "left", "bottom"), (9, -9, "left", "top"), (-9, 9, "right", "bottom")),
    *((-9, -9, "right", "top"), (16, 0, "left", "center"), (-16, 0, "right", "center")),
)
"""Offsets from a point in typographic points, with the side on which the name stands."""


def wrapped(text: str, width: int) -> str:
    r"""Return a label in lines of at most `width` letters that are about equally long.

    >>> wrapped("xnli accuracy, zero-shot mean, dev (%)", 34)
    'xnli accuracy,\nzero-shot mean, dev (%)'
    """

    def lines(most: int) -> list[str]:
        return textwrap.wrap(text, most, break_on_hyphens=False)

    count = len(lines(width))
    while width > 1 and len(lines(width - 1)) == count:
        width -= 1
    return "\n".join(lines(width))


def spread_labels(figure: Canvas) -> None:
    """Move the names of points to where they cover neither another name nor a point, as far as
    there is room; a name without room is left out.
    """
    for axes in figure.axes:
        names = [text for text in axes.texts if hasattr(text, "xyann")]
        if names:
            _spread(axes, names)


def _spread(axes: Axes, names: list[Any]) -> None:
    renderer = axes.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    inside = axes.get_window_extent(renderer)
    taken = [_around(*axes.transData.transform(text.xy)) for text in names]
    for place, text in enumerate(names):
        own = taken[place]
        for box in _tries(text, renderer):
            within = inside.x0 <= box.x0 and box.x1 <= inside.x1 + 8
            others = (other for other in taken if other is not own)
            if within and not any(_meet(box.extents, other) for other in others):
                taken.append(tuple(box.extents))
                break
        else:
            text.set_visible(False)


def _tries(text: Any, renderer: Any) -> Iterator[Any]:
    """Put a name to each place in turn, and yield its box there."""
    for x, y, across, up in _PLACES:
        text.xyann = (x, y)
        text.set_ha(across)
        text.set_va(up)
        yield text.get_window_extent(renderer)


def _around(x: float, y: float) -> tuple[float, float, float, float]:
    """The box of a point's marker."""
    return x - 2.5, y - 2.5, x + 2.5, y + 2.5


def _meet(first: Any, second: Any) -> bool:
    return bool(
        first[0] < second[2]
        and second[0] < first[2]
        and first[1] < second[3]
        and second[1] < first[3]
    )
