"""The stages and trials of a sweep as jobs, with their expected times, and the order in which they
are run: each after its inputs, the longest chain first; and what trials come from. It knows neither
Ray nor the storage.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, Protocol

from raxalign.grid.estimates import Forecast
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial

_MODELS = ("encoder", "aligned", "tuned", "evaluation")  # stages that are made with an encoder


class Holds(Enum):
    """What a job holds while it runs."""

    CPUS = "the cores of one worker"
    WORKER = "one worker"
    GROUP = "a group of workers"


@dataclass(frozen=True)
class SweepJob:
    """A shared stage or a trial, under its key. Groups of a `family` say something of each other: a
    slow machine is slow for all models, while the time of a word aligner says nothing of a
    training.
    """

    UNKNOWN: ClassVar[str] = "unknown"
    """The family of jobs of which some part is like nothing that has run: until one of a group has
    ended, nothing is known of its others.
    """

    key: str
    is_trial: bool
    inputs: frozenset[str] = frozenset()  # the keys of the jobs that must end before it
    cost: float = 1.0  # its length in seconds, estimated
    needs: Holds = Holds.WORKER  # while it runs
    parts: tuple[str, ...] = ()  # the keys of the stages and evaluations that are made within it
    group: str = ""  # what jobs have in common whose times err alike
    family: str = ""

    @classmethod
    def of(
        cls,
        plan: Plan,
        stages: Sequence[str],
        trials: Iterable[Trial],
        workers: int,
        took: Mapping[str, float],
    ) -> list[SweepJob]:
        """Return missing shared stages and pending trials as jobs, inputs first, with their times:
        those of a trial are the times of all that it makes.

        Args:
            plan: The plan that has them.
            stages: The keys of the stages, inputs first.
            trials: The trials.
            workers: How many workers a trial has that trains.
            took: The seconds of some stages and evaluations, by key. A part that is like none of
                them counts as is usual for its kind.
        """
        shared, found = set(stages), list[SweepJob]()
        for key in stages:
            inputs = shared.intersection(plan.closure([key])) - {key}
            needs = Holds.WORKER if plan.stages[key].holds_worker else Holds.CPUS
            found.append(cls(key, is_trial=False, inputs=frozenset(inputs), needs=needs))
        for trial in trials:
            evaluations = list(trial.evaluations.values())
            closure = plan.closure(evaluations)
            own = [key for key in closure if key not in shared and plan.stages[key].trained]
            needs = Holds.GROUP if workers > 1 and plan.trains(trial) else Holds.WORKER
            parts = tuple(dict.fromkeys([*own, *evaluations]))
            read = frozenset(shared.intersection(closure))
            found.append(cls(trial.key, is_trial=True, inputs=read, needs=needs, parts=parts))
        return cls._expected(plan, found, took)

    @staticmethod
    def _expected(
        plan: Plan, jobs: Sequence[SweepJob], took: Mapping[str, float]
    ) -> list[SweepJob]:
        """Return jobs with their times, and with what they have in common."""
        parts = {entry.key: entry.parts if entry.is_trial else (entry.key,) for entry in jobs}
        left = dict.fromkeys(key for keys in parts.values() for key in keys)
        found = Forecast.of(plan, took, left)
        seconds = {**found.unknown, **found.seconds}

        def group_of(entry: SweepJob) -> str:
            if entry.is_trial:
                return plan.by_key[entry.key].method
            return f"{plan.stages[entry.key].kind} {plan.stages[entry.key].maker}"

        def family_of(entry: SweepJob) -> str:
            if any(key not in found.seconds for key in parts[entry.key]):
                return SweepJob.UNKNOWN
            return "model" if entry.is_trial or plan.stages[entry.key].kind in _MODELS else "data"

        return [
            replace(
                entry,
                cost=sum(seconds[key] for key in parts[entry.key]),
                group=group_of(entry),
                family=family_of(entry),
            )
            for entry in jobs
        ]


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


class Source(Protocol):
    """What a running sweep asks for trials.

    It is asked in the driver's loop, between two events, so it must answer at once. A trial whose
    evaluations are all in the ledger counts as cached and is not run; it is in `ended` of the next
    question like the others.
    """

    @property
    def exhausted(self) -> bool:
        """Whether no trial will come any more. The sweep ends when this holds and nothing runs."""

    def more(self, ended: Mapping[str, str | None], idle: int) -> Plan | None:
        """Return trials to add to the sweep, as a plan that has their stages too, or None where
        there are none at the moment. The question is repeated after each end of a trial, and at
        least once per second while workers are idle.

        Args:
            ended: The trials that ended since the last question, by key: None where their results
                are in the ledger, or else why they failed.
            idle: The number of trials for which there are workers that have nothing to do. It is a
                hint: what is added beyond it waits.
        """


@dataclass
class Whole:
    """All trials of one plan, at the first question."""

    plan: Plan
    exhausted: bool = field(default=False, init=False)

    def more(self, ended: Mapping[str, str | None], idle: int) -> Plan | None:  # noqa: ARG002
        """Return the plan once, and then nothing."""
        if self.exhausted:
            return None
        self.exhausted = True
        return self.plan
