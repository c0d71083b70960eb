"""Collecting every fault of a grid file, with the nearest right name where one is near."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Protocol

from raxalign.errors import Fault

_NEAR = 0.62
_MANY = 24


class Place(Protocol):
    """Where a fault is: `line` (1-based), the dotted `key`, and the `name` that the key ends with.
    Every value of a file has one.
    """

    @property
    def line(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass
class Faults:
    """The faults found so far. One that is found twice (through two points of an axis, for example)
    is reported once.
    """

    found: dict[Fault, None] = field(default_factory=dict)

    def add(self, place: Place, problem: str, remedy: str = "") -> None:
        """Record a fault of the value at a place."""
        self.found[Fault(place.line, place.key or "grid", problem, remedy)] = None

    def unknown(self, place: Place, noun: str, known: Iterable[str]) -> None:
        """Record a name that is not among the known ones."""
        self.add(place, f"unknown {noun}", suggestion(place.name, known))

    def __bool__(self) -> bool:
        return bool(self.found)

    def __len__(self) -> int:
        return len(self.found)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like another, or whose words begin with its letters
    (``lr``), or None where none is similar. Case and ``-``/``_`` do not count.
    """
    known = list(known)

    def plain(text: str) -> str:
        return text.lower().replace("-", "_")

    abbreviated = [
        entry for entry in known if plain(name) == "".join(w[:1] for w in plain(entry).split("_"))
    ]
    if len(abbreviated) == 1 and len(name) > 1:
        return abbreviated[0]
    scores = {entry: SequenceMatcher(None, plain(name), plain(entry)).ratio() for entry in known}
    best = max(scores, key=lambda entry: scores[entry], default=None)
    return best if best is not None and scores[best] >= _NEAR else None


def suggestion(name: str, known: Iterable[str], *, listed: str = "known") -> str:
    """Write what would be right: the nearest of the known names, or all of them."""
    known = list(known)
    near = nearest(name, known)
    if near is not None:
        return f"did you mean {near}?"
    return f"{listed}: {', '.join(known)}" if 0 < len(known) <= _MANY else ""
