"""Copying a whole grid to MLflow, after or without a driver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from raxalign.plan.plan import Plan
from raxalign.tracking.client import Target, TrackingError, unanswered
from raxalign.tracking.recorder import Event, Recorder


def sync(plan: Plan, target: Target, pruned: Sequence[Event] = ()) -> int:
    """Bring everything that the ledger has, and the ends of trials that a search `pruned`, of which
    the ledger has nothing; returns how many trials have results. Raises `TrackingError` where the
    store does not answer.
    """
    try:
        recorder = Recorder(plan, target)
        recorder.open()
        if pruned:
            recorder.take(pruned)
        return recorder.close()
    except Exception as error:
        raise TrackingError(unanswered(target.uri, error)) from error


def keep_report(plan: Plan, target: Target, folder: Path) -> None:
    """Put a report's files with the run of the plan's grid. Raises `TrackingError` where the
    store does not answer.
    """
    try:
        Recorder(plan, target).keep(folder)
    except Exception as error:
        raise TrackingError(unanswered(target.uri, error)) from error


def describe(plan: Plan, target: Target, answer: str) -> None:
    """Describe the experiment of a grid by the answer of its results. Raises `TrackingError` where
    the store does not answer.
    """
    try:
        Recorder(plan, target).describe(answer)
    except Exception as error:
        raise TrackingError(unanswered(target.uri, error)) from error
