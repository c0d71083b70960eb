"""The driver's one logger: a thread that copies what happens to the tracking store. A store that is
down stops nothing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

from raxalign.errors import LeaseLost
from raxalign.grid.claims import PlannedLook
from raxalign.grid.load import Opened
from raxalign.grid.metrics import Added
from raxalign.grid.plan import Plan
from raxalign.grid.study import Study, Suggestion
from raxalign.grid.trial import Trial
from raxalign.printing import are, counted, masked, to_stderr
from raxalign.store.key import digest
from raxalign.sweep.events import Began, Event, JobEnded
from raxalign.tracking.client import Target, TrackingError, TrackingHeld
from raxalign.tracking.recorder import Recorder, SeenTrial
from raxalign.waits import SOON

BEAT = 60.0  # seconds between two looks at the curves of trials that are running
MOST = 100  # trials that are written in one turn
LAST = 10.0  # seconds in which a driver that ends waits for another one that copies the same grid


class Tracker:
    """Writes the runs of trials that have ended in a thread of its own, all of those that have
    ended while it was busy in one turn, and now and then what trials that are running show.

    After a failure it waits (10 s, doubling to 5 minutes) before it tries again.
    """

    def __init__(self, plan: Plan, target: Target, tell: Callable[[str], None] = to_stderr) -> None:
        self._plan, self._target, self._tell = plan, target, tell
        self._running, self._ended = dict[str, SeenTrial](), dict[str, SeenTrial]()
        self._then = ""  # "close" or "abandon": how it ends
        self._changed = threading.Condition()
        self._recorder: Recorder | None = None
        self._retry_at, self._pause = 0.0, 10.0
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="raxalign-tracker", daemon=True)
        self._thread.start()

    def hear(self, event: Event) -> None:
        """Hear that a trial has begun or ended."""
        with self._changed:
            match event:
                case Began(what=Trial() as trial):
                    begun = SeenTrial(trial, int(time.time() * 1000))
                    self._running.setdefault(trial.key, begun).attempts += 1
                case JobEnded(what=Trial() as trial):
                    course = self._running.pop(trial.key, SeenTrial(trial))
                    course.pruned = event.pruned
                    self._ended[trial.key] = course
                    self._changed.notify()

    def close(self) -> str | None:
        """Bring the rest and end, however long that takes while the store answers: each call to it
        has a limit of its own. What is left is printed now and then.

        Returns a message where something is left for `raxalign sync`.
        """
        self._end("close")
        self._thread.join(SOON)
        while self._thread.is_alive():
            self._tell(f"{self._left()} still to be copied to {self._target.uri}")
            self._thread.join(BEAT)
        if self._error is None or isinstance(self._error, TrackingHeld):
            return str(self._error) if self._error else None
        return self._target.not_copied(self._error)

    def abandon(self) -> None:
        """End at once after an interruption: what still runs is marked as killed."""
        self._end("abandon")
        self._thread.join(15.0)

    def _end(self, then: str) -> None:
        with self._changed:
            self._then = then
            self._changed.notify()

    def _left(self) -> str:
        left = (self._recorder.left if self._recorder else None) or len(self._ended)
        return f"{counted(left, 'trial')} {are(left)}" if left else "some runs of cells are"

    def _work(self) -> None:
        try:
            self._copy()
        finally:
            if self._recorder is not None:
                self._recorder.release()

    def _copy(self) -> None:
        self._try(self._open)
        shown = time.monotonic()
        while True:
            self._wait(shown + BEAT)
            if self._then == "close":
                self._finish_up()
                return
            with self._changed:
                ended = list(self._ended.values())[:MOST]
                running = list(self._running.values())
            if ended and self._try(lambda: self._open().take(ended)):  # noqa: B023 called here
                taken = set(map(id, ended))
                with self._changed:
                    self._ended = {k: c for k, c in self._ended.items() if id(c) not in taken}
            if self._then == "abandon":
                self._try(lambda: self._open().abandon())
                return
            if time.monotonic() - shown >= BEAT:
                self._try(lambda: self._open().follow(running))  # noqa: B023 called here
                shown = time.monotonic()

    def _wait(self, until: float) -> None:
        """Wait for the end, for trials that can be written, or until a moment."""
        now = time.monotonic()
        down = self._retry_at > now
        with self._changed:
            self._changed.wait_for(
                lambda: self._then or (self._ended and not down),
                max((min(until, self._retry_at) if down else until) - now, 0.0),
            )

    def _try(self, what: Callable[[], object]) -> bool:
        """Do something with the store, unless it failed a short while ago; returns whether it was
        done.
        """
        if time.monotonic() < self._retry_at:
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
        """Bring the rest: trials that were not written, and all that the ledger holds and the runs
        lack.
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
            if self._ended:
                recorder.take(list(self._ended.values()))
            recorder.close()
            self._error = None
        except Exception as error:  # noqa: BLE001 the message of `close` reports it
            self._error = error


