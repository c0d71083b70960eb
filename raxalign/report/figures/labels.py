"""Names of points that do not overprint each other."""

from __future__ import annotations

import textwrap
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
    points = [axes.transData.transform(text.xy) for text in names]
    taken = [(x - 2.5, y - 2.5, x + 2.5, y + 2.5) for x, y in points]  # by their markers
    for text, own in zip(names, list(taken), strict=True):
        for x, y, across, up in _PLACES:
            text.xyann = (x, y)
            text.set_ha(across)
            text.set_va(up)
            box = text.get_window_extent(renderer)
            within = inside.x0 <= box.x0 and box.x1 <= inside.x1 + 8
            others = (other for other in taken if other is not own)
            if within and not any(_meet(box.extents, other) for other in others):
                taken.append(tuple(box.extents))
                break
        else:
            text.set_visible(False)


def _meet(one: Any, other: Any) -> bool:
    """Whether two boxes overlap: (left, bottom, right, top)."""
    across = one[0] < other[2] and other[0] < one[2]
    return bool(across and one[1] < other[3] and other[1] < one[3])
