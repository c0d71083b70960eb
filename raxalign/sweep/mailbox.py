"""What workers tell the driver while they work: how far a job is, what holds it up, and what
plug-ins print. They leave it as files in Ray's scratch folder. Where one cannot be written or read,
the work goes on without.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, field, replace
from typing import Annotated, Literal, TypeVar

from pydantic import AllowInfNan

from raxalign.catalog import outside
from raxalign.printing import lasting
from raxalign.store.files import files_of, split_place
from raxalign.store.sealed import recorded, seal, unseal

EVERY = 2.0  # seconds between two reports of a worker, and between two looks of the driver
T = TypeVar("T")
HELD_UP: Literal["held-up"] = "held-up"
PRINTED: Literal["printed"] = "printed"


@recorded
class Advance:
    """How far a job is: seconds since it began, and the last step of its training with the values
    of that step (0 and none where it has not reported any). A group of workers may be `waiting` for
    room; seconds are then those of its wait.
    """

    seconds: float
    step: int = 0
    values: Mapping[str, Annotated[float, AllowInfNan()]] = field(default_factory=dict)
    waiting: bool = False


@recorded
class _Line:
    kind: Literal["held-up", "printed"]
    text: str


class Outbox:
    """What a worker tells of one job."""

    def __init__(self, scratch: str, key: str) -> None:
        self._scratch, self._key = scratch, key
        self._begun, self._written = time.monotonic(), float("-inf")

    def begin(self, *, waiting: bool = False) -> None:
        """Tell that the job has begun, or waits for its workers."""
        self._begun = time.monotonic()
        self._advance(Advance(0.0, waiting=waiting))

    def report(self, metrics: Mapping[str, float], step: int) -> None:
        """Tell the values of a step; most calls write nothing."""
        now = time.monotonic()
        if now - self._written >= EVERY:
            self._advance(Advance(now - self._begun, step, dict(metrics)))

    def hold_up(self, text: str) -> None:
        """Tell what holds the job up."""
        self._leave(f"lines/{time.time_ns():020d}-{self._key}", _Line(HELD_UP, text))

    def print(self, text: str) -> None:
        """Pass on lines that a plug-in printed."""
        self._leave(f"lines/{time.time_ns():020d}-{self._key}", _Line(PRINTED, text))

    def _advance(self, advance: Advance) -> None:
        self._written = time.monotonic()
        self._leave(f"advances/{self._key}", advance)

    def _leave(self, name: str, what: Advance | _Line) -> None:
        # object stores raise anything, and a message stops no work
        with suppress(Exception):
            if self._scratch:
                storage, path = split_place(f"{self._scratch}/{name}")
                storage.write(path, seal(asdict(what)))


class Inbox:
    """What all workers tell, as the driver reads it."""

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self._begun: dict[tuple[str, bool], float] = {}
        self._seen: set[str] = set()

    def advances(self, keys: Iterable[str]) -> dict[str, Advance]:
        """Return how far each of these jobs is that has begun; seconds go on between reports."""
        found, now = {}, time.monotonic()
        for key, advance in self._read("advances", keys, Advance).items():
            self._begun.pop((key, not advance.waiting), None)  # of a group that was lost, or waited
            begun = self._begun.setdefault((key, advance.waiting), now - advance.seconds)
            found[key] = replace(advance, seconds=now - begun)
        return found

    def lines(self) -> list[tuple[str, str, str]]:
        """Return the lines since the last look, oldest first: (kind, key of the job, text)."""
        names: list[str] = []
        with suppress(Exception):
            names = sorted(files_of(f"{self._scratch}/lines").names("").keys() - self._seen)
        found = self._read("lines", names, _Line)
        self._seen.update(found)
        return [(told.kind, name.partition("-")[2], told.text) for name, told in found.items()]

    def _read(self, folder: str, names: Iterable[str], form: type[T]) -> dict[str, T]:
        found = dict[str, T]()
        # a sweep whose messages cannot be read goes on all the same
        with suppress(Exception):
            if self._scratch:
                data = files_of(f"{self._scratch}/{folder}").read_many(list(names))
                for name in sorted(data):
                    with suppress(ValueError):
                        found[name] = unseal(data[name], form)
        return found


class Lines(io.TextIOBase):
    """A text file whose lines are passed on: those of `EVERY` seconds together, when more comes
    after them. `tell` receives some at a time, without the line break after the last one.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell, self._lock, self._kept = tell, threading.RLock(), ""
        self._told = float("-inf")

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def write(self, text: str) -> int:
        """Keep a text until its line is whole; of a line that is written over the last state."""
        with self._lock:
            self._kept += text
            if time.monotonic() - self._told >= EVERY:
                self._pass_on()
        return len(text)

    def end(self) -> None:
        """Pass on what is left."""
        with self._lock:
            self._kept += "\n" if self._kept and not self._kept.endswith("\n") else ""
            self._pass_on()

    def _pass_on(self) -> None:
        whole, line_break, self._kept = self._kept.rpartition("\n")
        if line_break:
            self._told = time.monotonic()
            self._tell("\n".join(line.rpartition("\r")[2] for line in whole.split("\n")))


class _OfPlugins(logging.Handler):
    """A handler for what the code of plug-ins from outside logs."""

    def __init__(self, lines: Lines) -> None:
        super().__init__(logging.INFO)
        self._lines = lines
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of a plug-in's own file, or of the package of an entry point."""
        if any(_is_of(record.pathname, file) for file in outside()):
            self._lines.write(f"{self.format(record)}\n")


def _is_of(path: str, file: str) -> bool:
    """Whether code is that of a plug-in's file, or in the same package where it is installed."""
    folder = os.path.dirname(file)  # noqa: PTH120 - called for each record
    packaged = os.path.exists(f"{folder}/__init__.py")  # noqa: PTH110 - likewise
    return path == file or (packaged and path.startswith(f"{folder}/"))


@contextmanager
def passed_on(outbox: Outbox) -> Iterator[None]:
    """Leave for the driver what is printed in this process within the block, and what plug-ins from
    outside log as information or as more serious.
    """
    lines, root = Lines(outbox.print), logging.getLogger()
    handler, level = _OfPlugins(lines), root.level
    root.addHandler(handler)
    root.setLevel(min(level, logging.INFO))
    try:
        with redirect_stdout(lines), redirect_stderr(lasting(sys.stderr)):
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        lines.end()
