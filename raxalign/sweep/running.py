"""A sweep that runs: what starts next, what has ended, and what fails with it. It decides all that
Ray Tune does not.

What is missing of a plan, as the steps of a sweep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from raxalign.errors import DISK_FULL, UNSTARTED, StorageError
from raxalign.plan.estimates.cost import sampled_seconds
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.trial import Trial
from raxalign.stages import TRAINED
from raxalign.sweep.advance import EVERY, Notes
from raxalign.sweep.job import Job, write_plan
from raxalign.sweep.messages import SAID, Notices
from raxalign.sweep.observer import Observer, Waits
from raxalign.sweep.order import Needs, Order, Step
from raxalign.sweep.remaining import Expected, expected_steps
from raxalign.sweep.room import Room, demand, describe
from raxalign.sweep.source import Source
from raxalign.sweep.stage import missing_stages, trains
from raxalign.sweep.trial import TRAINED_ONLY, keep_failure


def steps_of(plan: Plan, stages: list[str], trials: list[Trial], job: Job) -> list[Step]:
    """Return missing stages and pending trials as steps, inputs first, without their costs.

    Args:
        plan: The plan.
        stages: The keys of the missing shared stages, inputs first.
        trials: The pending trials.
        job: What a worker holds, and how many work on a training trial.
    """
    shared, found = set(stages), list[Step]()
    for key in stages:
        inputs = shared.intersection(plan.closure([key])) - {key}
        needs = Needs.WORKER if trains(plan, key) else Needs.CPUS
        found.append(Step(key, is_trial=False, inputs=frozenset(inputs), needs=needs))
    for trial in trials:
        evaluations = list(trial.evaluations.values())
        closure = plan.closure(evaluations)
        own = [key for key in closure if key not in shared and plan.stages[key].kind in TRAINED]
        needs = Needs.GROUP if job.workers > 1 and plan.trains(trial) else Needs.WORKER
        parts = tuple(dict.fromkeys([*own, *evaluations]))
        read = frozenset(shared.intersection(closure))
        found.append(Step(trial.key, is_trial=True, inputs=read, needs=needs, parts=parts))
    return found


def with_costs(steps: Iterable[Step], expected: Iterable[Expected]) -> list[Step]:
    """Return steps with the times that are expected of them, which are given in their order."""
    pairs = zip(steps, expected, strict=True)
    return [replace(step, cost=times.seconds) for step, times in pairs]


SLOW = 20.0  # seconds after which a step that no worker has begun is one that waits for a node


@dataclass
class Counts:
    """What a sweep has met so far: trials that ended now, that were done before, that failed (trial
    key -> message), and that were pruned.
    """

    done: int = 0
    cached: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    pruned: int = 0


class Sweep:
    """The steps of a sweep and its events, which come from one thread."""

    def __init__(
        self, source: Source, job: Job, observer: Observer, room: Callable[[], Room]
    ) -> None:
        """Make a sweep without steps.

        Args:
            source: Where its trials come from.
            job: What workers need to know. The first plan is at `job.plan`, where that is known.
            observer: Receives what happens.
            room: Returns what the cluster has room for at the moment.
        """
        self._source, self._job, self._observer, self._find_room = source, job, observer, room
        self._ledger, self._store = job.storage.ledger, job.storage.artifacts
        self._order, self._notes = Order(), Notes(job.scratch)
        self._notices, self._said = Notices(job.scratch), Notices(job.scratch, SAID)
        self._plans: dict[str, tuple[Plan, str]] = {}  # step -> its plan, and where workers find it
        self._ended: dict[str, str | None] = {}
        self._room, self._looked, self._asked = room(), time.monotonic(), float("-inf")
        self._starting: dict[str, float] = {}  # taken, and not begun by a worker: since when
        self._waits = Waits()
        self._steps: dict[str, Trial | Stage] = {}  # all that there were
        self._trained: set[str] = set()  # by groups of workers, and not evaluated
        self._begun = self._grouped = self._stopped = False
        self.counts = Counts()

    def ask(self) -> int:
        """Ask the source for trials; returns how many of them are new and have to run."""
        self._asked = time.monotonic()
        ended, self._ended = self._ended, {}
        free = self._room.free(Needs.WORKER, self._order.held)
        plan = self._source.more(ended, max(0, free - self._order.ready))
        return 0 if plan is None else self._add(plan)

    @property
    def groups(self) -> bool:
        """Whether trials with several workers are there or may come."""
        return self._grouped or (self._job.workers > 1 and not self._source.exhausted)

    @property
    def running_trials(self) -> list[str]:
        """The keys of the trials that were started and have not ended."""
        return [key for key, step in self._order.running.items() if step.is_trial]

    def plan_of(self, key: str) -> Plan:
        """Return the plan of a step that has not ended."""
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
        step = self._next()
        if step is None:
            return None
        self._starting[step.key] = time.monotonic()
        plan, place = self._plans[step.key]
        made: dict[str, Any] = {"trial": step.key} if step.is_trial else {"stage": step.key}
        if step.key in self._trained:
            made[TRAINED_ONLY] = True
        return {
            **made,
            "plan": place,
            "needs": step.needs.name,
            "trains": step.is_trial or trains(plan, step.key),
        }

    def started(self, config: Mapping[str, Any]) -> None:
        """Note that a worker has begun with a step."""
        key = config.get("trial") or config["stage"]
        self._starting.pop(key, None)
        plan = self._plans[key][0]
        if TRAINED_ONLY in config:
            return
        if "trial" in config:
            self._observer.trial_started(plan.by_key[key])
        else:
            self._observer.stage_started(plan.stages[key])

    def ended(
        self,
        config: Mapping[str, Any],
        error: str | None,
        trace: str = "",
        seconds: float = 0.0,
        pruned: str = "",
    ) -> None:
        """Note that a step has ended.

        Args:
            config: What `take` gave.
            error: Why it failed; None where it did not.
            trace: The traceback of the error, where it is not known.
            seconds: How long a stage took.
            pruned: Where a search ended the trial early, in words; empty where it did not.
        """
        key = config.get("trial") or config["stage"]
        self._starting.pop(key, None)
        lost = self._order.fail(key) if error is not None else []
        if error is None:
            self._order.finish(key)
        if pruned:
            self._end_pruned(key, pruned)
        else:
            self._report(key, is_trial="trial" in config, error=error, seconds=seconds)
        for step in lost:
            if step.is_trial:
                keep_failure(self._ledger, step.key, error or "", trace)
            self._report(step.key, is_trial=step.is_trial, error=error, seconds=0.0)
        if error is not None and not self._stopped:
            self._look_at_storage(error)

    def trained(self, config: Mapping[str, Any]) -> None:
        """Note that a group of workers has ended and left a trial to be evaluated by one worker."""
        self._starting.pop(config["trial"], None)
        self._trained.add(config["trial"])
        self._order.set_aside(config["trial"])
        self._abandon()

    def again(self, config: Mapping[str, Any]) -> None:
        """Note that Tune has dropped a step that has not ended, so that `take` returns it again."""
        key = config.get("trial") or config["stage"]
        self._starting.pop(key, None)
        self._order.put_back(key)
        self._abandon()

    def delayed(self, key: str, text: str) -> None:
        """Report what holds up a step, unless it has ended."""
        if key in self._plans:
            plan, _ = self._plans[key]
            self._observer.delayed(plan.by_key.get(key) or plan.stages[key], text)

    def look(self) -> None:
        """Every few seconds: count the nodes, and report how far stages are and what waits."""
        now = time.monotonic()
        if now - self._looked < EVERY:
            return
        self._looked, self._room = now, self._find_room()
        for key, advance in self._notes.read(list(self._order.running)).items():
            plan, is_trial = self._plans[key][0], self._order.running[key].is_trial
            if is_trial:
                self._observer.trial_advanced(plan.by_key[key], advance)
            else:
                self._observer.stage_advanced(plan.stages[key], advance)
        for key, text in self._notices.new():
            self.delayed(key, text)
        self.pass_on()
        waits = Waits(
            self._order.waiting,
            self._order.ready,
            sum(now - since > SLOW for since in self._starting.values()),
            describe(demand(self._job)),
        )
        if waits != self._waits:
            self._waits = waits
            self._observer.waits_changed(waits)

    def pass_on(self, *, last: bool = False) -> None:
        """Show what plug-ins have printed and logged since the last look; of steps that have ended,
        too.
        """
        for key, text in self._said.new(last=last):
            if key in self._steps:
                self._observer.said(self._steps[key], text)

    def _next(self) -> Step | None:
        """Return the next step. A group goes before what others left to be evaluated, since that
        needs one worker and would hold up the group. It is evaluated where no other step fits, and
        at the latest when all workers have one to evaluate: until then its weights must be kept.
        """
        if self._order.aside >= self._room.free(Needs.WORKER, {}):
            self._order.resume(self._order.aside)
        step = self._order.take(self._fits)
        if step is None and self._order.aside and self._room.fits(Needs.WORKER, self._order.held):
            self._order.resume(1)
            step = self._order.take(self._fits)
        return step

    def _fits(self, step: Step) -> bool:
        most = self._job.at_once if step.is_trial else None
        if most is not None:
            running = sum(other.is_trial for other in self._order.running.values())
            if running >= most:
                return False
        return self._room.fits(step.needs, self._order.held)

    def _look_at_storage(self, error: str) -> None:
        """Start nothing more where the storage is full or cannot be written: it would train and be
        lost. What runs goes on.
        """
        if DISK_FULL not in error:
            try:
                self._ledger.check_writable()
            except StorageError as found:
                error = str(found)
            else:
                return
        self._stopped = True
        self._abandon()
        self._observer.noticed(
            f"nothing more is started, since results could not be kept: {error}. Run the same"
            " command again afterwards: what is there is not repeated"
        )

    def _abandon(self) -> None:
        """Drop what has not started, once nothing more is to start."""
        for step in self._order.abandon() if self._stopped else ():
            self._plans.pop(step.key)
            self._trained.discard(step.key)
            if step.is_trial:
                self.counts.failed[step.key] = f"{UNSTARTED}, since the storage failed"

    def _report(self, key: str, *, is_trial: bool, error: str | None, seconds: float) -> None:
        plan, _ = self._plans.pop(key)
        self._trained.discard(key)
        if not is_trial:
            self._observer.stage_finished(
                plan.stages[key], None if error is not None else seconds, error
            )
            return
        self._ended[key] = error
        if error is None:
            self.counts.done += 1
        else:
            self.counts.failed[key] = error
        self._observer.trial_finished(plan.by_key[key], error)

    def _end_pruned(self, key: str, pruned: str) -> None:
        plan, _ = self._plans.pop(key)
        self._ended[key] = None
        self.counts.pruned += 1
        self._observer.trial_pruned(plan.by_key[key], pruned)

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
        stages = [
            key
            for key in missing_stages(plan, wanted, self._store, self._observer)
            if key not in self._plans
        ]
        place = self._job.plan or write_plan(plan, self._job.storage)
        took = sampled_seconds(plan, self._job.storage, done)
        steps = steps_of(plan, stages, pending, self._job)
        expected = expected_steps(plan, steps, took, self._job)
        self._plans |= {step.key: (plan, place) for step in steps}
        self._steps |= {s.key: plan.by_key.get(s.key) or plan.stages[s.key] for s in steps}
        report = self._observer.grid_grew if self._begun else self._observer.grid_started
        report(plan, len(pending), cached, len(stages))
        self._begun = True
        self._grouped |= any(step.needs is Needs.GROUP for step in steps)
        self._order.add(with_costs(steps, expected))
        workers = self._room.free(Needs.WORKER, {})
        self._observer.steps_added(expected, workers)
        return len(pending)
