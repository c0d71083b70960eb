"""The driver's one logger: a thread that copies what happens to the tracking store. A store that is
down stops nothing.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from raxalign.errors import LeaseLost
from raxalign.plan.load import Opened, reopened
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.printing import are, counted, masked, to_stderr
from raxalign.search.study import Study, Suggestion, read_record
from raxalign.store.key import digest
from raxalign.sweep.events import Began, JobEnded
from raxalign.sweep.events import Event as SweepEvent
from raxalign.tracking import recorder
from raxalign.tracking.client import (
    Target,
    TrackingError,
    TrackingHeld,
    database_of,
    default_uri,
    former_place,
    not_copied,
    reported,
)
from raxalign.tracking.recorder import Event, Recorder
from raxalign.waits import SOON

BEAT = 60.0  # seconds between two signs of life
MOST = 100  # events that are copied in one turn
LAST = 10.0  # seconds in which a driver that ends waits for another one that copies the same grid


class Tracker:
    """Brings events in a thread of its own: all that have come while it was busy, in one turn.

    After a failure it waits (10 s, doubling to 5 minutes) before it tries again; what was missed
    meanwhile is copied at the end.
    """

    def __init__(self, plan: Plan, target: Target, tell: Callable[[str], None] = to_stderr) -> None:
        self._plan, self._target, self._tell = plan, target, tell
        self._events: queue.Queue[Event | str] = queue.Queue()
        self._recorder: Recorder | None = None
        self._retry_at, self._pause, self._missed = 0.0, 10.0, 0
        self._error: Exception | None = None
        self._unbrought = 0  # trials that ended and are still in the queue
        self._again: list[Event] = []  # that were missed, and that the ledger has nothing of
        self._thread = threading.Thread(target=self._work, name="raxalign-tracker", daemon=True)
        self._thread.start()

    def hear(self, event: SweepEvent) -> None:
        """Begin or end the run of a trial."""
        match event:
            case Began(what=Trial() as trial):
                self._events.put(Event(trial))
            case JobEnded(what=Trial() as trial):
                self._unbrought += 1
                ended = Event(trial, ended=True, error=event.error, pruned=event.pruned)
                self._events.put(ended)

    def close(self) -> str | None:
        """Bring the rest and end, however long that takes while the store answers: each call to it
        has a limit of its own. What is left is printed now and then.

        Returns a message where something is left for `raxalign sync`.
        """
        self._events.put("close")
        self._thread.join(SOON)
        while self._thread.is_alive():
            self._tell(f"{self._left()} still to be copied to {self._target.uri}")
            self._thread.join(BEAT)
        if isinstance(self._error, TrackingHeld):
            return str(self._error)
        return not_copied(self._target.uri, self._error) if self._missed else None

    def abandon(self) -> None:
        """End at once after an interruption: what still runs is marked as killed."""
        self._events.put("abandon")
        self._thread.join(15.0)

    def _left(self) -> str:
        known = self._recorder.left if self._recorder else None
        left = self._unbrought if known is None else known
        return f"{counted(left, 'trial')} {are(left)}" if left else "some runs of cells are"

    def _work(self) -> None:
        try:
            self._copy()
        finally:
            if self._recorder is not None:
                self._recorder.release()

    def _copy(self) -> None:
        self._try(self._open)
        beaten = time.monotonic()
        while True:
            events, then = self._next()
            if events:
                if not self._try(lambda: self._open().take(events), len(events)):  # noqa: B023 called here
                    self._again += [event for event in events if event.pruned]
                self._unbrought -= sum(event.ended for event in events)
            if then == "close":
                self._finish_up()
                return
            if then == "abandon":
                self._try(lambda: self._open().abandon())
                return
            if time.monotonic() - beaten > BEAT:
                self._try(lambda: self._open().beat())
                beaten = time.monotonic()

    def _next(self) -> tuple[list[Event], str | None]:
        """Wait for what is to be done next: events, and how it ends after them (None: it does
        not). Nothing comes where nothing has happened for `BEAT` seconds.
        """
        events: list[Event] = []
        while len(events) < MOST:
            try:
                found = self._events.get(block=not events, timeout=BEAT)
            except queue.Empty:
                break
            if isinstance(found, str):
                return events, found
            events.append(found)
        return events, None

    def _try(self, what: Callable[[], object], events: int = 0) -> bool:
        """Do something with the store, unless it failed a short while ago; returns whether it was
        done. `events` are missed where it was not.
        """
        if time.monotonic() < self._retry_at:
            self._missed += events
            return False
        try:
            what()
            self._pause = 10.0
            return True
        # whatever the client raises, tracking must not stop a grid; the end of the grid tries again
        # and reports
        except Exception as error:  # noqa: BLE001
            if isinstance(error, LeaseLost):
                self._recorder = None
            self._missed += events
            self._error = error
            self._retry_at = time.monotonic() + self._pause
            self._pause = min(self._pause * 2, 300.0)
            return False

    def _open(self) -> Recorder:
        if self._recorder is None:
            recorder = Recorder(self._plan, self._target)
            recorder.open()
            self._recorder = recorder
        return self._recorder

    def _finish_up(self) -> None:
        """Bring the rest; what was missed is found by comparing the ledger with the runs, apart
        from trials that a search pruned.
        """
        try:
            end, recorder = time.monotonic() + LAST, None
            while recorder is None:
                try:
                    recorder = self._open()
                except TrackingHeld:  # by another driver of the grid, which may be about to end too
                    if time.monotonic() >= end:
                        raise
                    time.sleep(0.5)
            self._error = None
            if self._again:
                recorder.take(self._again)
            recorder.close()
            self._missed = 0
        except Exception as error:  # noqa: BLE001 the message of `close` reports it
            self._missed += 1
            self._error = error


def target_of(opened: Opened) -> Target:
    """Return where the runs of a grid go."""
    uri = opened.run.tracking_uri or default_uri(opened.storage)
    return Target(uri, opened.storage, opened.grid.text_of_file)


def copy_all(opened: Opened, target: Target) -> int:
    """Copy a grid's results to MLflow, as `sync` does."""
    return recorder.sync(opened.plan, target, pruned_events(opened))


