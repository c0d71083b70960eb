"""The time left of a sweep: the cost that its plan expects, corrected by what jobs took so far.
It knows neither Ray nor the storage, and no clock: times are given to it.

What the jobs of a sweep are expected to take, before they run.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from raxalign.plan.estimates.cost import roughly
from raxalign.plan.estimates.forecast import (
    WORKERS_SECONDS,
    family,
    forecast,
    worker_speed,
)
from raxalign.plan.plan import Plan
from raxalign.sweep.job import Job
from raxalign.sweep.order import SweepJob

_MANY = 300  # jobs: with more of them left, chains hardly matter and are not followed


@dataclass(frozen=True)
class Expected:
    """A job as it is expected.

    Attributes:
        key: The key of the stage or the trial.
        group: What jobs have in common whose times err alike.
        seconds: The time that the plan's cost gives it.
        inputs: The keys of the jobs that must end before it.
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
    """Sums over the jobs of a group: how long those that ended took and should have taken, and
    what the others should take.
    """

    took: float = 0.0
    expected: float = 0.0
    left: float = 0.0
    ended: int = 0


class Remaining:
    """Estimates the time left of running jobs and of all. An event costs the same however many
    jobs there are.
    """

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._jobs: dict[str, Expected] = {}  # that have not ended
        self._since: dict[str, float] = {}
        self._groups: dict[str, _Group] = defaultdict(_Group)
        self._families: dict[str, str] = {}  # of each group
        self._whole: dict[str, _Group] = defaultdict(_Group)  # of each family

    def add(self, jobs: Iterable[Expected]) -> None:
        """Add jobs, inputs before what reads them."""
        for entry in jobs:
            if entry.key not in self._jobs:
                self._jobs[entry.key] = entry
                group = self._groups[entry.group]
                group.left += entry.seconds
                self._families[entry.group] = entry.family

    def started(self, key: str, now: float) -> None:
        """Note that a job has begun; one that begins again counts from then."""
        if key in self._jobs:
            self._since[key] = now

    def ended(self, key: str, now: float, seconds: float | None = None) -> None:
        """Note that a job has ended.

        Args:
            key: The job.
            now: The time in seconds.
            seconds: How long it took (None: since it began); a job that failed is not learned
                from where it has not begun.
        """
        entry, since = self._jobs.pop(key, None), self._since.pop(key, None)
        if entry is None:
            return
        group = self._groups[entry.group]
        group.left -= entry.seconds
        took = seconds if seconds is not None else None if since is None else now - since
        for sums in (group, self._whole[entry.family]) if took is not None else ():
            sums.took += took or 0.0
            sums.expected += entry.seconds
            sums.ended += 1

    def of(self, key: str, now: float) -> float | None:
        """Return the seconds left of a running job; None where it is not known to run."""
        since = self._since.get(key)
        if since is None:
            return None
        return max(self._expectation(self._jobs[key], now) - (now - since), 0.0)

    def all(self, now: float) -> float | None:
        """Return the seconds until all jobs have ended; None where there are none."""
        if not self._jobs:
            return None
        if len(self._jobs) <= _MANY:
            return self._simulated(now)
        left = sum(self._factor(name, now) * group.left for name, group in self._groups.items())
        gone = sum(
            min(now - since, self._expectation(self._jobs[key], now))
            for key, since in self._since.items()
        )
        return max(0.0, left - gone) / self.workers

    def _factor(self, name: str, now: float) -> float:
        """Return how much longer than expected the jobs of a group take.

        The factor of its family counts as much as half a job: the first jobs of a kind, which
        load libraries, are not the measure of the others.
        """
        whole = self._factor_of_family(self._families[name], now)
        group = self._groups[name]
        if not group.ended or not group.expected:
            return whole
        usual = group.expected / group.ended / 2
        return (group.took + whole * usual) / (group.expected + usual)

    def _factor_of_family(self, family: str, now: float) -> float:
        """Return how much longer than expected the jobs of a family take; running ones count where
        they are late already.
        """
        took, expected = self._whole[family].took, self._whole[family].expected
        for key, since in self._since.items():
            entry = self._jobs[key]
            if entry.family == family and now - since > entry.seconds:
                took, expected = took + now - since, expected + entry.seconds
        return took / expected if expected > 0 else 1.0

    def _expectation(self, entry: Expected, now: float) -> float:
        """Return the whole time of a job; one that runs longer than expected is late by a tenth of
        the time that it has run.
        """
        found = self._factor(entry.group, now) * entry.seconds
        since = self._since.get(entry.key)
        return found if since is None else max(found, 1.1 * (now - since))

    def _simulated(self, now: float) -> float:
        """Return when the last job ends if each starts as soon as its inputs and a worker are
        there.
        """
        ends: dict[str, float] = {}
        free = [0.0] * max(self.workers, len(self._since), 1)
        running = sorted((self.of(key, now) or 0.0, key) for key in self._since)
        for place, (left, key) in enumerate(running):
            ends[key] = free[place] = left
        heapq.heapify(free)
        factors = {name: self._factor(name, now) for name in self._groups}
        for key, entry in self._jobs.items():
            if key in ends:
                continue
            ready = max((ends.get(name, 0.0) for name in entry.inputs), default=0.0)
            start = max(ready, heapq.heappop(free))
            ends[key] = start + factors[entry.group] * entry.seconds
            heapq.heappush(free, ends[key])
        return max(ends.values(), default=0.0)


def expected_jobs(
    plan: Plan, jobs: Sequence[SweepJob], took: Mapping[str, float], job: Job
) -> list[Expected]:
    """Return the jobs with their times: those of a trial are the times of all that it makes.

    Args:
        plan: The plan.
        jobs: The jobs, inputs first.
        took: What some stages and evaluations took, by key.
        job: What a worker holds.
    """
    parts = {entry.key: entry.parts if entry.is_trial else (entry.key,) for entry in jobs}
    left = dict.fromkeys(key for keys in parts.values() for key in keys)
    speed = worker_speed(job.threads * job.workers, gpu=job.gpus > 0)
    found = forecast(plan, took, left, speed)
    usual = found.total / len(found.seconds) if found.seconds else 1.0
    return [
        Expected(
            entry.key,
            _group(plan, entry),
            sum(found.seconds.get(key, usual) for key in parts[entry.key]),
            entry.inputs,
            "model" if entry.is_trial else family(plan, entry.key),
        )
        for entry in jobs
    ]


def first_estimate(seconds: float) -> str:
    """Return in words when a sweep ends whose jobs take so many seconds, from the start of its
    workers on.
    """
    return f"about {roughly(seconds + WORKERS_SECONDS)} from now, by the size of the work"


def _group(plan: Plan, entry: SweepJob) -> str:
    if entry.is_trial:
        return plan.by_key[entry.key].method
    stage = plan.stages[entry.key]
    return f"{stage.kind} {stage.maker}"
