"""A sweep that runs: what of its plans is missing, what starts next, what has ended, and what fails
with it. It decides all that Ray Tune does not: Tune executes stages and trials, of which it gets
only the keys, in the order that `Sweep` gives.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle, tune
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from raxalign.errors import ResourceError, StorageError
from raxalign.grid.estimates import Times
from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage
from raxalign.grid.stored import StoredPlans
from raxalign.grid.trial import Trial
from raxalign.store.artifacts import ArtifactStore
from raxalign.sweep import events
from raxalign.sweep.cluster import Room, joined, patience, require_daemons
from raxalign.sweep.events import Hear, Over, Said
from raxalign.sweep.forked import Libraries
from raxalign.sweep.job import Job
from raxalign.sweep.order import Holds, Order, Source, SweepJob, Whole
from raxalign.sweep.work import Losses, run_job

SLOW = 20.0  # seconds after which a job that no worker has begun is one that waits for a node


def missing_stages(plan: Plan, pending: list[str], store: ArtifactStore, hear: Hear) -> list[str]:
    """Return the keys of shared stages that pending evaluations need and the storage lacks, inputs
    first.

    All data and encoders count as shared; an aligned encoder or a task's training does where
    several trials need it. Data that is there is verified, so that a damaged artifact is made again
    before it is read.
    """
    users, wanted = plan.users(), []

    def tell(damage: str) -> None:
        hear(Said(f"{damage} It is made again."))

    there = {
        key for key, stage in plan.stages.items() if stage.prepared and store.has(stage.kind, key)
    }
    for key in plan.closure(pending, there):
        stage = plan.stages[key]
        own = stage.trained and users.get(key, 0) < 2
        if own or stage.inline or stage.kind == "evaluation":
            continue
        present = store.has(stage.kind, key) and (
            stage.trained or store.verify(stage.kind, key, tell)
        )
        if not present:
            wanted.append(key)
    return wanted


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
        self._order, self._inbox = Order(), job.inbox()
        self._plans: dict[str, tuple[Plan, str]] = {}  # job -> its plan, and where workers find it
        self._all: dict[str, Trial | Stage] = {}  # that there were
        self._ended: dict[str, str | None] = {}
        self._room, self._looked, self._asked = room(), time.monotonic(), float("-inf")
        self._starting: dict[str, float] = {}  # taken, and not begun by a worker: since when
        self._waiting, self._groups_waited = events.Waiting(), False
        self._trained: set[str] = set()  # by groups of workers, and not evaluated
        self._most = sys.maxsize  # jobs at once, less once memory ran out
        self._losses: dict[str, Losses] = {}
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

    def run_of(self, key: str) -> str:
        """Return what is kept of the run of a job is filed under; nothing for that of a stage."""
        what = self._all[key]
        return what.run if isinstance(what, Trial) else ""

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
        return {
            "trial" if entry.is_trial else "stage": entry.key,
            **({Job.TRAINED_ONLY: True} if entry.key in self._trained else {}),
            "plan": self._plans[entry.key][1],
            "needs": entry.needs.name,
            "trains": entry.needs is not Holds.CPUS,
        }

    def started(self, config: Mapping[str, Any]) -> None:
        """Note that a worker has begun with a job."""
        key = _key_of(config)
        self.begun = True
        self._starting.pop(key, None)
        if Job.TRAINED_ONLY not in config:
            self._hear(events.Began(self._all[key]))

    def ended(self, config: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Note that a job has ended.

        Args:
            config: What `take` gave.
            result: Its ``error``, empty where it did not fail; the ``trace`` of an unknown error;
                the ``seconds`` that a stage took; where a search has ``pruned`` it, in words.
        """
        key, error = _key_of(config), result.get("error") or None
        self._starting.pop(key, None)
        lost = self._order.fail(key) if error is not None else []
        if error is None:
            self._order.finish(key)
        self._report(key, error, result.get("seconds"), result.get("pruned", ""))
        for entry in lost:
            if run := self.run_of(entry.key):
                self._job.keep_failure(run, error or "", result.get("trace", ""))
            self._report(entry.key, error)
        if error is not None and not self._stopped:
            self._look_at_storage(error)

    def trained(self, config: Mapping[str, Any]) -> None:
        """Note that a group of workers has ended and left a trial to be evaluated by one worker."""
        self._starting.pop(config["trial"], None)
        self._trained.add(config["trial"])
        self._order.set_aside(config["trial"])
        self._abandon()

    def lost(self, key: str, cause: object) -> str:
        """Count a loss of what ran a job, and report it; return why the job is given up, if it
        is.
        """
        if key not in self._losses:
            self._losses[key] = Losses(self._job, self.plan_of(key), key)
        own = self._losses[key]
        if not own.another():
            return own.end(cause)
        self.delayed(key, own.retry(cause))
        return ""

    def given_up(self, key: str, message: str, cause: object) -> None:
        """Keep and report that a job was lost too often."""
        trace = str(cause or "")
        if run := self.run_of(key):
            self._job.keep_failure(run, message, trace)
        self.ended({"trial": key}, {"error": message, "trace": trace})

    def all_lost(self, cause: Exception, *, memory: bool) -> None:
        """Take all jobs that run back, since Tune has ended for a cause: they are started again.

        Where `memory` was the cause, fewer run at once from then on, and no loss is counted until a
        job has the machine to itself: which of several needs too much is not known.
        """
        keys = list(self._order.running)
        shared = memory and len(keys) > 1
        if shared:
            self._most = len(keys) - 1
            jobs, most = f"{len(keys)} jobs at once", "one" if len(keys) == 2 else f"{self._most}"
            told = f"memory ran out with {jobs}; from now on {most} at a time"
            self._hear(Said(f"{told} (run.concurrency says so beforehand)"))
        for key in keys:
            if not shared and (message := self.lost(key, cause)):
                self.given_up(key, message, cause)
            else:
                self.again({"trial": key})

    def again(self, config: Mapping[str, Any]) -> None:
        """Note that Tune has dropped a job that has not ended, so that `take` returns it again."""
        self._starting.pop(_key_of(config), None)
        self._order.put_back(_key_of(config))
        self._abandon()

    def delayed(self, key: str, text: str) -> None:
        """Report what holds up a job, unless it has ended."""
        if key in self._plans:
            self._hear(Said(text, self._all[key]))

    def look(self) -> None:
        """Every few seconds: count the nodes, and report how far jobs are and what waits."""
        now = time.monotonic()
        if now - self._looked < self._job.EVERY:
            return
        self._looked, self._room = now, self._find_room()
        advances = self._inbox.advances(list(self._order.running))
        waits = {key: advance.seconds for key, advance in advances.items() if advance.waiting}
        for key, advance in advances.items():
            if key not in waits:
                self._hear(events.Advanced(self._all[key], advance))
        if waits:
            there = self._job.describe(self._find_free())
            text = f"waits for {self._job.workers} workers with {self._job.describe()} each"
            self._hear(events.GroupsWaiting(waits, f"{text}; the cluster has {there} free"))
        elif self._groups_waited:
            self._hear(events.GroupsWaiting({}))
        self._groups_waited = bool(waits)
        self.pass_on()
        waiting = events.Waiting(
            self._order.waiting,
            self._order.ready,
            sum(now - since > SLOW for since in self._starting.values()),
            self._job.describe(),
        )
        if waiting != self._waiting:
            self._waiting = waiting
            self._hear(waiting)

    def pass_on(self) -> None:
        """Show what workers have told since the last look: what holds up their jobs, and what
        plug-ins have printed and logged, also of jobs that have ended.
        """
        for key, text, printed in self._inbox.lines():
            if not printed:
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
        if len(self._order.running) >= self._most:
            return False
        most = self._job.at_once if entry.is_trial else None
        running = sum(other.is_trial for other in self._order.running.values())
        if most is not None and running >= most:
            return False
        return self._room.fits(entry.needs, self._order.held)

    def _look_at_storage(self, error: str) -> None:
        """Start nothing more where the storage is full or cannot be written: it would train and be
        lost. What runs goes on.
        """
        if StorageError.DISK_FULL not in error:
            try:
                self._job.storage.check_writable()
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
        place = self._job.plan or StoredPlans(self._job.storage).write(plan)
        took = Times(plan, self._job.storage).sampled(done)
        jobs = SweepJob.of(plan, stages, pending, self._job.workers, took)
        first, self._planned = not self._planned, True
        self._plans |= {entry.key: (plan, place) for entry in jobs}
        self._all |= {s.key: plan.by_key.get(s.key) or plan.stages[s.key] for s in jobs}
        self._grouped |= any(entry.needs is Holds.GROUP for entry in jobs)
        self._order.add(jobs)
        workers = self._room.free(Holds.WORKER, {})
        news = events.Planned(plan, len(pending), cached, len(stages), first, jobs, workers)
        self._hear(news)
        return len(pending)


