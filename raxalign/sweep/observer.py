"""What a grid reports while it runs; the display and the tracker listen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.trial import Trial
from raxalign.sweep.advance import Advance
from raxalign.sweep.remaining import Expected


@dataclass(frozen=True)
class Waits:
    """What waits at a moment.

    Attributes:
        inputs: The number of stages and trials whose inputs are not there.
        workers: The number of those whose inputs are there and for which no worker is free.
        nodes: The number of those that were requested some time ago and that no worker has begun.
        each: What a worker asks for, in words.
    """

    inputs: int = 0
    workers: int = 0
    nodes: int = 0
    each: str = ""

    @property
    def described(self) -> str:
        """What waits in words: for stages, for a free worker, or for one that was requested."""
        numbers = ((self.inputs, "inputs"), (self.workers, "a worker"), (self.nodes, "its start"))
        return ", ".join(f"{number} for {what}" for number, what in numbers if number)


@dataclass(frozen=True)
class Wait:
    """What the group of a trial waits for, in words, and for how many seconds it has done so."""

    seconds: float
    text: str


class Observer:
    """A listener to what happens to stages and trials; this one ignores everything."""

    def grid_started(self, plan: Plan, pending: int, cached: int, stages: int) -> None:
        """Called when a plan begins.

        Args:
            plan: The plan.
            pending: The number of trials to run.
            cached: The number of trials whose results are all there.
            stages: The number of shared stages to make.
        """

    def grid_grew(self, plan: Plan, pending: int, cached: int, stages: int) -> None:
        """Called when a search adds trials while the sweep runs, with the plan that has them; the
        arguments are those of `grid_started`, and count what is added.
        """

    def steps_added(self, steps: Sequence[Expected], workers: int) -> None:
        """Called after `grid_started` and `grid_grew` with what the added stages and trials are
        expected to take, and with the number of workers that there is room for.
        """

    def stage_started(self, stage: Stage) -> None:
        """Called when a worker begins with a shared stage."""

    def waits_changed(self, waits: Waits) -> None:
        """Called when other numbers of stages and trials wait; at most every few seconds."""

    def stage_advanced(self, stage: Stage, advance: Advance) -> None:
        """Called every few seconds with the progress of a shared stage that is being made."""

    def stage_finished(self, stage: Stage, seconds: float | None, error: str | None) -> None:
        """Called when a shared stage was made, or failed."""

    def noticed(self, message: str) -> None:
        """Called when something was found and mended that a person should know."""

    def trial_started(self, trial: Trial) -> None:
        """Called when a trial starts on a worker."""

    def delayed(self, step: Trial | Stage, message: str) -> None:
        """Called when something holds up a trial or a shared stage that has started: its worker was
        lost, or another process makes the same.
        """

    def said(self, step: Trial | Stage, text: str) -> None:
        """Called with lines that a plug-in printed or logged while it worked on a trial or a shared
        stage.
        """

    def trial_advanced(self, trial: Trial, advance: Advance) -> None:
        """Called every few seconds with the progress of a trial that runs."""

    def trials_waiting(self, waits: Mapping[str, Wait]) -> None:
        """Called every few seconds while trials have started and wait for room on the cluster, by
        key, and once with nothing when none waits any more.
        """

    def trial_finished(self, trial: Trial, error: str | None) -> None:
        """Called when a trial ended; its results are in the ledger, or its failure."""

    def trial_pruned(self, trial: Trial, where: str) -> None:
        """Called when a search ended a trial early; `where` is its place in words."""

    def grid_finished(self, failed: int) -> None:
        """Called when nothing runs any more."""


@dataclass
class Several(Observer):
    """Several observers, which hear everything in order."""

    observers: Iterable[Observer]

    def grid_started(self, plan: Plan, pending: int, cached: int, stages: int) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.grid_started(plan, pending, cached, stages)

    def grid_grew(self, plan: Plan, pending: int, cached: int, stages: int) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.grid_grew(plan, pending, cached, stages)

    def steps_added(self, steps: Sequence[Expected], workers: int) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.steps_added(steps, workers)

    def stage_started(self, stage: Stage) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.stage_started(stage)

    def waits_changed(self, waits: Waits) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.waits_changed(waits)

    def stage_advanced(self, stage: Stage, advance: Advance) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.stage_advanced(stage, advance)

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

    def delayed(self, step: Trial | Stage, message: str) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.delayed(step, message)

    def said(self, step: Trial | Stage, text: str) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.said(step, text)

    def trial_advanced(self, trial: Trial, advance: Advance) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.trial_advanced(trial, advance)

    def trials_waiting(self, waits: Mapping[str, Wait]) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.trials_waiting(waits)

    def trial_finished(self, trial: Trial, error: str | None) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.trial_finished(trial, error)

    def trial_pruned(self, trial: Trial, where: str) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.trial_pruned(trial, where)

    def grid_finished(self, failed: int) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.grid_finished(failed)
