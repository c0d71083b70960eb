"""Running a grid: Ray Tune executes stages and trials, of which it gets only the keys, in the order
that `Sweep` gives.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import ray
from ray import cloudpickle, tune
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from raxalign.errors import ResourceError, StorageError
from raxalign.plan.plan import Plan
from raxalign.sweep import room
from raxalign.sweep.cluster import (
    connect,
    disconnect,
    remove_scratch,
    require_daemons,
    scratch_folder,
    signed,
)
from raxalign.sweep.events import Hear, Over
from raxalign.sweep.job import Job
from raxalign.sweep.order import Holds
from raxalign.sweep.running import Source, Summary, Sweep, Whole, key_of
from raxalign.sweep.work import (
    GIVEN_UP,
    TRAINED_ONLY,
    Losses,
    cause_of,
    describe_loss,
    describe_retry,
    keep_failure,
    progress_of,
    run_inline,
    run_stage,
)

COMING = 1800.0  # seconds for a node that a cluster may start, where none that is there is enough


class _RayLost(BaseException):
    """Ray's own end. It is no `Exception`, after which Tune waits for actors that cannot answer."""


def run_grid(plan: Plan, job: Job, hear: Hear, address: str | None = None) -> Summary:
    """Run what the ledger lacks of a plan. Raises `ResourceError` before anything starts where the
    cluster can never give what a trial asks for.
    """
    return run_sweep(Whole(plan), job, hear, name=plan.name, address=address)


def run_sweep(
    source: Source, job: Job, hear: Hear, *, name: str, address: str | None = None
) -> Summary:
    """Run what the ledger lacks of the trials of a source, until it is exhausted. Where it gives
    several plans, `job.plan` is empty, and they are written here. Without an address Ray is started
    on this machine. Raises `ResourceError` where the cluster can never give what a trial asks for.
    """
    job = replace(job, scratch=scratch_folder(job.storage.root, address))
    connect(address, job)
    try:
        job = signed(job) if address else job
        job, nodes = room.with_gpus(job, room.find_nodes(address), hear)
        sweep = Sweep(
            source, job, hear, lambda: room.Room(job, nodes.now().all(job)), ray.available_resources
        )
        sweep.ask()
        nodes = room.wait_for_named(job, nodes, hear, training=sweep.groups)
        lacking = room.refuse_impossible(job, nodes, hear, training=sweep.groups)
        if not sweep.over:
            _tune(sweep, job, name, lacking)
            sweep.pass_on()
    except _RayLost as lost:
        raise ResourceError(str(lost)) from lost
    finally:
        disconnect()
        remove_scratch(job.scratch)
    hear(Over(len(sweep.counts.failed)))
    return sweep.counts


def _tune(sweep: Sweep, job: Job, name: str, lacking: str | None) -> None:
    """Let Tune run the jobs of a sweep. Its actors are used again for one job after another, but
    not beside groups: an idle actor holds what their workers wait for.
    """
    # the screen has shown why something did not complete, and a job that Tune dropped was run again
    logging.getLogger("ray.tune.tune").addFilter(
        lambda record: not record.getMessage().startswith("Trials did not complete")
    )
    work = tune.with_resources(
        _packed(partial(_work, job=job)), _packed(partial(_resources, job=job))
    )
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
            callbacks=[_Watch(sweep, job, lacking)],
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


def _work(config: dict[str, Any], job: Job) -> None:
    """Run a stage or a trial in a Tune actor."""
    job = replace(job, plan=config["plan"])
    if "stage" in config:
        run_stage(config, job)
    elif config["needs"] == Holds.GROUP.name:
        from raxalign.sweep.groups import run_group

        run_group(config, job)
    else:
        run_inline(config, job)


def _resources(config: Mapping[str, Any], job: Job) -> tune.PlacementGroupFactory:
    """Return what Tune reserves for a job; the workers of a group reserve their own."""
    if config["needs"] == Holds.GROUP.name:
        return tune.PlacementGroupFactory([{room.DRIVER: 1}])
    wanted = room.demand(job)
    if config["needs"] == Holds.CPUS.name:
        wanted.pop("GPU", None)
    return tune.PlacementGroupFactory([wanted])


def _trial_name(trial: Any) -> str:
    """Return the name that a job has with Tune, and its folder."""
    config = trial.config
    if "stage" in config:
        return f"stage-{config['stage'][:16]}"
    return f"{config['trial'][:16]}{'-evaluation' if TRAINED_ONLY in config else ''}"


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
        self._job, self._losses = job, dict[str, Losses]()

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
        if result.get(TRAINED_ONLY):
            self._sweep.trained(trial.config)
            return
        key, error = trial.config.get("trial"), result.get("error")
        # a worker without the storage cannot keep why it failed
        with suppress(StorageError):
            if error and key is not None and self._ledger.failure(key) is None:
                keep_failure(self._ledger, key, error, "")
        self._sweep.ended(trial.config, result)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        """Count a loss, which Tune itself would mend without an end. Where it was one too many, the
        trial's next worker finds the reason in its configuration and only reports it.
        """
        key, cause = key_of(trial.config), cause_of(trial)
        if key not in self._losses:
            progress = partial(progress_of, self._job, self._sweep.plan_of(key), key)
            self._losses[key] = Losses(self._job.max_failures, progress)
        own = self._losses[key]
        if own.another():
            self._sweep.delayed(key, describe_retry(cause))
        else:
            trial.config[GIVEN_UP] = describe_loss(cause, own.count)
            trial.max_failures = trial.num_failures

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        message = trial.config.get(GIVEN_UP)
        if message is None:
            # Tune starts a job without limit. Only where a worker dies while it is given its next
            # job does it hear of this death twice, start the job, and drop it the second time.
            self._sweep.again(trial.config)
            return
        trace = str(cause_of(trial) or "")
        if "trial" in trial.config:
            keep_failure(self._ledger, trial.config["trial"], message, trace)
        self._sweep.ended(trial.config, {"error": message, "trace": trace})