def _key_of(config: Mapping[str, Any]) -> str:
    """Return the key of the trial or stage that Tune was given."""
    return str(config.get("trial") or config["stage"])


COMING = 1800.0  # seconds for a node that a cluster may start, where none that is there is enough


class _RayLost(BaseException):
    """Ray's own end. It is no `Exception`, after which Tune waits for actors that cannot answer."""


def run_sweep(
    source: Source | Plan, job: Job, hear: Hear, *, name: str, address: str | None = None
) -> Summary:
    """Run what the ledger lacks of the trials of a plan, or of a source, until it is exhausted.
    Where it gives several plans, `job.plan` is empty, and they are written here. Without an address
    Ray is started on this machine. Raises `ResourceError` before anything starts where the cluster
    can never give what a trial asks for.
    """
    source = Whole(source) if isinstance(source, Plan) else source
    libraries = Libraries.of_the_kinds_here(job.thread_limits)
    try:
        with (
            nullcontext() if address else libraries.kept(),  # they load while Ray starts
            joined(job, address, hear) as (job, nodes),
        ):
            sweep = Sweep(
                source, job, hear, lambda: Room(job, nodes.now().all(job)), ray.available_resources
            )
            sweep.ask()
            nodes = nodes.wait_for_named(job, hear, training=sweep.groups)
            lacking = nodes.refuse_impossible(job, hear, training=sweep.groups)
            watch = _Watch(sweep, job, lacking)
            while not sweep.over:
                try:
                    _tune(sweep, job, libraries, name, watch)
                except RuntimeError as error:
                    # Tune mends the loss of an actor; it ends with whatever else Ray raises for one
                    if not isinstance(error.__cause__, ray.exceptions.RayError):
                        raise
                    memory = isinstance(error.__cause__, ray.exceptions.OutOfMemoryError)
                    sweep.all_lost(error.__cause__, memory=memory)
                sweep.pass_on()
    except _RayLost as lost:
        raise ResourceError(str(lost)) from lost
    hear(Over(len(sweep.counts.failed)))
    return sweep.counts


