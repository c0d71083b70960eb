"""How often a trial may lose its workers. A cluster of spot machines takes workers away again and
again, so only losses without progress in between count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray import cloudpickle

from raxalign.errors import RaxalignError
from raxalign.plan.plan import Plan
from raxalign.stages import TRAINED
from raxalign.stages.checkpoints import Checkpoints
from raxalign.sweep.job import Job

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
