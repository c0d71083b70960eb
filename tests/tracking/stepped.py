"""Drivers in processes of their own that stop before chosen requests, so that a test decides how
two of them interleave. MLflow and its database are real.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from raxalign.plan.plan import Plan
from tests.forks import forks

try:
    from raxalign.tracking.client import Target
    from raxalign.tracking.recorder import Recorder
except ImportError:  # before tracking was a folder
    from raxalign.tracking import Recorder, Target  # type: ignore[no-redef,attr-defined]

END = "the end"
_FLOCK = fcntl.flock


class Stepped:
    """A driver in another process. `call` begins an operation, and `until` lets it go on until just
    before a request of that name, until it waits for its turn, or to its end.
    """

    def __init__(self, plan: Plan, target: Target) -> None:
        context = forks()
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_drive, args=(plan, target, other), daemon=True)
        self._process.start()
        self._running = self._waits = False

    def call(self, operation: str, *arguments: object, stop: str = END) -> Stepped:
        """Begin an operation (`begin` makes the recorder and opens it)."""
        self._pipe.send((operation, arguments))
        self._running = True
        self._waits = False
        return self.until(stop, begun=True)

    def until(self, stop: str, *, begun: bool = False) -> Stepped:
        """Go on; a driver that waits for its turn goes on by itself, and is only awaited at its
        end.
        """
        if not self._running or (self._waits and stop != END):
            return self
        if not self._waits:
            self._pipe.send(stop)
        while True:
            kind, what = self._pipe.recv()
            if kind == "done":
                self._running = self._waits = False
                assert what is None, what
            elif kind == "waits":
                self._waits = True
                if stop == END and not begun:
                    continue
            elif self._waits or stop == END:
                self._waits = False
                self._pipe.send(stop)
                continue
            return self

    def kill(self) -> None:
        """End the process as a lost machine would."""
        self._process.kill()
        self._process.join()


def _drive(plan: Plan, target: Target, pipe: Connection) -> None:
    stop: list[str] = [END]

    def flock(file: Any, how: int) -> None:
        try:
            _FLOCK(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            pipe.send(("waits", None))
            _FLOCK(file, how)

    def before(name: str) -> None:
        if name == stop[0]:
            pipe.send(("before", name))
            stop[0] = pipe.recv()

    fcntl.flock = flock  # type: ignore[assignment]
    _watch(before)
    recorder: Recorder | None = None
    while True:
        operation, arguments = pipe.recv()
        stop[0] = pipe.recv()
        try:
            if operation in {"make", "begin"}:
                recorder = Recorder(plan, target)
                if operation == "begin":
                    recorder.open()
            else:
                getattr(recorder, operation)(*arguments)
            pipe.send(("done", None))
        except Exception as error:  # noqa: BLE001 the test raises it
            pipe.send(("done", f"{type(error).__name__}: {error}"))


def _watch(before: Callable[[str], None]) -> None:
    """Call `before` with the name of each request that the real client is about to make."""
    from mlflow import MlflowClient

    for name in ("create_run", "log_batch", "set_terminated", "update_run", "search_runs"):
        real = getattr(MlflowClient, name)

        def request(*args: Any, _real: Any = real, _name: str = name, **kwargs: Any) -> Any:
            before(_name)
            return _real(*args, **kwargs)

        setattr(MlflowClient, name, request)
