"""The `search` section of a grid file: how values are suggested, and what they are judged by; and
the spaces of a search, the values that one param of a method may take.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from pydantic import Field, field_validator, model_validator

from raxalign.options.params import BaseParams

Kind = Literal["log_uniform", "uniform", "int", "choice"]
DIGITS = 3
"""Significant digits of suggested real numbers, so that they can be read and equal ones merge."""

Value = bool | int | float | str | None
"""A value of a space as a study keeps it: a mapping among the choices is its JSON text."""


@dataclass(frozen=True)
class Space:
    """A range from `low` to `high`, both included, or the `choices`; `name` is the param's dotted
    YAML name (``lambda``, ``lora.rank``).
    """

    KINDS: ClassVar[tuple[str, ...]] = get_args(Kind)
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
            label = self.value_of(value)
            for choice in self.choices:
                if str(choice) == str(label):
                    return choice
        elif isinstance(value, int | float) and not isinstance(value, bool):
            inside = self.low <= value <= self.high
            if inside and (self.kind != "int" or float(value).is_integer()):
                return int(value) if self.kind == "int" else float(value)
        raise LookupError(f"{self.name}: {value!r}")

    def among(self, params: Mapping[str, Any]) -> Value:
        """Return the value of the space that is among the values of all params. Raises
        `LookupError` where there is none, or the space does not have it.
        """
        found: Any = params
        for part in self.name.split("."):
            if not isinstance(found, Mapping) or part not in found:
                raise LookupError(self.name)
            found = found[part]
        return self.find(found)

    @staticmethod
    def value_of(plain: Any) -> Value:
        """Return a param's value as a study keeps it."""
        if isinstance(plain, Mapping | list):
            return json.dumps(plain, sort_keys=True, ensure_ascii=False)
        value: Value = plain
        return value

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

    def values(self) -> Sequence[Value]:
        """Return all values of choices, or of a range of whole numbers."""
        return self.choices or range(int(self.low), int(self.high) + 1)

    def told(self) -> str:
        """Describe the space in a few words: ``lambda 0.01 to 10 (log)``."""
        if self.kind == "choice":
            return f"{self.name} {' | '.join(map(str, self.choices))}"
        return f"{self.name} {self.low:g} to {self.high:g}{' (log)' if self.log else ''}"


_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(trials|trial|s|min|h|d)")
_FORMS = "write for example `40 trials`, `90 min` or `6 h`"


class Search(BaseParams):
    """Suggests values for the params that have a space, and judges them on development sets."""

    sampler: Literal["tpe", "random"] = "tpe"
    """How values are suggested: `tpe` (learns from all trials so far, all params together) or
    `random`.
    """
    trials: int | None = Field(None, ge=1)
    """How many trials each study has; the same as `budget: N trials`."""
    budget: str | None = None
    """What each study may spend, the same for every method: `40 trials`, or worker time such as
    `6 h`, after which nothing more is suggested.
    """
    timeout: str | None = None
    """After this time (`2 h`) one run of the search suggests nothing more. Run again, it goes on.
    """
    metric: str
    """What trials are judged by: task/lang/metric, for example `xnli/avg_zero_shot/accuracy`
    (`{lang}` and `{pivot}` stand for the study's languages).
    """
    split: Literal["dev"] = "dev"
    """Where the metric is measured: on development sets, and nowhere else."""
    confirm: int = Field(5, ge=0)
    """How many fresh seeds the best configuration of each study is run again with. Only these runs'
    test values are shown in tables.
    """
    seed: int = Field(0, ge=0)
    """The seed of the suggestions."""
    pruner: Literal["none", "median", "asha"] = "none"
    """Which trials end before their trainings do, as Optuna has it: `none`; `median` (at each dev
    selection, those below the median of the trials that are done; Golovin et al. 2017) or `asha`
    (at a few rungs, those that are not among the best; Li et al. 2020).
    """

    @field_validator("budget", "timeout")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        if value is not None and not _AMOUNT.fullmatch(value.strip()):
            raise ValueError(f"{value!r} is not an amount; {_FORMS}")
        return value

    @model_validator(mode="after")
    def _has_an_end(self) -> Search:
        if self.timeout is not None and self.timeout.strip().endswith(("trial", "trials")):
            raise ValueError(f"timeout: {self.timeout!r} is not a time; write for example `2 h`")
        if self.trials is None and self.budget is None:
            raise ValueError("says nothing about its end; add `budget: 40 trials`")
        if self.trials is not None and _trials(self.budget) not in (None, self.trials):
            raise ValueError("`trials` and `budget` disagree; keep one of them")
        return self

    @property
    def most(self) -> int | None:
        """The largest number of trials of a study; None where only its time is limited."""
        return self.trials if self.trials is not None else _trials(self.budget)

    @property
    def seconds(self) -> float | None:
        """The worker time that the trials of a study may take; None where it is not limited."""
        return _seconds(self.budget)

    @property
    def timeout_seconds(self) -> float | None:
        """Seconds after which one run of the search suggests nothing more."""
        return _seconds(self.timeout)


def _trials(amount: str | None) -> int | None:
    found = _AMOUNT.fullmatch(amount.strip()) if amount is not None else None
    return int(float(found[1])) if found and found[2].startswith("trial") else None


def _seconds(amount: str | None) -> float | None:
    found = _AMOUNT.fullmatch(amount.strip()) if amount is not None else None
    return float(found[1]) * _SECONDS[found[2]] if found and found[2] in _SECONDS else None
