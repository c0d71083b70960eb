"""Running a grid: Ray Tune executes stages and trials, of which it gets only the keys, in the order
that `Sweep` gives.

Workers between two steps: Tune ends those that it does not need at once, and a worker that is
started anew loads its libraries for seconds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ray import tune
from ray.tune.execution import tune_controller
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher
from ray.tune.utils.object_cache import _ObjectCache

from raxalign.errors import StorageError
from raxalign.plan.plan import Plan
from raxalign.sweep.cluster import connect, disconnect, remove_scratch, scratch_folder
from raxalign.sweep.gpu_shares import settle
from raxalign.sweep.job import Job
from raxalign.sweep.losses import GIVEN_UP, Recoveries, cause_of
from raxalign.sweep.nodes import find_nodes, refuse_impossible, wait_for_named
from raxalign.sweep.observer import Observer
from raxalign.sweep.order import Needs
from raxalign.sweep.placement import GroupWaits, remove_groups_of_dead_drivers
from raxalign.sweep.room import DRIVER, Room
from raxalign.sweep.running import Sweep
from raxalign.sweep.shared import signed
from raxalign.sweep.source import Source, Whole
from raxalign.sweep.stage import run_stage
from raxalign.sweep.trial import TRAINED_ONLY, keep_failure, run_inline

KEPT = 60.0
"""Seconds for which workers stay that have nothing to do. After that all but one are ended, so that
a cluster can give back their nodes."""


class IdleWorkers(_ObjectCache):  # type: ignore[misc]
    """Tune's cache of idle workers, which keeps all of them for a minute, and not only one.

    Where a step waits that needs something else than an idle worker holds, the worker is ended, as
    Tune does it: it may hold what the step waits for.
    """

    def __init__(self, may_keep_one: bool = True, clock: Callable[[], float] = time.monotonic):
        super().__init__(may_keep_one)
        self._clock = clock
        self._since: dict[int, float] = {}  # id of a worker -> when it became idle

    def cache_object(self, key: Any, obj: Any) -> bool:
        """Keep a worker that holds `key`, unless it is in the way; return whether it is kept."""
        if self._others_wait(key) and not self._wanted(key, 1):
            return False
        self._cached_objects[key].append(obj)
        self._num_cached_objects += 1
        self._since[id(obj)] = self._clock()
        return True

    def pop_cached_object(self, key: Any) -> Any:
        """Return a worker that holds `key`, which is no longer idle; None where there is none."""
        worker = super().pop_cached_object(key)
        self._since.pop(id(worker), None)
        return worker

    def flush_cached_objects(self, force_all: bool = False) -> Iterator[Any]:
        """Yield the workers that are to be ended: with `force_all` all of them."""
        for key, workers in self._cached_objects.items():
            for worker in list(workers):
                if force_all or self._is_over(key, worker):
                    workers.remove(worker)
                    self._num_cached_objects -= 1
                    del self._since[id(worker)]
                    yield worker

    def _is_over(self, key: Any, worker: Any) -> bool:
        """Whether an idle worker is in the way, or has had nothing to do for too long."""
        if self._wanted(key):
            return False
        late = self._clock() - self._since[id(worker)] >= KEPT and self._num_cached_objects > 1
        return late or self._others_wait(key)

    def _wanted(self, key: Any, more: int = 0) -> bool:
        """Whether as many steps wait that hold `key` as there are workers, and `more`, for them."""
        return bool(len(self._cached_objects[key]) + more <= self._max_num_objects[key])

    def _others_wait(self, key: Any) -> bool:
        """Whether a step waits that holds something else."""
        return any(count for other, count in self._max_num_objects.items() if other != key)


def keep_idle_workers() -> None:
    """Have Tune keep idle workers in this process. It has no option for it."""
    tune_controller._ObjectCache = IdleWorkers


@dataclass(frozen=True)
class Summary:
    """How a grid ended: trials done now, done before, failed (trial key -> message), and pruned."""

    done: int
    cached: int
    failed: dict[str, str]
    pruned: int = 0


def run_grid(plan: Plan, job: Job, observer: Observer, *, address: str | None = None) -> Summary:
    """Run what the ledger lacks of a plan. Raises `ResourceError` before anything starts where the
    cluster can never give what a trial asks for.
    """
    return run_sweep(Whole(plan), job, observer, name=plan.name, address=address)


def run_sweep(
    source: Source, job: Job, observer: Observer, *, name: str, address: str | None = None
) -> Summary:
    """Run what the ledger lacks of the trials of a source, until it is exhausted.

    Args:
        source: Where the trials come from.
        job: What workers need to know. A source that gives more than one plan has them written
            here: `job.plan` is then empty.
        observer: Receives what happens.
        name: The name of the grid.
        address: The cluster to join; None starts Ray on this machine.

    Raises:
        ResourceError: The cluster can never give what a trial asks for.
    """
    job = replace(job, scratch=scratch_folder(job.storage.root, address))
    connect(address, job)
    try:
        job = signed(job) if address else job
        remove_groups_of_dead_drivers(observer)
        job, nodes = settle(job, find_nodes(address), observer)
        sweep = Sweep(source, job, observer, lambda: Room(job, nodes.now().all(job)))
        sweep.ask()
        nodes = wait_for_named(job, nodes, observer, training=sweep.groups)
        refuse_impossible(job, nodes, training=sweep.groups)
        if not sweep.over:
            _tune(sweep, job, name, GroupWaits(lambda: sweep.running_trials, observer))
            sweep.pass_on(last=True)
    finally:
        disconnect()
        remove_scratch(job.scratch)
    observer.grid_finished(len(sweep.counts.failed))
    return Summary(**vars(sweep.counts))


def _tune(sweep: Sweep, job: Job, name: str, waits: GroupWaits) -> None:
    """Let Tune run the steps of a sweep. Its actors are used again for one step after another, but
    not beside groups: an idle actor holds what their workers wait for.
    """
    keep_idle_workers()
    logging.getLogger("ray.tune.tune").addFilter(_is_not_about_failures)
    step = tune.with_resources(
        tune.with_parameters(_run_step, job=job), lambda config: _resources(config, job)
    )
    tune.Tuner(
        step,
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
            failure_config=tune.FailureConfig(max_failures=-1),  # see Recoveries
            callbacks=[_Watch(sweep, job, waits)],
            verbose=0,
        ),
    ).fit()


def _run_step(config: dict[str, Any], job: Job) -> None:
    """Run a stage or a trial in a Tune actor."""
    job = replace(job, plan=config["plan"])
    if "stage" in config:
        run_stage(config, job)
    elif config["needs"] == Needs.GROUP.name:
        from raxalign.sweep.groups import run_group

        run_group(config, job)
    else:
        run_inline(config, job)


def _is_not_about_failures(record: logging.LogRecord) -> bool:
    """Drop Tune's list of what did not complete: the observer has heard why, and a step that Tune
    dropped was run again.
    """
    return not record.getMessage().startswith("Trials did not complete")


def _resources(config: Mapping[str, Any], job: Job) -> tune.PlacementGroupFactory:
    """Return what Tune reserves for a step; the workers of a group reserve their own."""
    if config["needs"] == Needs.GROUP.name:
        return tune.PlacementGroupFactory([{DRIVER: 1}])
    gpu = {"GPU": job.gpus} if job.gpus and config["needs"] == Needs.WORKER.name else {}
    return tune.PlacementGroupFactory([{"CPU": float(job.threads), **gpu}])


def _trial_name(trial: Any) -> str:
    """Return the name that a step has with Tune, and its folder."""
    config = trial.config
    if "stage" in config:
        return f"stage-{config['stage'][:16]}"
    return f"{config['trial'][:16]}{'-evaluation' if TRAINED_ONLY in config else ''}"


class _Ask(Searcher):  # type: ignore[misc]
    """The place where Tune asks for the next step."""

    def __init__(self, sweep: Sweep) -> None:
        super().__init__()
        self._sweep = sweep

    def __getstate__(self) -> dict[str, Any]:
        """Nothing, as for `_Watch`."""
        return {}

    def suggest(self, trial_id: str) -> Any:  # noqa: ARG002
        """Return a step, None while there is none, or that there will be none."""
        return self._sweep.take() or (Searcher.FINISHED if self._sweep.over else None)

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """Do nothing: `_Watch` hears the same with the keys."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: a sweep is never restored, since the ledger has what is done."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing, likewise."""


class InOrder(FIFOScheduler):  # type: ignore[misc]
    """A scheduler that chooses no step: Tune then starts them in the order in which it got them.

    The choice of Tune's own scheduler looks through all steps of the grid at each event. It also
    gives a free worker to a step whose own worker is still loading its libraries, which is then
    ended: with short steps all workers but one would be started again and again.
    """

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """Choose none."""


class _Watch(tune.Callback):  # type: ignore[misc]
    """A listener of Tune that passes on what it hears to the sweep."""

    def __init__(self, sweep: Sweep, job: Job, waits: GroupWaits) -> None:
        self._sweep, self._ledger, self._waits = sweep, job.storage.ledger, waits
        self._recoveries = Recoveries(sweep.plan_of, job, sweep.delayed)

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: Tune pickles its callbacks for a restore that is never made, and a display
        cannot be pickled.
        """
        return {}

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:  # noqa: ARG002
        self._sweep.look()

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        self._sweep.started(trial.config)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        result = trial.last_result or {}
        if result.get(TRAINED_ONLY):
            self._sweep.trained(trial.config)
            return
        error = result.get("error") or None
        key = trial.config.get("trial")
        # a worker without the storage cannot keep why it failed
        with suppress(StorageError):
            if error is not None and key is not None and self._ledger.failure(key) is None:
                keep_failure(self._ledger, key, error, "")
        self._sweep.ended(
            trial.config,
            error,
            result.get("trace", ""),
            result.get("seconds", 0.0),
            result.get("pruned", ""),
        )

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        self._recoveries.lost(trial)

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:  # noqa: ARG002
        self._waits.look()

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        message = trial.config.get(GIVEN_UP)
        if message is None:
            # Tune starts a step without limit. Only where a worker dies while it is given its next
            # step does it hear of this death twice, start the step, and drop it the second time.
            self._sweep.again(trial.config)
            return
        cause = cause_of(trial)
        self._sweep.ended(trial.config, message, str(cause or ""))
        if "trial" in trial.config:
            keep_failure(self._ledger, trial.config["trial"], message, str(cause or ""))
