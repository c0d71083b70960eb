"""Text that runs from right to left, within text that does not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

_LETTER = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff"
RIGHT_TO_LEFT = f"[{_LETTER}](?:[ '’-]*[{_LETTER}])*"
"""The pattern of words of Hebrew, Arabic and other scripts from right to left."""


def isolated(text: object) -> Markup:
    """Return text of a page in which words from right to left are each a ``<bdi>``, so that they do
    not draw the numbers and signs next to them into their direction.

    >>> str(isolated("مرحبا 12 <b>"))
    '<bdi>مرحبا</bdi> 12 &lt;b&gt;'
    """
    from markupsafe import Markup

    parts = re.split(f"({RIGHT_TO_LEFT})", str(text))
    parts[1::2] = map(Markup("<bdi>{}</bdi>").format, parts[1::2])
    return Markup().join(parts)


def runs_left(text: str) -> bool:
    """Return whether a whole text, such as a sentence, begins from the right."""
    return re.match(RIGHT_TO_LEFT, text) is not None
