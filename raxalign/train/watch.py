"""A listener to the scores on development sets that a training measures while it runs, which may
end it early.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Moment:
    """Where a training is: `step` of its `steps` optimiser steps, and whether no step is left."""

    step: int
    steps: int

    @property
    def is_last(self) -> bool:
        """Whether the training is at its end."""
        return self.step >= self.steps


class Watch(Protocol):
    """What hears the scores, on the first worker alone, although all workers measure them. It may
    end a training, and changes nothing else of it.

    `languages` are those whose development sets are scored at each selection, beside those that
    choose the weights, and `metric` is the name of the score.
    """

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that are scored."""

    @property
    def metric(self) -> str:
        """The name of the score."""

    def ends(self, scores: Mapping[str, float], at: Moment) -> bool:
        """Take the scores of a selection (language -> score); return whether the training ends
        here. The same selection may come again after the death of a process.
        """


class Pruned(Exception):
    """A training was ended early by its watch. Its checkpoint is at this step, so that it can go on
    from there.
    """

    def __init__(self, name: str, at: Moment) -> None:
        self.at = at
        super().__init__(f"{name}: ended at step {at.step} of {at.steps}")
