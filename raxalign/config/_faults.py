"""Collecting every fault of a grid file, with the nearest right name where one is near."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from raxalign.errors import Fault

if TYPE_CHECKING:
    from raxalign.config._yaml import Node

_NEAR = 0.62
_MANY = 24


@dataclass
class Faults:
    """The faults found so far; one that is found twice (through two points of an axis, say) is told once."""

    found: dict[Fault, None] = field(default_factory=dict)

    def add(self, node: Node, problem: str, remedy: str = "") -> None:
        """A fault of the value at a node."""
        self.found[Fault(node.line, node.key or "grid", problem, remedy)] = None

    def unknown(self, node: Node, noun: str, known: Iterable[str]) -> None:
        """A name at a node that is none of the known ones."""
        self.add(node, f"unknown {noun}", suggestion(node.name, known))

    def __bool__(self) -> bool:
        return bool(self.found)

    def __len__(self) -> int:
        return len(self.found)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like another, or None where none is like it; letters' case and ``-``/``_`` do not count."""

    def plain(text: str) -> str:
        return text.lower().replace("-", "_")

    scores = {entry: SequenceMatcher(None, plain(name), plain(entry)).ratio() for entry in known}
    best = max(scores, key=lambda entry: scores[entry], default=None)
    return best if best is not None and scores[best] >= _NEAR else None


def suggestion(name: str, known: Iterable[str], *, listed: str = "known") -> str:
    """What would be right: the nearest of the known names, or all of them."""
    known = list(known)
    near = nearest(name, known)
    if near is not None:
        return f"did you mean {near}?"
    return f"{listed}: {', '.join(known)}" if 0 < len(known) <= _MANY else ""
