"""The work of one worker: a shared stage, or a trial, whole in its Tune actor or trained as one of
a group (`groups`).
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ray import cloudpickle, tune

from raxalign.catalog import message_of
from raxalign.errors import RaxalignError, ResourceError, StorageError, TransientError
from raxalign.plan.plan import Plan
from raxalign.printing import masked
from raxalign.stages import TRAINED, Workshop, run_trial, train_trial
from raxalign.stages.checkpoints import Checkpoints
from raxalign.stages.workshop import pruned_at
from raxalign.store.ledger import Ledger
from raxalign.store.spool import GPU_HOURS, Spool
from raxalign.sweep.cluster import patience
from raxalign.sweep.job import Job, open_workshop, read_plan
from raxalign.sweep.mailbox import Outbox, passed_on
from raxalign.train.group import lost_peer
from raxalign.train.runtime import TOKENS, Pruned

GIVEN_UP = "given_up"  # in Tune's configuration of a trial: why it is not run once more
Mark = tuple[int, int, int]


def progress_of(job: Job, plan: Plan, key: str) -> Mark:
    """Return how far a trial, or a stage, is: its evaluations in the ledger, its trainings that are
    done, and the steps that the checkpoints of the others keep. What got further has a greater
    mark.
    """
    ledger, store, evaluations = job.storage.ledger, job.storage.artifacts, list[str]()
    trained = [plan.stages[key]] if key in plan.stages else []
    if key in plan.by_key:
        evaluations = list(plan.by_key[key].evaluations.values())
        behind = (plan.stages[entry] for entry in plan.closure(evaluations))
        trained = [stage for stage in behind if stage.kind in TRAINED and not stage.inline]
    going = [stage for stage in trained if not store.has(stage.kind, stage.key)]
    return (
        sum(ledger.has(evaluation) for evaluation in evaluations),
        len(trained) - len(going),
        sum(Checkpoints(job.storage, stage.key).steps() for stage in going),
    )


@dataclass
class Losses:
    """The losses of one trial. It is given up after more than `allowed` losses between which it did
    not get further than `progress` showed before. What an earlier run left counts as progress once.
    """

    allowed: int
    progress: Callable[[], Mark]
    count: int = 0
    _best: Mark = field(default=(0, 0, 0))

    def another(self) -> bool:
        """Count a loss; return whether the trial is to be tried again."""
        now = self.progress()
        if now > self._best:
            self._best, self.count = now, 0
        else:
            self.count += 1
        return self.count <= self.allowed


def cause_of(trial: Any) -> object:
    """Return the error that ended one of Tune's trials. Tune writes it on this machine first, and
    later to its storage, where `get_error` looks.
    """
    name = getattr(trial, "pickled_error_file", None)
    if name and Path(name).exists():
        error: object = cloudpickle.loads(Path(name).read_bytes())
        return error
    return trial.get_error()


def describe_retry(cause: object, what: str = "worker") -> str:
    """Return the line for a trial or a stage that lost its worker (or `what`) and is tried again.

    >>> describe_retry("killed")
    'its worker was lost (killed); it is tried again, from its last checkpoint where it has one'
    """
    known = describe_loss(cause, 1, what).replace(" was lost once", " was lost", 1)
    return f"{known}; it is tried again, from its last checkpoint where it has one"


def describe_loss(cause: object, count: int, what: str = "worker") -> str:
    r"""Return the message for a trial that lost its worker (or `what`) too often, with the last
    cause.

    >>> describe_loss(RuntimeError("killed"), 2)
    'its worker was lost 2 times without progress in between (killed)'
    >>> describe_loss(RuntimeError("ray::train() (pid=3)\n  File x.py\nOSError: it is full"), 1)
    'its worker was lost once (OSError: it is full)'
    """
    known = getattr(cause, "cause", cause)
    times = f"{count} times" if count > 1 else "once"
    if isinstance(known, RaxalignError):
        return f"{known} (tried {times})"
    lines = str(cause or "no reason was given").strip().splitlines()
    line = lines[-1 if "Traceback" in lines[0] or "ray::" in lines[0] else 0][:300]
    between = " without progress in between" if count > 1 else ""
    return f"its {what} was lost {times}{between} ({line})"


TRAINED_ONLY = "trained"  # in a group's result, and in Tune's configuration of what is left of it

Report = Callable[[Mapping[str, float], int], None]
"""Receives values by name, and their step."""


@contextmanager
def _told(workshop: Workshop, outbox: Outbox) -> Iterator[None]:
    """Tell the driver what holds the workshop up and what plug-ins print within the block."""
    workshop.patience, workshop.tell = patience, outbox.hold_up
    with passed_on(outbox):
        yield


def run_stage(config: dict[str, Any], job: Job) -> None:
    """Make one shared stage on a worker; Tune calls this. Errors that no retry would mend are
    reported, so that the trials that need the stage fail with them; Tune tries the others again.
    """
    key, start, error, trace = config["stage"], time.monotonic(), "", ""
    outbox = Outbox(job.scratch, key)
    outbox.begin()
    try:
        if GIVEN_UP in config:
            raise ResourceError(config[GIVEN_UP])
        workshop = open_workshop(job, report=outbox.report, trains=config["trains"])
        with _told(workshop, outbox):
            workshop.ensure(key)
    except TransientError:
        raise
    # a bug in one stage fails the trials that need it, not the grid
    except Exception as found:  # noqa: BLE001
        error = message_of(found)
        trace = "" if isinstance(found, RaxalignError) else traceback.format_exc()
    seconds = time.monotonic() - start
    tune.report({"error": error, "trace": trace, "seconds": seconds, "done": True})


def run_inline(config: dict[str, Any], job: Job) -> None:
    """Run one trial in this actor; Tune calls this."""
    key = config["trial"]
    error = given_up(config, job)
    if error is None:
        job.storage.ledger.clear_failure(key)
        error = attempt(job, key)
    tune.report({"trial": key, "error": error or "", **where_pruned(job, key), "done": True})


def attempt(job: Job, key: str, *, rank: int = 0, world_size: int = 1) -> str | None:
    """Run a trial on this worker, or train it where this is one of several workers. Return None, or
    the message of a failure that no retry would mend, which the storage then keeps. A trial that
    was pruned is not a failure.

    Raises transient errors, so that Tune tries again; in a group every error, since the others wait
    for this worker. What follows the loss of another worker is `PeerLost`.
    """
    outbox = Outbox(job.scratch, key)
    if rank == 0:
        outbox.begin()
    try:
        with _curves(job, key, rank, outbox) as (spool, report):
            workshop = open_workshop(job, report=report, rank=rank, world_size=world_size)
            workshop.runtime = replace(workshop.runtime, saved=spool.flush)
            with _told(workshop, outbox):
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
    return None


@contextmanager
def _curves(job: Job, key: str, rank: int, outbox: Outbox) -> Iterator[tuple[Spool, Report]]:
    """Keep the curves of a trial, and in the end the hours for which this worker held cards. Yields
    what receives metrics too. The speed of a training is shown only, since it is not a result.
    """
    spool, begun = Spool(job.storage, key), time.monotonic()

    def report(metrics: Mapping[str, float], step: int) -> None:
        spool.report({n: v for n, v in metrics.items() if not n.endswith(TOKENS)}, step)
        if rank == 0:
            outbox.report(metrics, step)

    try:
        yield spool, report
    finally:
        if job.gpus:
            hours = job.gpus * (time.monotonic() - begun) / 3600
            spool.report({f"{GPU_HOURS}/{rank}": hours}, int(time.time()))
        spool.flush()


def _kept(ledger: Ledger, key: str, error: Exception, world_size: int) -> str:
    """Keep why a trial failed; return the message. Raise `PeerLost` after another worker's loss."""
    lost = lost_peer(error)
    if lost is not None:
        raise lost from error
    message = message_of(error)
    if world_size == 1 or ledger.failure(key) is None:  # the first of a group to fail knows why
        bug = not isinstance(error, RaxalignError)
        keep_failure(ledger, key, message, traceback.format_exc(), bug=bug)
    return message


def keep_failure(ledger: Ledger, key: str, message: str, trace: str, *, bug: bool = False) -> None:
    """Keep why a trial failed, and whether that was an error which no code expected; where the
    storage can no longer be written, only the driver reports it.
    """
    with suppress(StorageError):
        why = {"message": masked(message), "trace": masked(trace)}
        ledger.fail(key, {**why, **({"bug": True} if bug else {})})


def where_pruned(job: Job, key: str) -> dict[str, str]:
    """Return in words where a trial was ``pruned``; nothing for one that was not."""
    plan = read_plan(job.plan)
    place = pruned_at(plan, key, job.storage) if plan.studies else ""
    if not place or all(map(job.storage.ledger.has, plan.by_key[key].evaluations.values())):
        return {}
    return {"pruned": place}


def given_up(config: dict[str, Any], job: Job) -> str | None:
    """Return why the driver has given up a trial, and keep it; None where it has not."""
    reason: str | None = config.get(GIVEN_UP)
    if reason is not None:
        keep_failure(job.storage.ledger, config["trial"], reason, "")
    return reason
