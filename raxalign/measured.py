"""What a task measures: the names of its metrics, what each is, and which values are better."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower", "neither"]
Role = Literal["score", "part", "count", "error"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_NUMBER = r"-?[0-9.]+(?:e[-+]?[0-9]+)?"


@dataclass(frozen=True)
class Measured:
    """One metric that a task reports, or several that differ in a part of their names.

    Attributes:
        name: the metric as scores name it. Braces stand for a part that varies: for any of several
            words (``accuracy_{to_pivot|from_pivot}``), or for a number (``layer{l}_anisotropy``).
        about: what it is, in one sentence.
        better: which values are better; `neither` where no direction is.
        role: `score` is worth a table, `part` is one direction of a score or its value at one
            setting of a sweep, `count` is a number of examples, `error` is a standard error.
    """

    name: str
    about: str
    better: Better = "higher"
    role: Role = "score"

    def names(self, metric: str) -> bool:
        """Return whether this is the declaration of a metric.

        >>> layers = Measured("layer{l}_{first|last}_f1", "F1 at one layer.", role="part")
        >>> layers.names("layer12_last_f1"), layers.names("layer_last_f1"), layers.names("f1")
        (True, False, False)
        """
        # split leaves what braces hold at the odd places
        parts = [
            re.escape(part) if place % 2 == 0 else f"(?:{part})" if "|" in part else _NUMBER
            for place, part in enumerate(_BRACES.split(self.name))
        ]
        return re.fullmatch("".join(parts), metric) is not None


def count(name: str, about: str) -> Measured:
    """Return the declaration of a number of examples."""
    return Measured(name, about, "neither", "count")


def standard_error(name: str, about: str) -> Measured:
    """Return the declaration of a standard error."""
    return Measured(name, about, "neither", "error")
