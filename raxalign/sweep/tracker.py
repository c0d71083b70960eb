"""The driver's one logger: a thread that copies what happens to the tracking store. A store that is
down stops nothing.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from raxalign.errors import LeaseLost
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.printing import are, counted, to_stderr
from raxalign.sweep.events import Began, JobEnded
from raxalign.sweep.events import Event as SweepEvent
from raxalign.tracking.client import Target, TrackingHeld, not_copied
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
