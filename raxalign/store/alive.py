"""Whether a process lives: a name that no other process has, which its own machine knows, and signs
of life that it gives for other machines.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from raxalign.errors import StorageError

DAY_SECONDS = 24 * 3600.0
BEAT_SECONDS = 600.0


def maker_name() -> str:
    """Return a name for this process that no other one has: ``<machine>-<pid>-<start>``."""
    pid = os.getpid()
    return f"{_machine()}-{pid}-{_started(pid)}"


def process_of(name: str) -> bool | None:
    """Return whether the process of such a name lives; None for one of another machine."""
    machine, _, rest = name.partition("-")
    pid, _, started = rest.partition("-")
    if machine != _machine() or not pid.isdigit():
        return None
    return _started(int(pid)) == started


def lives(name: str, age: float, silence: float) -> bool:
    """Return whether a process lives: its own machine knows; elsewhere it lives where its last sign
    of life has an age of less than `silence` seconds, and is not from as far in the future.
    """
    known = process_of(name)
    return abs(age) < silence if known is None else known


@contextmanager
def beating(beat: Callable[[], object], *, every: float, name: str) -> Iterator[None]:
    """Give signs of life in a thread until the block ends. One that fails is left out: the storage
    may be back before others count the process as dead.

    Args:
        beat: Gives one sign of life.
        every: The seconds before each.
        name: The name of the thread.
    """
    over = threading.Event()

    def work() -> None:
        while not over.wait(every):
            with suppress(StorageError, OSError):
                beat()

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@cache
def _machine() -> str:
    """What process ids are unique in: a boot of a machine, and in it a namespace (containers share
    host names).
    """
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _started(pid: int) -> str:
    """When a process began, in clock ticks (ids are used again); ``0`` where that cannot be known;
    empty for one that is dead.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return ""
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass
    return "0"
