"""A trial on a worker: whole in its Tune actor, or trained as one of a group (`groups`). One
function is behind both.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ray import tune

from raxalign.errors import RaxalignError, StorageError, TransientError
from raxalign.plugin_files import message_of
from raxalign.stages import run_trial, train_trial
from raxalign.stages.watching import pruned_at
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool
from raxalign.sweep.advance import Note
from raxalign.sweep.job import Job, open_workshop, read_plan
from raxalign.sweep.liveness import patience
from raxalign.sweep.losses import GIVEN_UP
from raxalign.sweep.messages import leave_notice
from raxalign.sweep.said import passed_on
from raxalign.sweep.usage import used
from raxalign.train.group import lost_peer
from raxalign.train.runtime import TOKENS, Pruned

BETWEEN = 2.0
TRAINED_ONLY = "trained"  # in a group's result, and in Tune's configuration of what is left of it
Scored = Callable[[Mapping[str, float], int], None]
"""Receives the scores on development sets that trainings measure, and their step."""


def _ignored(metrics: Mapping[str, float], step: int) -> None:
    """Scores on development sets that nobody asks for."""


def attempt(
    job: Job, key: str, *, rank: int = 0, world_size: int = 1, scored: Scored = _ignored
) -> str | None:
    """Run a trial on this worker, or train it where this is one of several workers.

    Args:
        job: What workers need to know.
        key: The trial.
        rank: The number of this worker.
        world_size: The number of workers.
        scored: Receives the scores that trainings measure.

    Returns:
        None, or the message of a failure that no retry would mend, which the storage then keeps. A
        trial that was pruned is not a failure.

    Raises:
        Exception: Transient errors, so that Tune tries again; in a group every error, since the
            others wait for this worker. What follows the loss of another worker is `PeerLost`.
    """
    spool = Spool(job.storage, key)
    report = _reporter(spool, Note(job.scratch if rank == 0 else "", key))
    try:
        workshop = open_workshop(job, report=report, rank=rank, world_size=world_size)
        workshop.runtime = replace(workshop.runtime, saved=spool.flush, scored=scored)
        workshop.patience, workshop.tell = patience, partial(leave_notice, job.scratch, key)
        with used(spool, job, rank), passed_on(job.scratch, key):
            (train_trial if world_size > 1 else run_trial)(workshop, key)
    except TransientError:
        raise
    except Pruned:
        return None
    except Exception as error:
        message = _kept(job.storage.ledger, key, error, world_size)
        if world_size > 1:
            raise
        return message
    finally:
        spool.flush()
    return None


def _reporter(spool: Spool, note: Note) -> Callable[[Mapping[str, float], int], None]:
    """Return what receives the metrics of a training: its curves, and what the driver shows of it.

    The speed is shown only, since it is not a result.
    """

    def report(metrics: Mapping[str, float], step: int) -> None:
        curves = {name: v for name, v in metrics.items() if not name.endswith(TOKENS)}
        spool.report(curves, step)
        note.report(metrics, step)

    return report


def _kept(ledger: Ledger, key: str, error: Exception, world_size: int) -> str:
    """Keep why a trial failed; return the message. Raise `PeerLost` where another worker was lost
    before.
    """
    lost = lost_peer(error)
    if lost is not None:
        raise lost from error
    known = isinstance(error, RaxalignError)
    message = message_of(error)
    if world_size == 1 or ledger.failure(key) is None:  # the first of a group to fail knows why
        keep_failure(ledger, key, message, traceback.format_exc(), bug=not known)
    return message


def keep_failure(ledger: Ledger, key: str, message: str, trace: str, *, bug: bool = False) -> None:
    """Keep why a trial failed, and whether that was an error which no code expected; where the
    storage can no longer be written, only the driver reports it.
    """
    with suppress(StorageError):
        ledger.fail(key, {"message": message, "trace": trace, **({"bug": True} if bug else {})})


def run_inline(config: dict[str, Any], job: Job) -> None:
    """Run a trial with one worker; Tune calls this. What is reported last ends it, which saves a
    second call of the worker.
    """
    key = config["trial"]
    error = given_up(config, job)
    if error is None:
        job.storage.ledger.clear_failure(key)
        error = attempt(job, key, scored=TuneScores().take)
    tune.report({"trial": key, "error": error or "", **where_pruned(job, key), "done": True})


class TuneScores:
    """Reports the scores on development sets to Tune while a training runs: at most every
    `BETWEEN` seconds, since a report waits for the driver.
    """

    def __init__(self) -> None:
        self._told, self._latest = time.monotonic(), dict[str, float]()

    def take(self, metrics: Mapping[str, float], step: int) -> None:
        """Take the scores of a step, and report the latest ones where it is time."""
        self._latest |= metrics
        if time.monotonic() - self._told >= BETWEEN:
            tune.report({**self._latest, "step": step})
            self._told = time.monotonic()


def where_pruned(job: Job, key: str) -> dict[str, str]:
    """Return in words where a trial was ``pruned``; nothing for one that was not."""
    plan = read_plan(job.plan)
    curve = pruned_at(plan, key, job.storage) if plan.studies else None
    if curve is None or all(map(job.storage.ledger.has, plan.by_key[key].evaluations.values())):
        return {}
    return {"pruned": f"pruned at step {curve.points[-1].step:,} of {curve.steps:,}"}


def given_up(config: dict[str, Any], job: Job) -> str | None:
    """Return why the driver has given up a trial, and keep it; None where it has not."""
    reason: str | None = config.get(GIVEN_UP)
    if reason is not None:
        keep_failure(job.storage.ledger, config["trial"], reason, "")
    return reason
