"""Copying a whole grid to MLflow, after or without a driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from raxalign.plan.plan import Plan
from raxalign.tracking.client import Target, TrackingError, not_copied
from raxalign.tracking.recorder import Event, Recorder


def sync(plan: Plan, target: Target, pruned: Sequence[Event] = ()) -> int:
    """Bring everything that the ledger has, and the ends of trials that a search `pruned`, of which
    the ledger has nothing; returns how many trials have results. Raises `TrackingError` where that
    failed.
    """
    with _reported(target):
        recorder = Recorder(plan, target)
        recorder.open()
        try:
            if pruned:
                recorder.take(pruned)
            return recorder.close()
        finally:
            recorder.release()


def keep_report(plan: Plan, target: Target, folder: Path) -> None:
    """Put a report's files with the run of the plan's grid. Raises `TrackingError` where that
    failed.
    """
    with _reported(target):
        Recorder(plan, target).keep(folder)


def describe(plan: Plan, target: Target, answer: str) -> None:
    """Describe the experiment of a grid by the answer of its results. Raises `TrackingError` where
    that failed.
    """
    with _reported(target):
        Recorder(plan, target).describe(answer)


@contextmanager
def _reported(target: Target) -> Iterator[None]:
    """Raise what fails in the block as a `TrackingError` that says whose error it is."""
    try:
        yield
    except TrackingError:
        raise
    except Exception as error:
        raise TrackingError(not_copied(target.uri, error)) from error
