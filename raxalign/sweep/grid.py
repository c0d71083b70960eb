"""The main job: a grid file in, every result in the ledger and in MLflow. First the trials that it
names run, then its searches. Imports Ray only when something is left to run.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from types import FrameType
from typing import TypeVar

from raxalign.errors import RaxalignError, StorageError
from raxalign.grid.checks import LocalData
from raxalign.grid.claims import Stop
from raxalign.grid.estimates import Budget, volume
from raxalign.grid.load import Opened
from raxalign.grid.plan import Plan
from raxalign.grid.stored import StoredPlans
from raxalign.grid.study import Study
from raxalign.grid.trial import Trial
from raxalign.options.run import Keep
from raxalign.printing import counted, lasting, to_stderr
from raxalign.store.alive import discard, endings, maker_name
from raxalign.store.storage import Storage
from raxalign.sweep.events import Began, Event, Hear, JobEnded, Over, Planned
from raxalign.sweep.job import Job
from raxalign.sweep.progress import Progress
from raxalign.sweep.tracker import TrackedGrid
from raxalign.values.retention import Keeping, below, made_again


class Keeper:
    """Removes the weights of a grid that no evaluation needs any more, this grid's or that of
    another living driver. A storage that refuses stops nothing: the weights stay.
    """

    def __init__(self, plan: Plan, storage: Storage, keep: Keep) -> None:
        self._plan, self._storage, self._keep = plan, storage, keep
        self._store, self._ledger = storage.artifacts, storage.ledger
        self.dropped = self.freed = 0
        self._error: StorageError | None = None
        self._keeping: Keeping | None = None

    def hear(self, event: Event) -> None:
        """Report at the start the weights that an evaluation needs and that were not kept. Hold on
        to those that a trial may read; remove those that it was the last to need.
        """
        match event:
            case Planned(first=True):
                stored = {key for _, key in self._store.keys()}  # noqa: SIM118
                gone = self._storage.tombstones.all()
                if message := made_again(event.plan, self._ledger.keys(), stored, gone):
                    to_stderr(f"note: {message}")
            case Began(what=Trial() as trial) if self._keep != "all":
                with suppress(StorageError):  # a trial that ends tells as much
                    self._known().start(trial)
            case JobEnded(what=Trial() as trial, pruned="") if self._keep != "all":
                try:
                    done = {key for key in trial.evaluations.values() if self._ledger.has(key)}
                    for key in self._known().finish(trial, done):
                        self._drop(key)
                except StorageError as error:
                    self._error = error
            case Over():
                if message := self.finish():
                    to_stderr(f"note: {message}")

    def finish(self) -> str | None:
        """Remove what may go in the end, by all results of the ledger; return a line on what was
        removed and what could not be removed, None where there is nothing to report.
        """
        if self._keep == "all":
            return None
        self._keeping = None
        try:
            stored = {key for _, key in self._store.keys()}  # noqa: SIM118
            for key in self._known().free():
                if key in stored:
                    self._drop(key)
        except StorageError as error:
            self._error = error
        if self._error is not None:
            return f"run.keep: {self._keep}: some weights could not be removed: {self._error}"
        if not self.dropped:
            return None
        return (
            f"run.keep: {self._keep}: the weights of {counted(self.dropped, 'stage')} were not kept"
            f" ({volume(self.freed)})"
        )

    def _known(self) -> Keeping:
        """The state of the plan, read from the ledger at the first use."""
        if self._keeping is None:
            self._keeping = Keeping(self._plan, self._ledger.keys())
        return self._keeping

    def _drop(self, key: str) -> None:
        """Remove weights, unless an evaluation that is not done needs them in the plan of another
        living driver. A plan that cannot be read is taken to need them.
        """
        kind = self._plan.stages[key].kind
        try:
            if not self._store.has(kind, key):
                return
            drivers = self._storage.locks.living("drivers")
            others = [name for name in drivers if maker_name() not in name]
            plans = (f"{self._storage}/plans/{name.partition('.')[2]}" for name in others)
            for needs in map(_needs, plans):
                if needs is None or not all(map(self._ledger.has, needs.get(key, ()))):
                    return
            self.freed += self._storage.drop(kind, key, f"run.keep: {self._keep}")
            self.dropped += 1
        except StorageError as error:
            self._error = error


@cache
def _needs(place: str) -> Mapping[str, list[str]] | None:
    """The evaluations that need each training of a plan; None where it cannot be read."""
    found: dict[str, list[str]] = {}
    with suppress(FileNotFoundError, StorageError):
        plan = StoredPlans.at(place)
        trained = {key for key, stage in plan.stages.items() if stage.trained}
        behind = below(plan, trained)
        for trial in plan.trials:
            for entry in trial.evaluations.values():
                for key in behind[entry]:
                    found.setdefault(key, []).append(entry)
        return found
    return None


_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Ended:
    """How a grid ended: the plan of what was run, trials done now and before, failures (trial key
    -> message), and messages for the user.
    """

    plan: Plan  # of what was run
    done: int  # trials done now
    cached: int  # trials done before
    failed: Mapping[str, str]  # trial key -> message
    messages: Sequence[str] = ()  # for the user


def run_whole(
    opened: Opened, plan: Plan, studies: Sequence[Study], budget: Budget | None = None
) -> Ended:
    """Run what the ledger lacks of a plan, then the studies, and copy all of it to MLflow. What
    dead processes left half-written in the storage is removed first, also where nothing is left to
    run. A grid with `stop` may have a `budget`.

    Raises `RaxalignError` with all faults of the data files, before anything is started.
    """
    for left in opened.storage.abandoned():
        discard(left)
    if opened.plan.looks:  # an export finds the names of the looks in the stored plan
        StoredPlans(opened.storage).write(opened.plan)
    if budget is not None and opened.grid.stop is not None:
        return _look_within(opened, opened.grid.stop, budget)
    named = _run_named(opened, plan) if plan.trials else Ended(plan, 0, 0, {})
    if opened.grid.stop is not None:
        return _look_on(opened, named)
    if not studies:
        return named
    there, whole = opened.storage.ledger.keys(), opened.plan
    if all(_is_over(whole, opened.storage, study, there) for study in studies):
        messages = (*named.messages, *TrackedGrid(opened).finish(whole))
        return Ended(whole, named.done, whole.cached(there) - named.done, named.failed, messages)
    found = _run_searches(opened, studies)
    done = named.done + found.done
    cached = max(found.plan.cached(opened.storage.ledger.keys()) - done, 0)
    messages = (*named.messages, *found.messages)
    return Ended(found.plan, done, cached, {**named.failed, **found.failed}, messages)


def _look_on(opened: Opened, named: Ended) -> Ended:
    """Look at the claims of a grid with `stop` once all its trials are done, and run what open ones
    get, until there is nothing more.
    """
    from raxalign.values.claims import JudgedClaim

    while not named.failed and (told := JudgedClaim.next_look(opened)) is not None:
        if told:
            to_stderr(told)
        opened, before = opened.again(), named
        there, trials = opened.storage.ledger.keys(), opened.plan.trials
        done = all(there >= set(trial.evaluations.values()) for trial in trials)
        if not done or len(trials) > len(before.plan.trials):
            found = _run_named(opened, opened.plan)
            now, messages = before.done + found.done, (*before.messages, *found.messages)
            cached = len(trials) - now - len(found.failed)
            named = Ended(opened.plan, now, cached, found.failed, messages)
    to_stderr(opened.looks()[0])
    return named


@dataclass
class _Rationed:
    """The trials of one plan as long as something lasts, as many at once as there are workers, or
    `at_once`. That is asked at the first question, and after each end of a trial.
    """

    plan: Plan
    lasts: Callable[[], bool]
    at_once: int | None = None
    exhausted: bool = field(default=False, init=False)
    _given: int = field(default=0, init=False)
    _out: int = field(default=0, init=False)
    _workers: int = field(default=0, init=False)

    def more(self, ended: Mapping[str, str | None], idle: int) -> Plan | None:
        """Return the next trials for workers that are idle and have none that waits for stages."""
        self._out -= len(ended)
        if (ended or not self._given) and not self.lasts():
            self.exhausted = True
        self._workers = max(self._workers, idle)
        most = self._workers if self.at_once is None else min(self._workers, self.at_once)
        count = 0 if self.exhausted else max(min(idle, most - self._out), 0)
        found = self.plan.trials[self._given : self._given + count]
        self._given, self._out = self._given + len(found), self._out + len(found)
        self.exhausted |= self._given == len(self.plan.trials)
        return self.plan.only(iter(found)) if found else None


def _look_within(opened: Opened, stop: Stop, budget: Budget) -> Ended:
    """Run a grid with `stop` until its results have taken the hours of a budget, in all runs of it
    together: the first look, then one look after the other, each at the claim whose interval is
    widest per hour that its trials still lack. What claims share is paid once, by the first.
    """
    from raxalign.values.claims import JudgedClaim

    storage, ended = opened.storage, Ended(opened.plan, 0, 0, {})
    looks, before = JudgedClaim.next_looks(opened, stop), None
    while looks != before and looks and not ended.failed:  # the same ones lack trials
        plan = opened.plan

        def lasts(plan: Plan = plan) -> bool:
            return budget.spent(plan, storage) < budget.amount

        there, has_more = storage.ledger.keys(), lasts()
        costs = ((look, budget.estimate(plan, storage, look.trials)) for look in looks)
        first = Budget.first({look.claim: (look.width, hours) for look, hours in costs})
        (chosen,) = (look for look in looks if look.claim == first)
        left = [trial for trial in chosen.trials if not there >= set(trial.evaluations.values())]
        if left and has_more:
            found = _run_named(opened, plan.only(iter(left)), lasts)
            messages = (*ended.messages, *found.messages)
            ended = Ended(plan, ended.done + found.done, 0, found.failed, messages)
        if told := JudgedClaim.next_look(opened, first):
            to_stderr(told)
        opened, before = opened.again(), looks
        looks = JudgedClaim.next_looks(opened, stop)
    plan, there = opened.plan, storage.ledger.keys()
    spent = budget.spent(plan, storage)
    for look in looks:
        at = f"{look.claim} is open after look {look.after} of {len(stop.looks)}; its next look"
        hours = budget.told(budget.estimate(plan, storage, look.trials))
        to_stderr(f"{at if look.claim else 'the first look'} would take about {hours}")
    to_stderr(f"budget: {budget.told(spent, budget.amount)} are spent")
    to_stderr(opened.looks()[0])
    run = [t for t in plan.trials if t.key in ended.failed or there >= set(t.evaluations.values())]
    cached, plan = len(run) - ended.done - len(ended.failed), plan.only(iter(run))
    copied = ended.messages if ended.done else TrackedGrid(opened).finish(plan)
    return Ended(plan, ended.done, cached, ended.failed, copied)


def _is_over(plan: Plan, storage: Storage, study: Study, there: Set[str]) -> bool:
    """Return whether a study is finished and its best point is confirmed, by a ledger's keys."""
    record = study.record(storage)
    within = study.most is None or len(record.tried) >= study.most
    keys = [
        key
        for entry in plan.asked
        if entry.study == study.name and entry.confirmed
        for key in plan.by_key[entry.trial].evaluations.values()
    ]
    return record.finished and within and there >= set(keys)


