"""The `search` section of a grid file: how values are suggested, and what they are judged by.

The `pruner` of a search: which trials end before their trainings do.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from raxalign.config.params import BaseParams

REDUCTION = 3


class Pruner(BaseParams):
    """Ends the trials whose scores on development sets are far behind those of the others.

    Trials are compared at the dev selections of the training of the task that is searched by: the
    moments at which it scores development sets to choose its weights.
    """

    name: Literal["none", "asha", "median"] = "none"
    """Which trials end early: `none`; `asha` (at a few rungs, those that are not among the best; Li
    et al. 2020) or `median` (at each dev selection, those below the median; Golovin et al. 2017).
    """
    warmup: int = Field(0, ge=0)
    """Number of dev selections of each trial at which it is not pruned."""
    startup: int = Field(4, ge=1)
    """Number of other trials with a score at a dev selection without which nothing is pruned there.
    """
    reduction: int | None = Field(
        None,
        ge=2,
        description=(
            "η of `asha`: at a rung the best 1/η of the trials go on, and each rung has η times as"
            f" many dev selections as the one before (none: {REDUCTION})."
        ),
    )

    @model_validator(mode="after")
    def _means_something(self) -> Pruner:
        if self.name == "none" and self.model_fields_set - {"name"}:
            raise ValueError("has no rule; add `name: asha` or `name: median`")
        if self.reduction is not None and self.name != "asha":
            raise ValueError("`reduction` is for asha alone; leave it out, or write `name: asha`")
        return self

    @property
    def prunes(self) -> bool:
        """Whether there is a rule."""
        return self.name != "none"

    @property
    def eta(self) -> int:
        """The reduction factor."""
        return self.reduction or REDUCTION


TRIALS = "40 trials"
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(trials|trial|s|min|h|d)")
_FORMS = "write for example `40 trials`, `90 min` or `6 h`"


class Search(BaseParams):
    """Suggests values for the params that have a space, and judges them on development sets."""

    sampler: Literal["tpe", "random", "qmc", "grid", "nsga2"] = "tpe"
    """How values are suggested: `tpe` (learns from all trials so far, all params together),
    `random`, `qmc` (a scrambled Sobol sequence, which covers the space evenly), `grid` (equal
    distances) or `nsga2` (evolution, for two metrics).
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
    metric: tuple[str, ...] = Field(min_length=1, max_length=2)
    """What trials are judged by: task/lang/metric, for example `xnli/avg_zero_shot/accuracy`
    (`{lang}` and `{pivot}` stand for the study's languages). A list of two is judged by both, and
    the study has a Pareto front.
    """
    split: Literal["dev"] = "dev"
    """Where the metric is measured: on development sets, and nowhere else."""
    confirm: int = Field(5, ge=0)
    """How many fresh seeds the best point of each study is run again with. Only these runs' test
    values are shown in tables.
    """
    seed: int = Field(0, ge=0)
    """The seed of the suggestions."""
    pruner: Pruner = Pruner()
    """Which trials end before their trainings do: `asha`, `median`, or a mapping with `name`,
    `warmup`, `startup` and `reduction`.
    """

    @field_validator("metric", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

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
            raise ValueError(f"says nothing about its end; add `budget: {TRIALS}`")
        if self.trials is not None and _trials(self.budget) not in (None, self.trials):
            raise ValueError("`trials` and `budget` disagree; keep one of them")
        if self.sampler == "grid" and self.most is None:
            raise ValueError("`sampler: grid` requires a number of trials; add `trials: 40`")
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
