"""What a grid tells while it runs; the display and the tracker listen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.trial import Trial


class Observer:
    """Hears what happens to stages and trials; the default hears nothing."""

    def grid_started(self, plan: Plan, pending: int, cached: int, stages: int) -> None:
        """A plan begins: trials to run, trials whose results are all there, shared stages to
        make.
        """

    def stage_finished(self, stage: Stage, seconds: float | None, error: str | None) -> None:
        """A shared stage was made, or failed."""

    def noticed(self, message: str) -> None:
        """Something was found that a person should know, and mended."""

    def trial_started(self, trial: Trial) -> None:
        """A trial runs on some worker."""

    def trial_finished(self, trial: Trial, error: str | None) -> None:
        """A trial ended; its results are in the ledger, or its failure."""

    def grid_finished(self, failed: int) -> None:
        """Nothing runs any more."""


@dataclass
class Several(Observer):
    """Tells several observers, in order."""

    observers: Iterable[Observer]

    def grid_started(self, plan: Plan, pending: int, cached: int, stages: int) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.grid_started(plan, pending, cached, stages)

    def stage_finished(self, stage: Stage, seconds: float | None, error: str | None) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.stage_finished(stage, seconds, error)

    def noticed(self, message: str) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.noticed(message)

    def trial_started(self, trial: Trial) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.trial_started(trial)

    def trial_finished(self, trial: Trial, error: str | None) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.trial_finished(trial, error)

    def grid_finished(self, failed: int) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.grid_finished(failed)
