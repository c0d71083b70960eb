"""The order in which stages and trials of a sweep are run: each after its inputs, the longest chain
first. It knows neither Ray nor the storage.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum


class Holds(Enum):
    """What a job holds while it runs."""

    CPUS = "the cores of one worker"
    WORKER = "one worker"
    GROUP = "a group of workers"


@dataclass(frozen=True)
class SweepJob:
    """A shared stage or a trial, under its key."""

    key: str
    is_trial: bool
    inputs: frozenset[str] = frozenset()  # the keys of the jobs that must end before it
    cost: float = 1.0  # its length in seconds, estimated
    needs: Holds = Holds.WORKER  # while it runs
    parts: tuple[str, ...] = ()  # the keys of the stages and evaluations that are made within it


@dataclass
class Order:
    """The jobs that are not done, and which of them may start.

    Ready jobs are kept in one heap for each of `Holds`, stages apart from trials. Adding, taking
    and ending a job take logarithmic time.
    """

    _jobs: dict[str, SweepJob] = field(default_factory=dict)
    _missing: dict[str, int] = field(default_factory=dict)  # job -> inputs that have not ended
    _users: dict[str, list[str]] = field(default_factory=dict)
    _longest: dict[str, float] = field(default_factory=dict)  # from the start of a job to the end
    _ready: dict[tuple[Holds, bool], list[tuple[float, int, str]]] = field(default_factory=dict)
    _aside: list[str] = field(default_factory=list)  # trained, and not evaluated
    _number: int = 0
    running: dict[str, SweepJob] = field(default_factory=dict)
    held: Counter[Holds] = field(default_factory=Counter)

    def add(self, jobs: Iterable[SweepJob]) -> None:
        """Add jobs, inputs before what reads them. Inputs that are not among the jobs of the
        order have ended. A job that is there already is not added again.
        """
        added = [job for job in jobs if job.key not in self._jobs]
        self._jobs |= {job.key: job for job in added}
        for job in added:
            inputs = [key for key in job.inputs if key in self._jobs]
            self._missing[job.key] = len(inputs)
            for key in inputs:
                self._users.setdefault(key, []).append(job.key)
        for job in reversed(added):
            after = (self._longest.get(user, 0.0) for user in self._users.get(job.key, ()))
            self._longest[job.key] = job.cost + max(after, default=0.0)
        for job in added:
            if not self._missing[job.key]:
                self._make_ready(job)

    def take(self, fits: Callable[[SweepJob], bool]) -> SweepJob | None:
        """Return the ready job with the longest chain that there is room for; it then counts as
        running. While a group waits for room, nothing with a shorter chain starts: the group would
        wait without an end.
        """
        heaps = sorted((heap for heap in self._ready.values() if heap), key=lambda heap: heap[0])
        for heap in heaps:
            job = self._jobs[heap[0][2]]
            if fits(job):
                heapq.heappop(heap)
                del self._missing[job.key]
                self.running[job.key] = job
                self.held[job.needs] += 1
                return job
            if job.needs is Holds.GROUP:
                return None
        return None

    def finish(self, key: str) -> None:
        """Count a running job as done: what waits for it alone is ready."""
        self._end(key)
        for user in self._users.pop(key, ()):
            if user in self._missing:
                self._missing[user] -= 1
                if not self._missing[user]:
                    self._make_ready(self._jobs[user])

    def fail(self, key: str) -> list[SweepJob]:
        """Count a running job as failed; return what depends on it and never runs, inputs first."""
        self._end(key)
        lost: dict[str, SweepJob] = {}
        stack = [key]
        while stack:
            for user in self._users.pop(stack.pop(), ()):
                if self._missing.pop(user, None) is not None:
                    lost[user] = self._jobs.pop(user)
                    del self._longest[user]
                    stack.append(user)
        return list(lost.values())

    def set_aside(self, key: str) -> None:
        """Keep what a group has trained. What is left of the job needs one worker, and is ready
        once `resume` is called.
        """
        self.held[self.running.pop(key).needs] -= 1
        self._jobs[key] = replace(self._jobs[key], needs=Holds.WORKER)
        self._aside.append(key)

    def abandon(self) -> list[SweepJob]:
        """Drop all jobs but those that run; returns them, inputs first."""
        waiting = {*self._missing, *self._aside}
        dropped = [job for key, job in self._jobs.items() if key in waiting]
        for job in dropped:
            del self._jobs[job.key], self._longest[job.key]
        self._missing.clear()
        self._aside.clear()
        self._ready.clear()
        return dropped

    def put_back(self, key: str) -> None:
        """Make a running job ready again: what ran it has lost it."""
        self.held[self.running.pop(key).needs] -= 1
        self._missing[key] = 0
        self._make_ready(self._jobs[key])

    def resume(self, count: int) -> None:
        """Make the first jobs that were set aside ready. They come before all others."""
        for key in self._aside[:count]:
            self._missing[key], self._longest[key] = 0, math.inf
            self._make_ready(self._jobs[key])
        del self._aside[:count]

    @property
    def aside(self) -> int:
        """The number of jobs that are set aside."""
        return len(self._aside)

    @property
    def ready(self) -> int:
        """The number of jobs that could start."""
        return sum(map(len, self._ready.values()))

    @property
    def waiting(self) -> int:
        """The number of trials and stages whose inputs have not all ended."""
        return len(self._missing) - self.ready

    @property
    def empty(self) -> bool:
        """Whether no job is left that could be taken now or later. What runs may be put back or
        set aside, and is then taken again.
        """
        return not (self._missing or self._aside or self.running)

    def _make_ready(self, job: SweepJob) -> None:
        self._number += 1
        entry = (-self._longest[job.key], self._number, job.key)
        heapq.heappush(self._ready.setdefault((job.needs, job.is_trial), []), entry)

    def _end(self, key: str) -> None:
        self.held[self.running.pop(key).needs] -= 1
        del self._jobs[key], self._longest[key]
