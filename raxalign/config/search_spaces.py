"""Spaces of a search: the values that one param of a method may take."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal["log_uniform", "uniform", "int", "choice"]
KINDS: tuple[str, ...] = get_args(Kind)
DIGITS = 3
"""Significant digits of suggested real numbers, so that they can be read and equal ones merge."""

Value = bool | int | float | str | None
"""A value of a space as a study keeps it: a mapping among the choices is its JSON text."""


@dataclass(frozen=True)
class Space:
    """A range from `low` to `high`, both included, or the `choices`; `name` is the param's dotted
    YAML name (``lambda``, ``lora.rank``).
    """

    name: str
    kind: Kind
    low: float = 0.0
    high: float = 0.0
    choices: tuple[Value, ...] = ()

    @property
    def log(self) -> bool:
        """Whether equal ratios, not equal differences, are equally likely."""
        return self.kind == "log_uniform"

    def tidy(self, value: Value) -> Value:
        """Return a suggested value as it is used: real numbers with three significant digits, and
        never outside the range.

        >>> Space("lambda", "log_uniform", 0.01, 10).tidy(0.123456)
        0.123
        """
        if self.kind == "choice" or isinstance(value, str | None):
            return value
        if self.kind == "int":
            return int(value)
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)

    def find(self, value: Any) -> Value:
        """Return the value of the space that a param's value is.

        Raises `LookupError` where the space does not have it.
        """
        if self.kind == "choice":
            label = as_value(value)
            for choice in self.choices:
                if str(choice) == str(label):
                    return choice
        elif isinstance(value, int | float) and not isinstance(value, bool):
            inside = self.low <= value <= self.high
            if inside and (self.kind != "int" or float(value).is_integer()):
                return int(value) if self.kind == "int" else float(value)
        raise LookupError(f"{self.name}: {value!r}")

    def at(self, share: float) -> Value:
        """Return the value at a share of the space, from 0 up to 1 (exclusive)."""
        if self.kind == "choice":
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        if self.kind == "int":
            return min(int(self.low + share * (self.high - self.low + 1)), int(self.high))
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return self.tidy(math.exp(low + share * (high - low)))
        return self.tidy(self.low + share * (self.high - self.low))

    def values(self, most: int) -> list[Value]:
        """Return all choices, or at most `most` values of a range, evenly from end to end."""
        if self.kind == "choice":
            return list(self.choices)
        if self.kind == "int" and self.high - self.low < most:
            return list(range(int(self.low), int(self.high) + 1))
        ends = [index / max(most - 1, 1) for index in range(most)]
        if self.kind == "int":
            whole = [round(self.low + end * (self.high - self.low)) for end in ends]
            return [*dict.fromkeys(whole)]
        return list(dict.fromkeys(self.at(end) for end in ends))

    def told(self) -> str:
        """Describe the space in a few words: ``lambda 0.01 to 10 (log)``."""
        if self.kind == "choice":
            return f"{self.name} {' | '.join(map(str, self.choices))}"
        return f"{self.name} {self.low:g} to {self.high:g}{' (log)' if self.log else ''}"


def as_value(plain: Any) -> Value:
    """Return a param's value as a study keeps it."""
    if isinstance(plain, Mapping | list):
        return json.dumps(plain, sort_keys=True, ensure_ascii=False)
    value: Value = plain
    return value


def at_path(values: Mapping[str, Any], name: str) -> Any:
    """Return what a mapping has at a dotted name. Raises `LookupError` where it has nothing."""
    found: Any = values
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            raise LookupError(name)
        found = found[part]
    return found