def _tune(sweep: Sweep, job: Job, libraries: Libraries, name: str, watch: _Watch) -> None:
    """Let Tune run the jobs of a sweep. Its actors are used again for one job after another, but
    not beside groups: an idle actor holds what their workers wait for.
    """
    # the screen has shown why something did not complete, and a job that Tune dropped was run again
    logging.getLogger("ray.tune.tune").addFilter(
        lambda record: not record.getMessage().startswith("Trials did not complete")
    )
    run = partial(
        libraries.run,
        work=cloudpickle.dumps(partial(run_job, job=job)),
        patience=cloudpickle.dumps(patience),
    )
    work = tune.with_resources(_packed(run), _packed(partial(_resources, job=job)))
    tune.Tuner(
        work,
        tune_config=tune.TuneConfig(
            search_alg=_Ask(sweep),
            scheduler=InOrder(),
            num_samples=-1,
            reuse_actors=not sweep.groups,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=f"{name}-{time.time_ns()}",
            storage_path=job.scratch,
            failure_config=tune.FailureConfig(max_failures=-1),  # see `_Watch`
            callbacks=[watch],
            verbose=0,
        ),
    ).fit()


def _packed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is imported when it is called: an import that fails is then an error.
    Where Ray imports it, an actor ends, and nobody hears why.
    """
    packed = cloudpickle.dumps(function)

    def unpack_and_call(config: dict[str, Any]) -> Any:
        return cloudpickle.loads(packed)(config)

    return unpack_and_call


def _resources(config: Mapping[str, Any], job: Job) -> tune.PlacementGroupFactory:
    """Return what Tune reserves for a job; the workers of a group reserve their own."""
    if config["needs"] == Holds.GROUP.name:
        return tune.PlacementGroupFactory([{job.DRIVER: 1}])
    wanted = job.demand
    if config["needs"] == Holds.CPUS.name:
        wanted.pop("GPU", None)
    return tune.PlacementGroupFactory([wanted])


def _trial_name(trial: Any) -> str:
    """Return the name that a job has with Tune, and its folder."""
    config = trial.config
    if "stage" in config:
        return f"stage-{config['stage'][:16]}"
    return f"{config['trial'][:16]}{'-evaluation' if Job.TRAINED_ONLY in config else ''}"


class _Ask(Searcher):  # type: ignore[misc]
    """The place where Tune asks for the next job."""

    def __init__(self, sweep: Sweep) -> None:
        super().__init__()
        self._sweep = sweep

    def __getstate__(self) -> dict[str, Any]:
        """Nothing, as for `_Watch`."""
        return {}

    def suggest(self, trial_id: str) -> Any:  # noqa: ARG002
        """Return a job, None while there is none, or that there will be none."""
        return self._sweep.take() or (Searcher.FINISHED if self._sweep.over else None)

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """Do nothing: `_Watch` hears the same with the keys."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: a sweep is never restored, since the ledger has what is done."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing, likewise."""


class InOrder(FIFOScheduler):  # type: ignore[misc]
    """A scheduler that chooses no job: Tune then starts them in the order in which it got them.

    The choice of Tune's own scheduler looks through all jobs of the grid at each event. It also
    gives a free worker to a job whose own worker is still loading its libraries, which is then
    ended: with short jobs all workers but one would be started again and again.
    """

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """Choose none."""


class _Watch(tune.Callback):  # type: ignore[misc]
    """A listener of Tune that passes on what it hears to the sweep. `lacking` is what no node that
    is there can give, where the cluster may start others.
    """

    def __init__(self, sweep: Sweep, job: Job, lacking: str | None = None) -> None:
        self._sweep, self._ledger, self._lacking = sweep, job.storage.ledger, lacking
        self._begun = time.monotonic()
        self._job = job

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: Tune pickles its callbacks for a restore, and a display cannot be pickled."""
        return {}

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:  # noqa: ARG002
        try:
            require_daemons()
        except ResourceError as error:
            raise _RayLost(str(error)) from error
        self._sweep.look()
        waited = time.monotonic() - self._begun
        if self._lacking is not None and not self._sweep.begun and waited > COMING:
            raise ResourceError(f"{self._lacking}, and none has come in {COMING / 60:.0f} minutes")

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        self._sweep.started(trial.config)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        result = trial.last_result or {}
        if result.get(Job.TRAINED_ONLY):
            self._sweep.trained(trial.config)
            return
        run, error = self._sweep.run_of(_key_of(trial.config)), result.get("error")
        # a worker without the storage cannot keep why it failed
        with suppress(StorageError):
            if run and error and self._ledger.failure(run) is None:
                self._job.keep_failure(run, error, "")
        self._sweep.ended(trial.config, result)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        """Count a loss, which Tune itself would mend without an end. Where it was one too many, the
        trial's next worker finds the reason in its configuration and only reports it.
        """
        message = self._sweep.lost(_key_of(trial.config), _cause_of(trial))
        if message:
            trial.config[Losses.GIVEN_UP] = message
            trial.max_failures = trial.num_failures

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        message = trial.config.get(Losses.GIVEN_UP)
        if message is None:
            # Tune starts a job without limit. Only where a worker dies while it is given its next
            # job does it hear of this death twice, start the job, and drop it the second time.
            self._sweep.again(trial.config)
            return
        self._sweep.given_up(_key_of(trial.config), message, _cause_of(trial))


def _cause_of(trial: Any) -> object:
    """Return the error that ended one of Tune's trials. Tune writes it on this machine first, and
    later to its storage, where `get_error` looks.
    """
    name = getattr(trial, "pickled_error_file", None)
    if name and Path(name).exists():
        error: object = cloudpickle.loads(Path(name).read_bytes())
        return error
    return trial.get_error()
