"""A sweep that runs: what of its plans is missing, what starts next, what has ended, and what fails
with it. It decides all that Ray Tune does not.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from raxalign.errors import DISK_FULL, StorageError
from raxalign.plan.estimates import Times
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.trial import Trial
from raxalign.stages import FITTED, TRAINED
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.files import check_writable
from raxalign.sweep import events
from raxalign.sweep.events import Hear, Said
from raxalign.sweep.job import Job, write_plan
from raxalign.sweep.mailbox import EVERY, PRINTED, Inbox
from raxalign.sweep.order import Holds, Order, SweepJob
from raxalign.sweep.progress import expected_jobs
from raxalign.sweep.room import Room, demand, describe
from raxalign.sweep.work import TRAINED_ONLY, keep_failure

SLOW = 20.0  # seconds after which a job that no worker has begun is one that waits for a node


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


def missing_stages(plan: Plan, pending: list[str], store: ArtifactStore, hear: Hear) -> list[str]:
    """Return the keys of shared stages that pending evaluations need and the storage lacks, inputs
    first.

    All data and encoders count as shared; an aligned encoder or a task's training does where
    several trials need it. Data that is there is verified, so that a damaged artifact is made again
    before it is read.
    """
    users, wanted = plan.users(), []
    there = {
        key for key, stage in plan.stages.items() if stage.prepared and store.has(stage.kind, key)
    }
    for key in plan.closure(pending, there):
        stage = plan.stages[key]
        own = stage.kind in TRAINED and users.get(key, 0) < 2
        if own or stage.inline or stage.kind == "evaluation":
            continue
        with warnings.catch_warnings(record=True) as damages:
            warnings.simplefilter("always")
            present = store.has(stage.kind, key) and (
                stage.kind in TRAINED or store.verify(stage.kind, key)
            )
        for damage in damages:
            if damage.category is UserWarning:  # those of libraries are others
                hear(Said(f"{damage.message} It is made again."))
        if not present:
            wanted.append(key)
    return wanted


def trains(plan: Plan, key: str) -> bool:
    """Check whether torch, and a GPU where workers have one, is needed to make a stage."""
    stage = plan.stages[key]
    return stage.kind in FITTED or "encoder" in stage.inputs


def jobs_of(plan: Plan, stages: list[str], trials: list[Trial], job: Job) -> list[SweepJob]:
    """Return missing shared `stages` and pending `trials` as jobs, inputs first, without costs."""
    shared, found = set(stages), list[SweepJob]()
    for key in stages:
        inputs = shared.intersection(plan.closure([key])) - {key}
        needs = Holds.WORKER if trains(plan, key) else Holds.CPUS
        found.append(SweepJob(key, is_trial=False, inputs=frozenset(inputs), needs=needs))
    for trial in trials:
        evaluations = list(trial.evaluations.values())
        closure = plan.closure(evaluations)
        own = [key for key in closure if key not in shared and plan.stages[key].kind in TRAINED]
        needs = Holds.GROUP if job.workers > 1 and plan.trains(trial) else Holds.WORKER
        parts = tuple(dict.fromkeys([*own, *evaluations]))
        read = frozenset(shared.intersection(closure))
        found.append(SweepJob(trial.key, is_trial=True, inputs=read, needs=needs, parts=parts))
    return found


@dataclass
class Summary:
    """How many trials ended now, were done before, failed (trial key -> message), were pruned."""

    done: int = 0
    cached: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    pruned: int = 0


class Sweep:
    """The jobs of a sweep and its events, which come from one thread. The first plan is at
    `job.plan`, where that is known. `room` and `free` return what the cluster has room for and
    free.
    """

    def __init__(
        self,
        source: Source,
        job: Job,
        hear: Hear,
        room: Callable[[], Room],
        free: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self._source, self._job, self._hear = source, job, hear
        self._find_room, self._find_free = room, free
        self._ledger, self._store = job.storage.ledger, job.storage.artifacts
        self._order, self._inbox = Order(), Inbox(job.scratch)
        self._plans: dict[str, tuple[Plan, str]] = {}  # job -> its plan, and where workers find it
        self._all: dict[str, Trial | Stage] = {}  # that there were
        self._ended: dict[str, str | None] = {}
        self._room, self._looked, self._asked = room(), time.monotonic(), float("-inf")
        self._starting: dict[str, float] = {}  # taken, and not begun by a worker: since when
        self._waiting, self._groups_waited = events.Waiting(), False
        self._trained: set[str] = set()  # by groups of workers, and not evaluated
        self._planned = self._grouped = self._stopped = False
        self.begun = False  # whether a worker has begun with a job
        self.counts = Summary()

    def ask(self) -> int:
        """Ask the source for trials; returns how many of them are new and have to run."""
        self._asked = time.monotonic()
        ended, self._ended = self._ended, {}
        free = self._room.free(Holds.WORKER, self._order.held)
        plan = self._source.more(ended, max(0, free - self._order.ready))
        return 0 if plan is None else self._add(plan)

    @property
    def groups(self) -> bool:
        """Whether trials with several workers are there or may come."""
        return self._grouped or (self._job.workers > 1 and not self._source.exhausted)

    def plan_of(self, key: str) -> Plan:
        """Return the plan of a job that has not ended."""
        return self._plans[key][0]

    @property
    def over(self) -> bool:
        """Whether nothing is left to start, now or later."""
        return self._order.empty and (self._source.exhausted or self._stopped)

    def take(self) -> dict[str, Any] | None:
        """Return what Tune runs next, or None while nothing is ready or nothing is free: the key of
        a trial or a stage, the place of its plan, and what it needs.
        """
        if self._stopped:
            return None
        idle = not (self._order.ready or self._order.aside) and time.monotonic() - self._asked >= 1
        if not self._source.exhausted and (self._ended or idle):
            self.ask()
        entry = self._next()
        if entry is None:
            return None
        self._starting[entry.key] = time.monotonic()
        plan, place = self._plans[entry.key]
        return {
            "trial" if entry.is_trial else "stage": entry.key,
            **({TRAINED_ONLY: True} if entry.key in self._trained else {}),
            "plan": place,
            "needs": entry.needs.name,
            "trains": entry.is_trial or trains(plan, entry.key),
        }

    def started(self, config: Mapping[str, Any]) -> None:
        """Note that a worker has begun with a job."""
        key = key_of(config)
        self.begun = True
        self._starting.pop(key, None)
        if TRAINED_ONLY not in config:
            self._hear(events.Began(self._all[key]))

    def ended(self, config: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Note that a job has ended.

        Args:
            config: What `take` gave.
            result: Its ``error``, empty where it did not fail; the ``trace`` of an unknown error;
                the ``seconds`` that a stage took; where a search has ``pruned`` it, in words.
        """
        key, error = key_of(config), result.get("error") or None
        self._starting.pop(key, None)
        lost = self._order.fail(key) if error is not None else []
        if error is None:
            self._order.finish(key)
        self._report(key, error, result.get("seconds"), result.get("pruned", ""))
        for entry in lost:
            if entry.is_trial:
                keep_failure(self._ledger, entry.key, error or "", result.get("trace", ""))
            self._report(entry.key, error)
        if error is not None and not self._stopped:
            self._look_at_storage(error)

    def trained(self, config: Mapping[str, Any]) -> None:
        """Note that a group of workers has ended and left a trial to be evaluated by one worker."""
        self._starting.pop(config["trial"], None)
        self._trained.add(config["trial"])
        self._order.set_aside(config["trial"])
        self._abandon()

    def again(self, config: Mapping[str, Any]) -> None:
        """Note that Tune has dropped a job that has not ended, so that `take` returns it again."""
        self._starting.pop(key_of(config), None)
        self._order.put_back(key_of(config))
        self._abandon()

    def delayed(self, key: str, text: str) -> None:
        """Report what holds up a job, unless it has ended."""
        if key in self._plans:
            self._hear(Said(text, self._all[key]))

    def look(self) -> None:
        """Every few seconds: count the nodes, and report how far jobs are and what waits."""
        now = time.monotonic()
        if now - self._looked < EVERY:
            return
        self._looked, self._room = now, self._find_room()
        advances = self._inbox.advances(list(self._order.running))
        waits = {key: advance.seconds for key, advance in advances.items() if advance.waiting}
        for key, advance in advances.items():
            if key not in waits:
                self._hear(events.Advanced(self._all[key], advance))
        if waits:
            each, free = demand(self._job), self._find_free()
            there = describe({name: free.get(name, 0.0) for name in each})
            text = f"waits for {self._job.workers} workers with {describe(each)} each"
            self._hear(events.GroupsWaiting(waits, f"{text}; the cluster has {there} free"))
        elif self._groups_waited:
            self._hear(events.GroupsWaiting({}))
        self._groups_waited = bool(waits)
        self.pass_on()
        waiting = events.Waiting(
            self._order.waiting,
            self._order.ready,
            sum(now - since > SLOW for since in self._starting.values()),
            describe(demand(self._job)),
        )
        if waiting != self._waiting:
            self._waiting = waiting
            self._hear(waiting)

    def pass_on(self) -> None:
        """Show what workers have told since the last look: what holds up their jobs, and what
        plug-ins have printed and logged, also of jobs that have ended.
        """
        for kind, key, text in self._inbox.lines():
            if kind != PRINTED:
                self.delayed(key, text)
            elif key in self._all:
                self._hear(Said(text, self._all[key], printed=True))

    def _next(self) -> SweepJob | None:
        """Return the next job. A group goes before what others left to be evaluated, since that
        needs one worker and would hold up the group. It is evaluated where no other job fits, and
        at the latest when all workers have one to evaluate: until then its weights must be kept.
        """
        if self._order.aside >= self._room.free(Holds.WORKER, {}):
            self._order.resume(self._order.aside)
        entry = self._order.take(self._fits)
        if entry is None and self._order.aside and self._room.fits(Holds.WORKER, self._order.held):
            self._order.resume(1)
            entry = self._order.take(self._fits)
        return entry

    def _fits(self, entry: SweepJob) -> bool:
        most = self._job.at_once if entry.is_trial else None
        running = sum(other.is_trial for other in self._order.running.values())
        if most is not None and running >= most:
            return False
        return self._room.fits(entry.needs, self._order.held)

    def _look_at_storage(self, error: str) -> None:
        """Start nothing more where the storage is full or cannot be written: it would train and be
        lost. What runs goes on.
        """
        if DISK_FULL not in error:
            try:
                check_writable(self._job.storage.root)
            except StorageError as found:
                error = str(found)
            else:
                return
        self._stopped = True
        self._abandon()
        self._hear(
            Said(
                f"nothing more is started, since results could not be kept: {error}. Run the same"
                " command again afterwards: what is there is not repeated"
            )
        )

    def _abandon(self) -> None:
        """Drop what has not started, once nothing more is to start."""
        for entry in self._order.abandon() if self._stopped else ():
            self._plans.pop(entry.key)
            self._trained.discard(entry.key)
            if entry.is_trial:
                self.counts.failed[entry.key] = "not started, since the storage failed"

    def _report(
        self, key: str, error: str | None, seconds: float | None = None, pruned: str = ""
    ) -> None:
        self._plans.pop(key)
        self._trained.discard(key)
        what = self._all[key]
        if isinstance(what, Trial):
            self._ended[key] = error
            if pruned:
                self.counts.pruned += 1
            elif error is None:
                self.counts.done += 1
            else:
                self.counts.failed[key] = error
        self._hear(events.JobEnded(what, error, None if error is not None else seconds, pruned))

    def _add(self, plan: Plan) -> int:
        """Add what is missing of a plan; returns the number of its trials that have to run."""
        done = self._ledger.keys()
        pending = [
            trial
            for trial in plan.trials
            if trial.key not in self._plans and not done.issuperset(trial.evaluations.values())
        ]
        waiting = {trial.key for trial in pending} | set(self._plans)
        self._ended |= {trial.key: None for trial in plan.trials if trial.key not in waiting}
        cached = plan.cached(done)
        self.counts.cached += cached
        wanted = [key for trial in pending for key in trial.evaluations.values()]
        missing = missing_stages(plan, wanted, self._store, self._hear)
        stages = [key for key in missing if key not in self._plans]
        place = self._job.plan or write_plan(plan, self._job.storage)
        jobs = jobs_of(plan, stages, pending, self._job)
        took = Times(plan, self._job.storage).sampled(done)
        expected = expected_jobs(plan, jobs, took)
        first, self._planned = not self._planned, True
        self._plans |= {entry.key: (plan, place) for entry in jobs}
        self._all |= {s.key: plan.by_key.get(s.key) or plan.stages[s.key] for s in jobs}
        self._grouped |= any(entry.needs is Holds.GROUP for entry in jobs)
        self._order.add(
            replace(entry, cost=times.seconds) for entry, times in zip(jobs, expected, strict=True)
        )
        workers = self._room.free(Holds.WORKER, {})
        news = events.Planned(plan, len(pending), cached, len(stages), first, expected, workers)
        self._hear(news)
        return len(pending)


def key_of(config: Mapping[str, Any]) -> str:
    """Return the key of the trial or stage that Tune was given."""
    return str(config.get("trial") or config["stage"])