def _run_named(opened: Opened, plan: Plan, lasts: Callable[[], bool] | None = None) -> Ended:
    """Run the trials that a grid names, as long as something lasts; where all are done, do what the
    grid may lack.
    """
    keeper = Keeper(opened.plan, opened.storage, opened.run.keep)
    cached = plan.cached(opened.storage.ledger.keys())
    if cached == len(plan.trials):
        messages = TrackedGrid(opened).finish(plan)
        dropped = keeper.finish()
        return Ended(plan, 0, cached, {}, [*messages, dropped] if dropped else messages)
    job = _checked(opened, plan)
    from raxalign.sweep.running import run_sweep

    source = plan if lasts is None else _Rationed(plan, lasts, job.at_once)
    found, message = _followed(
        opened,
        job,
        lambda hear: run_sweep(
            source, job, _all_of(keeper.hear, hear), name=plan.name, address=opened.run.address
        ),
    )
    if message is None:
        TrackedGrid(opened).mark_copied(plan)
    return Ended(plan, found.done, found.cached, found.failed, [message] if message else [])


def _run_searches(opened: Opened, studies: Sequence[Study]) -> Ended:
    """Run studies of a grid until their budgets are spent, then confirm their best points with
    fresh seeds.
    """
    # one point of each study reads the files that all of them read
    plan = opened.again(lambda study: [study.corner] if study in studies else []).plan
    job = _checked(opened, plan)
    from raxalign.search.source import SearchSource
    from raxalign.sweep.running import run_sweep

    seconds = opened.grid.search.timeout_seconds if opened.grid.search is not None else None
    source = SearchSource(
        opened,
        opened.storage.locks.own_name("searching"),
        studies,
        None if seconds is None else time.monotonic() + seconds,
        job.at_once,
    )
    name, address = opened.plan.name, opened.run.address
    with opened.storage.locks.hold(source.owner):
        found, message = _followed(
            opened,
            job,
            lambda hear: run_sweep(source, replace(job, plan=""), hear, name=name, address=address),
        )
    later = source.opened.again()
    messages = [*([message] if message else []), *TrackedGrid(later).finish(later.plan)]
    return Ended(later.plan, found.done, 0, found.failed, messages)


