"""The main job: a grid file in, every result in the ledger and in MLflow. Imports Ray only when
something is left to run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from raxalign.errors import RaxalignError
from raxalign.plan.checks.bitexts import shortages
from raxalign.plan.checks.preflight import read_files
from raxalign.plan.load import Opened, reopened
from raxalign.plan.plan import Plan
from raxalign.plugin_files import refuse_changed
from raxalign.printing import to_stderr
from raxalign.stages import TRAINED
from raxalign.store.drivers import signed_on
from raxalign.store.key import digest
from raxalign.sweep.collecting import Collector, collect_plan
from raxalign.sweep.events import all_of
from raxalign.sweep.progress import Progress
from raxalign.sweep.pruned import pruned_events
from raxalign.sweep.removal import Keeper
from raxalign.sweep.tracker import Tracker
from raxalign.tracking.client import Target, TrackingError, default_uri
from raxalign.tracking.database_sync import carried
from raxalign.tracking.sync import describe as write_answer
from raxalign.tracking.sync import keep_report as bring_report
from raxalign.tracking.sync import sync

if TYPE_CHECKING:
    from raxalign.plan.study import Study
    from raxalign.sweep.job import Job
    from raxalign.sweep.running import Summary
    from raxalign.sweep.search.search import Searched


def run(opened: Opened, plan: Plan) -> tuple[Summary, list[str]]:
    """Run what is missing of a plan; returns how it ended and the messages for the user.

    Raises `RaxalignError` with all faults of its data files, before anything is started.
    """
    job = _checked(opened, plan)
    from raxalign.sweep.tuner import run_grid

    storage, target = opened.storage, target_of(opened, job.storage.local)
    # a part of a grid copies the whole grid's results: a cell's mean is over all its runs
    whole = opened.plan
    with carried(target, job.storage.local, lambda: sync(whole, target)):
        progress, tracker = Progress(storage.ledger), Tracker(whole, target)
        keeper = Keeper(whole, storage, opened.run.keep)
        hear = all_of(keeper.hear, progress.hear, tracker.hear, Collector(storage).hear)
        with _interrupt_twice(), signed_on(storage, job.plan):
            try:
                summary = run_grid(plan, job, hear, address=opened.run.address)
            except BaseException:
                progress.stop()
                tracker.abandon()
                raise
        message = tracker.close()
    collect_plan(whole, storage)
    if message is None:
        _mark_synced(plan, target, job.storage.local)
    return summary, [message] if message else []


def drop_weights(opened: Opened) -> str | None:
    """Remove the weights of a finished grid that it does not keep; returns a line on them."""
    return Keeper(opened.plan, opened.storage, opened.run.keep).finish()


def run_searches(opened: Opened, studies: Sequence[Study]) -> Searched:
    """Run searches of a grid; returns how they ended.

    Raises `RaxalignError` with all faults of its data files, before anything is started.
    """
    # one point of each study reads the files that all of them read
    plan = reopened(opened, lambda study: [study.corner] if study in studies else []).plan
    if short := shortages(plan):
        raise RaxalignError("\n".join(short))
    job = _checked(opened, plan)
    from raxalign.sweep.search.search import search

    target = target_of(opened, job.storage.local)
    with (
        carried(target, job.storage.local, lambda: sync(opened.plan, target)),
        _interrupt_twice(),
        signed_on(opened.storage, job.plan),
    ):
        found = search(opened, studies, job, target)
    collect_plan(found.opened.plan, opened.storage)
    more = finish_tracking(found.opened, found.opened.plan, job.storage.local)
    return replace(found, messages=[*found.messages, *more])


def _checked(opened: Opened, plan: Plan) -> Job:
    """Check the storage and read the data files of a plan; returns what workers need to know."""
    settings, storage = opened.run, opened.storage
    storage.artifacts.check_writable()
    refuse_changed(plan.plugins)
    found = read_files(plan, done=storage.ledger.keys(), memory=storage.local / "read")
    found.refuse_faults(opened.grid.path)
    if found.files:
        to_stderr(str(found))
    for remark in found.remarks:
        to_stderr(f"note: {remark}")
    _report_idle_workers(opened, plan)
    from raxalign.sweep.job import Job, write_plan

    return Job(
        storage,
        write_plan(plan, storage),
        settings.workers,
        settings.threads,
        0.0 if settings.gpus_per_worker == "auto" else settings.gpus_per_worker,
        settings.max_failures,
        at_once=settings.concurrency,
        cache_gib=settings.cache_gib,
        auto_gpus=settings.gpus_per_worker == "auto",
        checkpoint_minutes=settings.checkpoint_minutes,
        activation_checkpointing=settings.activation_checkpointing,
    )


def _report_idle_workers(opened: Opened, plan: Plan) -> None:
    """Report that `--workers` has more workers than trainings with dropout can use."""
    given, shares = opened.run.workers, opened.grid.run.workers
    kinds = {stage.kind for stage in plan.stages.values() if stage.shares}
    if given > shares and kinds & TRAINED:
        to_stderr(
            f"note: --workers {given}: trainings with dropout use {shares}, since the masks depend"
            f" on how batches are divided. Write `workers: {given}` in `run` of {opened.grid.path}"
            " to divide them further; what is trained so has keys of its own"
        )


def finish(opened: Opened, plan: Plan) -> list[str]:
    """Do what a finished grid may lack: copy its results to MLflow, remove the weights that it does
    not keep, and collect what an object store has of it; returns messages for the user.
    """
    messages = finish_tracking(opened, plan, opened.storage.local)
    dropped = drop_weights(opened)
    collect_plan(opened.plan, opened.storage)
    return [*messages, dropped] if dropped else messages


def finish_tracking(opened: Opened, plan: Plan, local: Path) -> list[str]:
    """Copy to MLflow what an earlier, killed driver has left behind. Nothing is imported where
    nothing is missing.
    """
    target = target_of(opened, local)
    if _marker(target, plan, local).exists():
        return []
    try:
        copy_all(opened, target, local)
    except TrackingError as error:
        return [str(error)]
    _mark_synced(plan, target, local)
    return []


def keep_report(opened: Opened, folder: Path, local: Path) -> str | None:
    """Put a report with the grid's run, where the grid was tracked; returns a message where
    that could not be done.
    """
    target = target_of(opened, local)
    database = target.uri.removeprefix("sqlite:///")
    if database != target.uri and not Path(database).exists():
        return None
    try:
        with carried(target, local, lambda: sync(opened.plan, target)):
            bring_report(opened.plan, target, folder)
    except TrackingError as error:
        return str(error)
    return None


def describe(opened: Opened, answer: str) -> str | None:
    """Write the answer of the results into the description of the grid's experiment, where it is
    another than before and the grid was tracked; returns a message where that could not be done.
    """
    local = opened.storage.local
    target = target_of(opened, local)
    marker = local / "tracked" / f"{digest([target.uri, opened.plan.name])[:32]}.answer"
    database = target.uri.removeprefix("sqlite:///")
    wanted = json.dumps({"grid": opened.plan.name, "uri": target.uri, "answer": answer})
    if marker.exists() and marker.read_text(encoding="utf-8") == wanted:
        return None
    if database != target.uri and not Path(database).exists():
        return None
    try:
        with carried(target, local, lambda: sync(opened.plan, target)):
            write_answer(opened.plan, target, answer)
    except TrackingError as error:
        return str(error)
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(wanted, encoding="utf-8")
    return None


def copy_all(opened: Opened, target: Target, local: Path) -> int:
    """Copy all results of a grid to MLflow, as `sync` does, and on an object store the database to
    the storage.
    """
    plan, pruned = opened.plan, pruned_events(opened)
    with carried(target, local, lambda: sync(plan, target, pruned)):
        return sync(plan, target, pruned)


def target_of(opened: Opened, local: Path) -> Target:
    """Return where the runs of a grid go."""
    return Target(
        opened.run.tracking_uri or default_uri(opened.storage, local),
        opened.storage,
        opened.grid.text_of_file,
    )


def _marker(target: Target, plan: Plan, local: Path) -> Path:
    """Return the file whose presence means that all results of a plan are in one tracking store."""
    name = digest(
        [
            target.uri,
            plan.name,
            sorted(trial.key for trial in plan.trials),
            sorted(k for t in plan.trials for k in t.evaluations.values()),
        ]
    )
    return local / "tracked" / name[:32]


def _mark_synced(plan: Plan, target: Target, local: Path) -> None:
    wanted = {key for trial in plan.trials for key in trial.evaluations.values()}
    if not target.storage.ledger.keys() >= wanted:
        return
    marker = _marker(target, plan, local)
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(json.dumps({"grid": plan.name, "uri": target.uri}))


@contextmanager
def _interrupt_twice() -> Iterator[None]:
    """End the grid cleanly on the first Ctrl-C (or SIGTERM), and the process on a second one.

    Afterwards signals mean again what they meant before: a notebook goes on. Outside the main
    thread nothing is changed.
    """

    def again(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        os._exit(130)

    def first(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        for known in (signal.SIGINT, signal.SIGTERM):
            signal.signal(known, again)
        sys.stderr.write(
            "\ninterrupted: ending cleanly (Ctrl-C again to end at once); what is done is kept\n"
        )
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {known: signal.signal(known, first) for known in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)
