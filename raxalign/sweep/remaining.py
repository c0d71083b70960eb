"""The time left of a sweep: the cost that its plan expects, corrected by what steps took so far.
It knows neither Ray nor the storage, and no clock: times are given to it.

What the steps of a sweep are expected to take, before they run.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from raxalign.plan.estimates.cost import roughly
from raxalign.plan.estimates.forecast import (
    core_speed,
    family,
    forecast,
    other_work,
    start_seconds,
    worker_speed,
)
from raxalign.plan.plan import Plan
from raxalign.sweep.job import Job
from raxalign.sweep.order import Step

_MANY = 300  # steps: with more of them left, chains hardly matter and are not followed


@dataclass(frozen=True)
class Expected:
    """A step as it is expected.

    Attributes:
        key: The key of the stage or the trial.
        group: What steps have in common whose times err alike.
        seconds: The time that the plan's cost gives it.
        inputs: The keys of the steps that must end before it.
        family: What groups have in common that says something of each other: a slow machine is
            slow for all models, while the time of a word aligner says nothing of a training.
    """

    key: str
    group: str
    seconds: float
    inputs: frozenset[str] = frozenset()
    family: str = ""


@dataclass
class _Group:
    """Sums over the steps of a group: how long those that ended took and should have taken, and
    what the others should take.
    """

    took: float = 0.0
    expected: float = 0.0
    left: float = 0.0
    ended: int = 0


class Remaining:
    """Estimates the time left of running steps and of all. An event costs the same however many
    steps there are.
    """

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._steps: dict[str, Expected] = {}  # that have not ended
        self._since: dict[str, float] = {}
        self._groups: dict[str, _Group] = defaultdict(_Group)
        self._families: dict[str, str] = {}  # of each group
        self._whole: dict[str, _Group] = defaultdict(_Group)  # of each family

    def add(self, steps: Iterable[Expected]) -> None:
        """Add steps, inputs before what reads them."""
        for step in steps:
            if step.key not in self._steps:
                self._steps[step.key] = step
                group = self._groups[step.group]
                group.left += step.seconds
                self._families[step.group] = step.family

    def started(self, key: str, now: float) -> None:
        """Note that a step has begun; one that begins again counts from then."""
        if key in self._steps:
            self._since[key] = now

    def ended(self, key: str, now: float, seconds: float | None = None) -> None:
        """Note that a step has ended.

        Args:
            key: The step.
            now: The time in seconds.
            seconds: How long it took (None: since it began); a step that failed is not learned
                from where it has not begun.
        """
        step, since = self._steps.pop(key, None), self._since.pop(key, None)
        if step is None:
            return
        group = self._groups[step.group]
        group.left -= step.seconds
        took = seconds if seconds is not None else None if since is None else now - since
        for entry in (group, self._whole[step.family]) if took is not None else ():
            entry.took += took or 0.0
            entry.expected += step.seconds
            entry.ended += 1

    def of(self, key: str, now: float) -> float | None:
        """Return the seconds left of a running step; None where it is not known to run."""
        since = self._since.get(key)
        if since is None:
            return None
        return max(self._expectation(self._steps[key], now) - (now - since), 0.0)

    def all(self, now: float) -> float | None:
        """Return the seconds until all steps have ended; None where there are none."""
        if not self._steps:
            return None
        if len(self._steps) <= _MANY:
            return self._simulated(now)
        left = sum(self._factor(name, now) * group.left for name, group in self._groups.items())
        gone = sum(
            min(now - since, self._expectation(self._steps[key], now))
            for key, since in self._since.items()
        )
        return max(0.0, left - gone) / self.workers

    def _factor(self, name: str, now: float) -> float:
        """Return how much longer than expected the steps of a group take.

        The factor of its family counts as much as half a step: the first steps of a kind, which
        load libraries, are not the measure of the others.
        """
        whole = self._factor_of_family(self._families[name], now)
        group = self._groups[name]
        if not group.ended or not group.expected:
            return whole
        usual = group.expected / group.ended / 2
        return (group.took + whole * usual) / (group.expected + usual)

    def _factor_of_family(self, family: str, now: float) -> float:
        """Return how much longer than expected the steps of a family take; running ones count where
        they are late already.
        """
        took, expected = self._whole[family].took, self._whole[family].expected
        for key, since in self._since.items():
            step = self._steps[key]
            if step.family == family and now - since > step.seconds:
                took, expected = took + now - since, expected + step.seconds
        return took / expected if expected > 0 else 1.0

    def _expectation(self, step: Expected, now: float) -> float:
        """Return the whole time of a step; one that runs longer than expected is late by a tenth of
        the time that it has run.
        """
        found = self._factor(step.group, now) * step.seconds
        since = self._since.get(step.key)
        return found if since is None else max(found, 1.1 * (now - since))

    def _simulated(self, now: float) -> float:
        """Return when the last step ends if each starts as soon as its inputs and a worker are
        there.
        """
        ends: dict[str, float] = {}
        free = [0.0] * max(self.workers, len(self._since), 1)
        running = sorted((self.of(key, now) or 0.0, key) for key in self._since)
        for place, (left, key) in enumerate(running):
            ends[key] = free[place] = left
        heapq.heapify(free)
        factors = {name: self._factor(name, now) for name in self._groups}
        for key, step in self._steps.items():
            if key in ends:
                continue
            ready = max((ends.get(name, 0.0) for name in step.inputs), default=0.0)
            start = max(ready, heapq.heappop(free))
            ends[key] = start + factors[step.group] * step.seconds
            heapq.heappush(free, ends[key])
        return max(ends.values(), default=0.0)


def expected_steps(
    plan: Plan, steps: Sequence[Step], took: Mapping[str, float], job: Job
) -> list[Expected]:
    """Return the steps with their times: those of a trial are the times of all that it makes.

    Args:
        plan: The plan.
        steps: The steps, inputs first.
        took: What some stages and evaluations took, by key.
        job: What a worker holds.
    """
    parts = {step.key: step.parts if step.is_trial else (step.key,) for step in steps}
    left = dict.fromkeys(key for keys in parts.values() for key in keys)
    speed = worker_speed(job.threads * job.workers, gpu=job.gpus > 0)
    found = forecast(plan, took, left, speed)
    usual = found.total / len(found.seconds) if found.seconds else 1.0
    return [
        Expected(
            step.key,
            _group(plan, step),
            sum(found.seconds.get(key, usual) for key in parts[step.key]),
            step.inputs,
            "model" if step.is_trial else family(plan, step.key),
        )
        for step in steps
    ]


def first_estimate(seconds: float, workers: int) -> str:
    """Return in words when a sweep ends whose steps take so many seconds on a quiet machine, from
    the start of its workers on. Other work on this machine is named and not counted, since nobody
    knows how long it lasts.
    """
    whole = seconds + start_seconds(core_speed(), ray=False)
    note = other_work().note(workers)
    busy = f" ({note})" if note else ""
    return f"about {roughly(whole)} from now, by the size of the work{busy}"


def _group(plan: Plan, step: Step) -> str:
    if step.is_trial:
        return plan.by_key[step.key].method
    stage = plan.stages[step.key]
    return f"{stage.kind} {stage.maker}"