class TrackedGrid:
    """A grid in the tracking store where its runs go."""

    def __init__(self, opened: Opened) -> None:
        self.target = Target.of(opened.storage, opened.run.tracking_uri, opened.grid.text_of_file)
        self._opened = opened

    def tracker(self) -> Tracker:
        """Return what writes the runs of the grid while it runs."""
        return Tracker(self._opened.plan, self.target)

    def copy_all(self) -> int:
        """Copy the grid's results to MLflow, as `sync` does; return the number of its trials."""
        return Recorder.sync(self._opened.plan, self.target, self.pruned_trials())

    def finish(self, plan: Plan) -> list[str]:
        """Copy to MLflow what a killed driver has left behind; return why it cannot be done."""
        if self._marker(plan).exists():
            return []
        try:
            self.copy_all()
        except TrackingError as error:
            return [str(error)]
        self.mark_copied(plan)
        return []

    def keep_report(self, folder: Path) -> str | None:
        """Put a report with the grid's run, if it was tracked; return why it cannot be done."""
        return self._where_tracked(lambda runs: runs.keep(folder))

    def describe(self, answer: str) -> str | None:
        """Write the answer of the results, and the verdicts of planned looks at claims, into the
        description of the grid's experiment, where they are others than before and the grid was
        tracked; returns a message where that could not be done.
        """
        plan, uri = self._opened.plan, self.target.uri
        name, verdicts = plan.name, PlannedLook.last_verdicts(self.target.storage, plan.looks)
        answer = "\n".join([answer, *(f"\n- {told}" for told, _ in verdicts)])
        marker = self.target.storage.local / "tracked" / f"{digest([uri, name])[:32]}.answer"
        wanted = json.dumps({"grid": name, "uri": masked(uri), "answer": answer})

        def write(runs: Recorder) -> None:
            runs.describe(answer, verdicts)
            _mark(marker, wanted)

        if marker.is_file() and marker.read_bytes() == wanted.encode():
            return None
        return self._where_tracked(write)

    def _where_tracked(self, what: Callable[[Recorder], object]) -> str | None:
        target = self.target
        moved = target.moved_from is not None
        if target.database is not None and not target.database.exists():
            return None
        try:
            with target.reported():
                if moved:
                    self.copy_all()
                what(Recorder(self._opened.plan, target))
        except TrackingError as error:
            return str(error)
        return None

    def mark_copied(self, plan: Plan) -> None:
        """Note that all results of a plan are in the store, where the ledger has all of them."""
        wanted = {key for trial in plan.trials for key in trial.evaluations.values()}
        if self.target.storage.ledger.keys() >= wanted:
            said = {"grid": plan.name, "uri": masked(self.target.uri)}
            _mark(self._marker(plan), json.dumps(said))

    def _marker(self, plan: Plan) -> Path:
        """Return the file whose presence means that all results of a plan are in the store."""
        trials = sorted(trial.key for trial in plan.trials)
        asked = [entry for trial in plan.trials for entry in trial.evaluations.items()]
        marks = {task: Added.marks(plan.metrics, task) for task, _ in asked}
        read = sorted(part for task, key in asked for part in (key, *marks[task]))
        name = digest([self.target.uri, plan.name, trials, read])
        return self.target.storage.local / "tracked" / name[:32]

    def pruned_trials(self) -> list[SeenTrial]:
        """Return each trial of the grid that a search has pruned, and where. Trials that were made
        whole elsewhere, for the grid itself or to confirm a point, are not among them.
        """
        opened = self._opened
        pruned = {
            (study.name, entry.number): entry
            for study in opened.plan.studies
            if study.prunes
            for entry in study.record(opened.storage).pruned
        }
        if not pruned:
            return []

        def suggested(study: Study) -> list[Suggestion]:
            return [
                Suggestion(n, entry.values)
                for (name, n), entry in pruned.items()
                if name == study.name
            ]

        plan, there = opened.again(suggested).plan, opened.storage.ledger.keys()
        courses: dict[str, SeenTrial] = {}
        for asked in plan.asked:
            entry, trial = pruned.get((asked.study, asked.number)), plan.by_key[asked.trial]
            whole = there.issuperset(trial.evaluations.values()) or trial.key in opened.plan.by_key
            if entry is not None and not whole:
                courses[trial.key] = SeenTrial(trial, pruned=entry.reason)
        return list(courses.values())


def _mark(marker: Path, text: str) -> None:
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(text, encoding="utf-8")
