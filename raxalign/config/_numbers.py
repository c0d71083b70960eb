"""The sections that are whole numbers, `sentences` and `seeds`, and what is right in place of one
that is not.
"""

from __future__ import annotations

import re

from raxalign.config._faults import Faults
from raxalign.config._yaml import Node

_MANY = 20  # numbers that a remedy lists


def read_numbers(node: Node, faults: Faults, *, least: int) -> tuple[int, ...]:
    """Read one whole number or a list of different ones, none below `least`."""
    numbers: list[int] = []
    for item in node.items():
        number = item.value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int):
            faults.add(item, f"{item.shown()} is not a whole number", _whole(item))
        elif number < least:
            faults.add(item, f"{item.shown()} is too small", _least(item, least))
        elif number in numbers:
            faults.add(
                item, f"{item.shown()} is given twice", "the values of an axis are different"
            )
        else:
            numbers.append(number)
    return tuple(numbers)


def _whole(item: Node) -> str:
    """Return what would be right for a value that is not a whole number."""
    text = item.value.strip() if isinstance(item.value, str) else ""
    several = re.fullmatch(r"(\d+) *(?:-|\.\.+|to) *(\d+)", text)
    if text.isdecimal():
        return f"leave out the quotes: {text}"
    if thousands := re.fullmatch(r"(\d+)[kK]", text):
        return f"write {thousands[1]}_000"
    if several and 0 < (last := int(several[2])) - (first := int(several[1])) < _MANY:
        return f"write {list(range(first, last + 1))}"
    more = "; `corpus: {shortage: use-all}` takes what there is" if _of_sentences(item) else ""
    return f"write one number, or a list: [{'1_000, 10_000' if more else '0, 1, 2'}]{more}"


def _of_sentences(item: Node) -> bool:
    return item.key.partition("[")[0] == "sentences"


def _least(item: Node, least: int) -> str:
    """Return what would be right for a number that is too small: of ``10,000`` YAML makes two."""
    grouped = "; a comma ends a number: write 10_000 for ten thousand"
    return f"at least {least}" + (grouped if item.text == "000" else "")
