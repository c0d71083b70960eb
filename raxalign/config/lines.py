"""Places in a grid's text, for faults that only the plan finds."""

from __future__ import annotations

from raxalign.config._faults import Faults
from raxalign.config._yaml import parse


def line_of(text: str, *path: str) -> int | None:
    """Return the line (1-based) of a key of a grid file's text, given by the keys that lead to it;
    None where the text does not have it.
    """
    node = parse("grid", text, Faults())
    for name in path:
        if not isinstance(node.value, dict) or name not in node.value:
            return None
        node = node.value[name]
    return node.line
