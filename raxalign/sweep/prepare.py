"""Shared stages as Ray remote calls: each missing one once, in the order of their dependencies, in
parallel where they can.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray

from raxalign.errors import RaxalignError
from raxalign.plan.plan import Plan
from raxalign.stages import FITTED, TRAINED
from raxalign.store.artifacts import ArtifactStore
from raxalign.sweep.advance import EVERY, Note, Notes
from raxalign.sweep.job import Job, open_workshop
from raxalign.sweep.observer import Observer


@dataclass(frozen=True)
class Made:
    """The answer of a remote call: the key, seconds where it made something, and the message of an
    error with its traceback.
    """

    key: str
    seconds: float | None = None
    error: str | None = None
    trace: str = ""


def missing_stages(
    plan: Plan, pending: list[str], store: ArtifactStore, observer: Observer
) -> list[str]:
    """Return the keys of shared stages that pending evaluations need and the storage lacks, inputs
    first.

    All data and encoders count as shared; an aligned encoder or a task's training does where
    several trials need it. Data that is there is verified, so that a damaged artifact is made again
    before it is read.
    """
    users = plan.users()
    wanted = []
    for key in plan.closure(pending):
        stage = plan.stages[key]
        if (
            stage.inline
            or stage.kind == "evaluation"
            or (stage.kind in TRAINED and users.get(key, 0) < 2)
        ):
            continue
        with warnings.catch_warnings(record=True) as damages:
            warnings.simplefilter("always")
            present = store.has(stage.kind, key) and (
                stage.kind in TRAINED or store.verify(stage.kind, key)
            )
        own = [damage for damage in damages if damage.category is UserWarning]  # not of libraries
        for damage in own:
            observer.noticed(f"{damage.message} It is made again.")
        if not present:
            wanted.append(key)
    return wanted


def prepare(plan: Plan, keys: list[str], job: Job, observer: Observer) -> dict[str, Made]:
    """Make shared stages, and return those that failed, by key.

    Args:
        plan: The plan.
        keys: The stages, inputs before what reads them. One whose input failed is not tried.
        job: What workers need to know.
        observer: Receives what is made.
    """
    calls: dict[str, Any] = {}
    for key in keys:
        stage = plan.stages[key]
        before = [
            calls[entry] for entry in plan.closure(list(stage.inputs.values())) if entry in calls
        ]
        trains = stage.kind in FITTED or "encoder" in stage.inputs
        remote = _make_stage.options(
            num_cpus=job.threads, num_gpus=job.gpus if trains else 0, max_retries=job.max_failures
        )
        calls[key] = remote.remote(job, key, trains, *before)
    return _await(plan, calls, Notes(job.scratch), observer)


def _await(
    plan: Plan, calls: Mapping[str, Any], notes: Notes, observer: Observer
) -> dict[str, Made]:
    """Wait for the calls and report how far they are; returns those that failed, by key."""
    failed: dict[str, Made] = {}
    waiting = {call: key for key, call in calls.items()}
    while waiting:
        done, _ = ray.wait(list(waiting), num_returns=1, timeout=EVERY)
        for call in done:
            key = waiting.pop(call)
            made = _result(call, key)
            if made.error is not None:
                failed[key] = made
            observer.stage_finished(plan.stages[key], made.seconds, made.error)
        for key, advance in notes.read().items() if not done else ():
            if key in waiting.values():
                observer.stage_advanced(plan.stages[key], advance)
    return failed


def _result(call: Any, key: str) -> Made:
    try:
        made: Made = ray.get(call)
    except ray.exceptions.RayError as error:
        return Made(key, error=f"the worker was lost: {error}")
    return made


@ray.remote  # type: ignore[untyped-decorator,unused-ignore]
def _make_stage(job: Job, key: str, trains: bool, *before: Made) -> Made:
    """Make one stage on a worker. Errors that the user can mend come back as messages; only lost
    workers are retried by Ray.
    """
    broken = next((made for made in before if made.error is not None), None)
    if broken is not None:
        return Made(key, error=broken.error, trace=broken.trace)
    start = time.monotonic()
    try:
        open_workshop(job, report=Note(job.scratch, key).report, trains=trains).ensure(key)
    except RaxalignError as error:
        return Made(key, error=str(error))
    # a bug in one stage fails the trials that need it, not the grid
    except Exception as error:  # noqa: BLE001
        return Made(key, error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
    return Made(key, seconds=time.monotonic() - start)


def failed_inputs(plan: Plan, failed: Mapping[str, Made], evaluations: list[str]) -> Made | None:
    """Return the failure that keeps these evaluations from running, if there is one."""
    return next((failed[key] for key in plan.closure(evaluations) if key in failed), None)
