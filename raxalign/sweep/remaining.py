"""The time left of a sweep: the cost that its plan expects, corrected by what jobs took so far.
It knows neither Ray nor the storage, and no clock: times are given to it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from raxalign.plan.estimates.forecast import family, forecast, worker_speed
from raxalign.plan.plan import Plan
from raxalign.sweep.job import Job
from raxalign.sweep.order import SweepJob

UNKNOWN = "unknown"
"""The family of jobs of which the plan cannot estimate some part: until one of them has ended,
nothing is known of the others.
"""
_MANY = 300  # jobs: with more of them left, chains hardly matter and are not followed


@dataclass(frozen=True)
class Expected:
    """A job as it is expected. Groups of a `family` say something of each other: a slow machine is
    slow for all models, while the time of a word aligner says nothing of a training.
    """

    key: str  # of the stage or the trial
    group: str  # what jobs have in common whose times err alike
    seconds: float  # by the plan's cost
    inputs: frozenset[str] = frozenset()  # the keys of the jobs that must end before it
    family: str = ""


@dataclass
class _Sums:
    """How long the jobs of a group or family that ended took and should have taken, and what the
    others should take.
    """

    took: float = 0.0
    expected: float = 0.0
    left: float = 0.0  # expected of those that have not ended
    ended: int = 0


class Remaining:
    """Estimates the time left of running jobs and of all; events cost the same with many jobs."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._jobs: dict[str, Expected] = {}  # that have not ended
        self._since: dict[str, float] = {}
        self._groups: dict[tuple[str, str], _Sums] = defaultdict(_Sums)  # by family and group
        self._families: dict[str, _Sums] = defaultdict(_Sums)
        self._without = 0  # jobs without an estimate that have not ended

    def add(self, jobs: Iterable[Expected]) -> None:
        """Add jobs, inputs before what reads them."""
        for entry in jobs:
            if entry.key not in self._jobs:
                self._jobs[entry.key] = entry
                self._groups[entry.family, entry.group].left += entry.seconds
                self._without += entry.family == UNKNOWN

    def started(self, key: str, now: float) -> None:
        """Note that a job has begun; one that begins again counts from then."""
        if key in self._jobs:
            self._since[key] = now

    def ended(self, key: str, now: float, seconds: float | None = None) -> None:
        """Note that a job has ended that took some seconds (None: since it began). One that failed
        before it began teaches nothing.
        """
        entry, since = self._jobs.pop(key, None), self._since.pop(key, None)
        if entry is None:
            return
        group = self._groups[entry.family, entry.group]
        group.left -= entry.seconds
        self._without -= entry.family == UNKNOWN
        if seconds is None and since is None:
            return
        for sums in (group, self._families[entry.family]):
            sums.took += now - since if seconds is None and since is not None else seconds or 0.0
            sums.expected += entry.seconds
            sums.ended += 1

    def of(self, key: str, now: float) -> float | None:
        """Return the seconds left of a running job; None where it is not known to run, or how long
        it takes.
        """
        since = self._since.get(key)
        if since is None:
            return None
        if self._jobs[key].family == UNKNOWN and not self._families[UNKNOWN].ended:
            return None
        return self._left(key, now)

    def all(self, now: float) -> float | None:
        """Return the seconds until all jobs have ended; None where there are none, or where it is
        not known how long some take.
        """
        if not self._jobs or (self._without and not self._families[UNKNOWN].ended):
            return None
        if len(self._jobs) <= _MANY:
            return self._simulated(now)
        left = sum(self._factor(*name, now) * group.left for name, group in self._groups.items())
        gone = sum(
            min(now - since, self._expectation(self._jobs[key], now))
            for key, since in self._since.items()
        )
        return max(0.0, left - gone) / self.workers

    def _left(self, key: str, now: float) -> float:
        """Return the seconds left of a job that runs."""
        return max(self._expectation(self._jobs[key], now) - (now - self._since[key]), 0.0)

    def _factor(self, family: str, name: str, now: float) -> float:
        """Return how much longer than expected the jobs of a group take.

        The factor of its family counts as much as half a job: the first jobs of a kind, which
        load libraries, are not the measure of the others.
        """
        group, whole = self._groups[family, name], self._families[family]
        took, expected = whole.took, whole.expected
        usual = took / expected if expected > 0 else 1.0
        for key, since in self._since.items():  # running ones count where they are late already
            entry = self._jobs[key]
            if entry.family == family and now - since > usual * entry.seconds:
                took, expected = took + now - since, expected + entry.seconds
        factor = took / expected if expected > 0 else 1.0
        if not group.ended or not group.expected:
            return factor
        half = group.expected / group.ended / 2
        return (group.took + factor * half) / (group.expected + half)

    def _expectation(self, entry: Expected, now: float) -> float:
        """Return the whole time of a job; one that runs longer than expected is late by a tenth of
        the time that it has run.
        """
        found = self._factor(entry.family, entry.group, now) * entry.seconds
        since = self._since.get(entry.key)
        return found if since is None else max(found, 1.1 * (now - since))

    def _simulated(self, now: float) -> float:
        """Return when the last job ends if each starts as soon as inputs and a worker are there."""
        ends: dict[str, float] = {}
        free = [0.0] * max(self.workers, len(self._since), 1)
        running = sorted((self._left(key, now), key) for key in self._since)
        for place, (left, key) in enumerate(running):
            ends[key] = free[place] = left
        heapq.heapify(free)
        factors = {name: self._factor(*name, now) for name in self._groups}
        for key, entry in self._jobs.items():
            if key in ends:
                continue
            ready = max((ends.get(name, 0.0) for name in entry.inputs), default=0.0)
            start = max(ready, heapq.heappop(free))
            ends[key] = start + factors[entry.family, entry.group] * entry.seconds
            heapq.heappush(free, ends[key])
        return max(ends.values(), default=0.0)


def expected_jobs(
    plan: Plan, jobs: Sequence[SweepJob], took: Mapping[str, float], job: Job
) -> list[Expected]:
    """Return the jobs, inputs first, with their times: those of a trial are the times of all that
    it makes. `took` has the seconds of some stages and evaluations, by key. A part without an
    estimate counts as much as the mean of the others.
    """
    parts = {entry.key: entry.parts if entry.is_trial else (entry.key,) for entry in jobs}
    left = dict.fromkeys(key for keys in parts.values() for key in keys)
    speed = worker_speed(job.threads * job.workers, gpu=bool(job.gpus))
    found = forecast(plan, took, left, speed)
    usual = found.total / len(found.seconds) if found.seconds else 1.0

    def group_of(entry: SweepJob) -> str:
        if entry.is_trial:
            return plan.by_key[entry.key].method
        return f"{plan.stages[entry.key].kind} {plan.stages[entry.key].maker}"

    def family_of(entry: SweepJob) -> str:
        if any(key not in found.seconds for key in parts[entry.key]):
            return UNKNOWN
        return "model" if entry.is_trial else family(plan, entry.key)

    return [
        Expected(
            entry.key,
            group_of(entry),
            sum(found.seconds.get(key, usual) for key in parts[entry.key]),
            entry.inputs,
            family_of(entry),
        )
        for entry in jobs
    ]
