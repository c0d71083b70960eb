"""The driver's one logger: a thread that copies what happens to the tracking store. A store that is
down stops nothing.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.printing import to_stderr
from raxalign.sweep.observer import Observer
from raxalign.tracking.client import Target, unanswered
from raxalign.tracking.recorder import Recorder

BEAT = 60.0  # seconds between two signs of life


class Tracker(Observer):
    """Brings events one by one in a thread of its own.

    After a failure it waits (10 s, doubling to 5 minutes) before it tries again; what was missed
    meanwhile is copied at the end.
    """

    def __init__(self, plan: Plan, target: Target, tell: Callable[[str], None] = to_stderr) -> None:
        self._plan, self._target, self._tell = plan, target, tell
        self._events: queue.Queue[tuple[str, Trial | None, str | None]] = queue.Queue()
        self._recorder: Recorder | None = None
        self._retry_at, self._pause, self._missed = 0.0, 10.0, 0
        self._error: Exception | None = None
        self._unbrought = 0  # trials that ended and are still in the queue
        self._thread = threading.Thread(target=self._work, name="raxalign-tracker", daemon=True)
        self._thread.start()

    def trial_started(self, trial: Trial) -> None:
        """Begin a run."""
        self._events.put(("start", trial, None))

    def trial_finished(self, trial: Trial, error: str | None) -> None:
        """End a run."""
        self._unbrought += 1
        self._events.put(("finish", trial, error))

    def trial_pruned(self, trial: Trial, where: str) -> None:
        """End a run that a search ended early."""
        self._unbrought += 1
        self._events.put(("prune", trial, where))

    def close(self, *, wait: float = 120.0) -> str | None:
        """Bring the rest and end, however long that takes while something is copied; what is left
        is printed now and then.

        Returns a message where something is left for `raxalign sync`: the store does not answer,
        or nothing was copied for the seconds to `wait`.
        """
        self._events.put(("close", None, None))
        before = None
        while self._thread.is_alive() and (now := self._progress()) != before:
            if before is not None:
                self._tell(f"{self._left()} still to be copied to {self._target.uri}")
            before = now
            self._thread.join(wait)
        if self._thread.is_alive() and self._error is None:
            return self._slow(wait)
        if self._thread.is_alive() or self._missed:
            return unanswered(self._target.uri, self._error)
        return None

    def _progress(self) -> tuple[int, int]:
        """What changes when the store accepts something."""
        return self._recorder.copied if self._recorder else 0, self._unbrought

    def abandon(self) -> None:
        """End at once after an interruption: what still runs is marked as killed."""
        self._events.put(("abandon", None, None))
        self._thread.join(15.0)

    def _left(self) -> str:
        known = self._recorder.left if self._recorder else None
        left = self._unbrought if known is None else known
        return f"{left} trials are" if left else "some runs of cells are"

    def _slow(self, waited: float) -> str:
        return (
            f"the tracking store at {self._target.uri} answers, but is busy: after {waited:.0f} s"
            f" {self._left()} still to be copied; every result is in the ledger: run"
            " `raxalign sync` to copy the rest"
        )

    def _work(self) -> None:
        self._try("open", None, None)
        beaten = time.monotonic()
        while True:
            try:
                event, trial, text = self._events.get(timeout=BEAT)
            except queue.Empty:
                event, trial, text = "beat", None, None
            if event == "close":
                self._finish_up()
                return
            self._try(event, trial, text)
            self._unbrought -= event in {"finish", "prune"}
            if event == "abandon":
                return
            if time.monotonic() - beaten > BEAT:
                self._try("beat", None, None)
                beaten = time.monotonic()

    def _try(self, event: str, trial: Trial | None, text: str | None) -> None:
        counts = event in {"start", "finish", "prune"}
        if time.monotonic() < self._retry_at:
            self._missed += counts
            return
        try:
            self._bring(event, trial, text)
            self._pause = 10.0
        # whatever the client raises, tracking must not stop a grid; the end of the grid tries again
        # and reports
        except Exception as error:  # noqa: BLE001
            self._missed += counts
            self._error = error
            self._retry_at = time.monotonic() + self._pause
            self._pause = min(self._pause * 2, 300.0)

    def _bring(self, event: str, trial: Trial | None, text: str | None) -> None:
        recorder = self._open()
        if event == "start" and trial:
            recorder.start(trial)
        elif event == "finish" and trial:
            recorder.finish(trial, text)
        elif event == "prune" and trial and text:
            recorder.prune(trial, text)
        elif event == "beat":
            recorder.beat()
        elif event == "abandon":
            recorder.abandon()

    def _open(self) -> Recorder:
        if self._recorder is None:
            recorder = Recorder(self._plan, self._target)
            recorder.open()
            self._recorder = recorder
        return self._recorder

    def _finish_up(self) -> None:
        """Bring the rest; what was missed is found by comparing the ledger with the runs."""
        try:
            recorder = self._open()
            self._error = None
            recorder.close()
            self._missed = 0
        except Exception as error:  # noqa: BLE001 the message of `close` reports it
            self._missed += 1
            self._error = error
