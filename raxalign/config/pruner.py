"""The `pruner` of a search: which trials end before their trainings do."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from raxalign.config.params import BaseParams

REDUCTION = 3


class Pruner(BaseParams):
    """Ends the trials whose scores on development sets are far behind those of the others.

    Trials are compared at the dev selections of the training of the task that is searched by: the
    moments at which it scores development sets to choose its weights.
    """

    name: Literal["none", "asha", "median"] = Field(
        "none",
        description=(
            "Which trials end early: `none`; `asha` (at a few rungs, those that are not among the"
            " best; Li et al. 2020) or `median` (at each dev selection, those below the median;"
            " Golovin et al. 2017)."
        ),
    )
    warmup: int = Field(
        0, ge=0, description="Number of dev selections of each trial at which it is not pruned."
    )
    startup: int = Field(
        4,
        ge=1,
        description=(
            "Number of other trials with a score at a dev selection without which nothing is pruned"
            " there."
        ),
    )
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
