"""What plug-ins print and log on a worker, as lines for the screen of the driver.

What a worker prints goes to Ray's own files otherwise, where nobody looks.
"""

from __future__ import annotations

import io
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout

from raxalign.catalog import outside
from raxalign.sweep.mailbox import Outbox

EVERY = 2.0  # seconds that lines are gathered for


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
        with redirect_stdout(lines):
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        lines.end()