def finish_tracking(opened: Opened, plan: Plan) -> list[str]:
    """Copy to MLflow what a killed driver has left behind; return why it cannot be done."""
    target = target_of(opened)
    if _marker(target, plan).exists():
        return []
    try:
        copy_all(opened, target)
    except TrackingError as error:
        return [str(error)]
    mark_copied(plan, target)
    return []


def keep_report(opened: Opened, folder: Path) -> str | None:
    """Put a report with the grid's run, if it was tracked; return why it cannot be done."""
    return _where_tracked(opened, lambda runs: runs.keep(folder))


def describe(opened: Opened, answer: str) -> str | None:
    """Write the answer of the results into the description of the grid's experiment, where it is
    another than before and the grid was tracked; returns a message where that could not be done.
    """
    name, uri = opened.plan.name, target_of(opened).uri
    marker = opened.storage.local / "tracked" / f"{digest([uri, name])[:32]}.answer"
    wanted = json.dumps({"grid": name, "uri": masked(uri), "answer": answer})

    def write(runs: Recorder) -> None:
        runs.describe(answer)
        _mark(marker, wanted)

    if marker.is_file() and marker.read_bytes() == wanted.encode():
        return None
    return _where_tracked(opened, write)


def _where_tracked(opened: Opened, what: Callable[[Recorder], object]) -> str | None:
    target = target_of(opened)
    database = database_of(target.uri)
    moved = database is not None and former_place(database) is not None
    if database is not None and not database.exists():
        return None
    try:
        with reported(target.uri):
            if moved:
                copy_all(opened, target)
            what(Recorder(opened.plan, target))
    except TrackingError as error:
        return str(error)
    return None


def mark_copied(plan: Plan, target: Target) -> None:
    """Note that all results of a plan are in a tracking store, where the ledger has all of them."""
    wanted = {key for trial in plan.trials for key in trial.evaluations.values()}
    if target.storage.ledger.keys() >= wanted:
        _mark(_marker(target, plan), json.dumps({"grid": plan.name, "uri": masked(target.uri)}))


def _marker(target: Target, plan: Plan) -> Path:
    """Return the file whose presence means that all results of a plan are in one tracking store."""
    trials = sorted(trial.key for trial in plan.trials)
    evaluations = sorted(k for t in plan.trials for k in t.evaluations.values())
    name = digest([target.uri, plan.name, trials, evaluations])
    return target.storage.local / "tracked" / name[:32]


def _mark(marker: Path, text: str) -> None:
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(text, encoding="utf-8")


def pruned_events(opened: Opened) -> list[Event]:
    """Return the end of each pruned trial of a grid, for the tracking store. Trials that were made
    whole elsewhere, for the grid itself or to confirm a point, are not among them.
    """
    pruned = {
        (study.name, entry.number): entry
        for study in opened.plan.studies
        if study.prunes
        for entry in read_record(opened.storage, study).pruned
    }
    if not pruned:
        return []

    def suggested(study: Study) -> list[Suggestion]:
        return [
            Suggestion(n, entry.values) for (name, n), entry in pruned.items() if name == study.name
        ]

    plan, there = reopened(opened, suggested).plan, opened.storage.ledger.keys()
    events: dict[str, Event] = {}
    for asked in plan.asked:
        entry, trial = pruned.get((asked.study, asked.number)), plan.by_key[asked.trial]
        whole = there.issuperset(trial.evaluations.values()) or trial.key in opened.plan.by_key
        if entry is not None and not whole:
            events[trial.key] = Event(trial, ended=True, pruned=entry.reason)
    return list(events.values())