def _followed(opened: Opened, job: Job, run: Callable[[Hear], _Found]) -> tuple[_Found, str | None]:
    """Run something whose events are shown and tracked, and that an interruption ends cleanly;
    returns what it returns, and what is left for `raxalign sync`. A part of a grid copies the whole
    grid's results: a cell's mean is over all its runs.
    """
    storage = opened.storage
    progress, tracker = Progress(storage.ledger), TrackedGrid(opened).tracker()
    hear = _all_of(progress.hear, tracker.hear)
    messages = redirect_stderr(lasting(sys.stderr))
    driver = storage.locks.own_name("drivers", job.plan.rpartition("/")[2])
    with messages, _interrupt_twice(), storage.locks.hold(driver):
        try:
            found = run(hear)
        except BaseException:
            progress.stop()
            tracker.abandon()
            raise
    return found, tracker.close()


def _all_of(*listeners: Hear) -> Hear:
    """Return what passes each event on to all listeners, in order."""

    def hear(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return hear


def _checked(opened: Opened, plan: Plan) -> Job:
    """Check the storage and read the data files of a plan; returns what workers need to know."""
    settings, storage = opened.run, opened.storage
    if found := LocalData(plan).obstacles(storage):
        raise RaxalignError("\n".join(found))
    storage.check_writable()
    for file in plan.plugins:
        file.refuse_changed()
    read = LocalData(plan).files(done=storage.ledger.keys(), memory=storage.local / "read")
    read.refuse_faults(opened.grid.path)
    if read.files:
        to_stderr(str(read))
    for remark in read.remarks:
        to_stderr(f"note: {remark}")
    _report_idle_workers(opened, plan)
    return Job(
        storage,
        StoredPlans(storage).write(plan),
        settings.workers,
        settings.threads,
        settings.gpus_per_worker,
        settings.max_failures,
        at_once=settings.concurrency,
        cache_gib=settings.cache_gib,
        checkpoint_minutes=settings.checkpoint_minutes,
        activation_checkpointing=settings.activation_checkpointing,
    )


def _report_idle_workers(opened: Opened, plan: Plan) -> None:
    """Report that `--workers` has more workers than training runs with dropout can use."""
    given, shares = opened.run.workers, opened.grid.run.workers
    divided = any(stage.shares and stage.trained for stage in plan.stages.values())
    if given > shares and divided:
        to_stderr(
            f"note: --workers {given}: training runs with dropout use {shares}, since the masks"
            f" depend on how batches are divided. Write `workers: {given}` in `run` of"
            f" {opened.grid.path} to divide them further; those training runs have keys of their"
            " own"
        )


@contextmanager
def _interrupt_twice() -> Iterator[None]:
    """End the grid cleanly on the first Ctrl-C (or SIGTERM, or SIGHUP, which a terminal that ends
    sends several times), and the process on a second one.

    Afterwards signals mean again what they meant before: a notebook goes on. Outside the main
    thread nothing is changed.
    """
    ends = endings()

    def again(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        os._exit(130)

    def first(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        for known in ends:
            signal.signal(known, signal.SIG_IGN if known == signal.SIGHUP else again)
        told = "\ninterrupted: ending cleanly (Ctrl-C again to end at once); what is done is kept"
        to_stderr(told, past_buffer=True)  # the signal may have come while something was printed
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {known: signal.signal(known, first) for known in ends}
    try:
        yield
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)
