"""The sweep: plan minus ledger, shared stages first, then trials through Ray Tune, which gets only
their keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray import tune

from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.sweep.cluster import DRIVER, check_fits, concurrency, connect, node_resources
from raxalign.sweep.job import Job
from raxalign.sweep.losses import GIVEN_UP, Recoveries, describe_loss
from raxalign.sweep.observer import Observer
from raxalign.sweep.placement import Waits, remove_groups_of_dead_drivers
from raxalign.sweep.prepare import Made, failed_inputs, missing_stages, prepare
from raxalign.sweep.scratch import remove_scratch, scratch_folder
from raxalign.sweep.shared import signed
from raxalign.sweep.trial import keep_failure, run_group, run_inline

SHARD = 500  # trials in one Tuner: its bookkeeping grows with their number


@dataclass(frozen=True)
class Summary:
    """How a grid ended: trials done now, done before, and failed (trial key -> message)."""

    done: int
    cached: int
    failed: dict[str, str]


def pending_trials(plan: Plan, ledger: Ledger) -> list[Trial]:
    """Return the trials of which some evaluation is not in the ledger, in the order of the plan."""
    there = ledger.keys()
    return [trial for trial in plan.trials if not there.issuperset(trial.evaluations.values())]


def run_grid(plan: Plan, job: Job, observer: Observer, *, address: str | None = None) -> Summary:
    """Run what the ledger lacks. Raises `ResourceError` before anything starts where the cluster
    can never give what a trial asks for.
    """
    ledger, store = Ledger(job.root), ArtifactStore(job.root)
    pending = pending_trials(plan, ledger)
    cached = plan.cached(ledger.keys())
    store.sweep_temporaries()
    grouped = [trial for trial in pending if job.workers > 1 and plan.trains(trial)]
    job = replace(job, scratch=scratch_folder(job.root, address))
    connect(address, job)
    try:
        nodes = node_resources(address)
        check_fits(job, nodes, training=bool(grouped))
        job = signed(job) if address else job
        remove_groups_of_dead_drivers(observer)
        wanted = [key for trial in pending for key in trial.evaluations.values()]
        stages = missing_stages(plan, wanted, store, observer)
        observer.grid_started(plan, len(pending), cached, len(stages))
        broken = prepare(plan, stages, job, observer)
        failed = _fail_without_inputs(plan, pending, broken, ledger, observer)
        runnable = [trial for trial in pending if trial.key not in failed]
        in_group = {trial.key for trial in grouped}
        inline = [trial for trial in runnable if trial.key not in in_group]
        failed |= _sweep(
            plan, inline, job, observer, run_inline, concurrency(job, nodes, training=False)
        )
        failed |= _sweep(
            plan,
            [t for t in runnable if t.key in in_group],
            job,
            observer,
            run_group,
            concurrency(job, nodes, training=True),
        )
    finally:
        ray.shutdown()
        remove_scratch(job.scratch)
    observer.grid_finished(len(failed))
    return Summary(done=len(pending) - len(failed), cached=cached, failed=failed)


def _fail_without_inputs(
    plan: Plan,
    pending: list[Trial],
    broken: Mapping[str, Made],
    ledger: Ledger,
    observer: Observer,
) -> dict[str, str]:
    """Fail the trials whose shared stages failed; returns them with their messages, by key."""
    failed: dict[str, str] = {}
    for trial in pending:
        ledger.clear_failure(trial.key)
        reason = failed_inputs(plan, broken, list(trial.evaluations.values()))
        if reason is not None:
            failed[trial.key] = reason.error or ""
            keep_failure(ledger, trial.key, reason.error or "", reason.trace)
            observer.trial_finished(trial, reason.error)
    return failed


def _sweep(
    plan: Plan,
    trials: list[Trial],
    job: Job,
    observer: Observer,
    function: Callable[[dict[str, Any], Job], None],
    at_once: int,
) -> dict[str, str]:
    """Run trials of one class of resources; returns the failures, by trial key."""
    failed: dict[str, str] = {}
    for first in range(0, len(trials), SHARD):
        failed |= _tune(plan, trials[first : first + SHARD], job, observer, function, at_once)
    return failed


def _tune(
    plan: Plan,
    trials: list[Trial],
    job: Job,
    observer: Observer,
    function: Callable[[dict[str, Any], Job], None],
    at_once: int,
) -> dict[str, str]:
    grouped = function is run_group
    resources = (
        {DRIVER: 1} if grouped else {"cpu": job.threads, **({"gpu": job.gpus} if job.gpus else {})}
    )
    watch = _Watch(plan, observer, job)
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(function, job=job), resources),
        param_space={"trial": tune.grid_search([trial.key for trial in trials])},
        tune_config=tune.TuneConfig(
            max_concurrent_trials=at_once,
            reuse_actors=not grouped,
            trial_name_creator=lambda trial: (
                f"{plan.by_key[trial.config['trial']].method}-{trial.config['trial'][:12]}"
            ),
            trial_dirname_creator=lambda trial: trial.config["trial"][:16],
        ),
        run_config=tune.RunConfig(
            name=f"{plan.name}-{time.time_ns()}",
            storage_path=job.scratch,
            failure_config=tune.FailureConfig(max_failures=-1),  # see Recoveries
            callbacks=[watch],
            verbose=0,
        ),
    )
    tuner.fit()
    return watch.failed


class _Watch(tune.Callback):  # type: ignore[misc]
    """A listener of Tune that passes on what it hears to the observer."""

    def __init__(self, plan: Plan, observer: Observer, job: Job) -> None:
        self._plan, self._observer, self._ledger = plan, observer, Ledger(job.root)
        self._recoveries = Recoveries(plan, job)
        self._waits = Waits(plan, observer)
        self.failed: dict[str, str] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: Tune pickles its callbacks for a restore that is never made, and a display
        cannot be pickled.
        """
        return {}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        self._observer.trial_started(self._plan.by_key[trial.config["trial"]])

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        self._finish(trial.config["trial"], (trial.last_result or {}).get("error") or None)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        self._recoveries.lost(trial)

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:  # noqa: ARG002
        self._waits.look()

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        key, cause = trial.config["trial"], trial.get_error()
        message = trial.config.get(GIVEN_UP) or describe_loss(cause, 1)
        keep_failure(self._ledger, key, message, str(cause or ""))
        self._finish(key, message)

    def _finish(self, key: str, error: str | None) -> None:
        if error is not None:
            self.failed[key] = error
            if self._ledger.failure(key) is None:  # a worker without the storage cannot keep it
                keep_failure(self._ledger, key, error, "")
        self._observer.trial_finished(self._plan.by_key[key], error)
