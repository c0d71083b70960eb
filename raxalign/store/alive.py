"""Whether a process lives: a name that no other process has, which its own machine knows, and signs
of life that it gives for other machines. Temporary files and folders hold the name of the process
that made them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from raxalign.errors import StorageError

DAY_SECONDS = 24 * 3600.0
BEAT_SECONDS = 600.0
PREFIX = ".tmp-"
_DIGITS = 9  # of the number of a process
_PLACES = (
    *(".", "ledger", "failures", "drivers/*", "plans", "looks"),
    *("studies", "studies/drivers", "studies/curves/*", "artifacts/*/*"),
    *("locks/*", "locks/making/*"),
)
"""The folders of a storage on a file system that temporaries are made in."""


def maker_name() -> str:
    """Return a name for this process that no other one has: ``<machine>-<pid>-<start>``."""
    pid = os.getpid()
    return f"{_machine()}-{pid}-{_started(pid)}"


def process_of(name: str) -> bool | None:
    """Return whether the process of such a name lives; None for one of another machine."""
    machine, _, rest = name.partition("-")
    pid, _, started = rest.partition("-")
    if machine != _machine() or not pid.isdecimal() or len(pid) > _DIGITS:
        return None
    return _started(int(pid)) == started


def lives(name: str, age: float, silence: float) -> bool:
    """Return whether a process lives: its own machine knows; elsewhere it lives where its last sign
    of life has an age of less than `silence` seconds, and is not from as far in the future.
    """
    known = process_of(name)
    return abs(age) < silence if known is None else known


def endings() -> list[signal.Signals]:
    """Return the signals that ask this process to end; under `nohup` SIGHUP does not."""
    known = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    return known[: 2 if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else 3]


@contextmanager
def beating(beat: Callable[[], object], *, every: float, name: str) -> Iterator[None]:
    """Give signs of life (`beat`) in a thread of some name, one after some seconds each, until the
    block ends. One that fails is left out: the storage may be back before others count the process
    as dead.
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


def temporary_name(key: str) -> str:
    """``.tmp-<key>-<machine>-<pid>-<start of the process>-<random>``."""
    return f"{PREFIX}{key}-{maker_name()}-{uuid.uuid4().hex[:8]}"


def is_abandoned(path: Path) -> bool:
    """Return whether the process that made a temporary is dead: known on its own machine, elsewhere
    assumed after a day without a sign of life.
    """
    parts = path.name.rsplit("-", 4)
    lives = process_of("-".join(parts[1:4])) if len(parts) == 5 else None
    if lives is not None:
        return not lives
    try:
        return time.time() - path.stat().st_mtime > DAY_SECONDS
    except OSError:
        return False


def abandoned_below(root: Path) -> list[Path]:
    """Return the temporaries of a storage on a file system whose processes are dead."""
    patterns = (f"{PREFIX}*" if place == "." else f"{place}/{PREFIX}*" for place in _PLACES)
    return [path for pattern in patterns for path in root.glob(pattern) if is_abandoned(path)]


@contextmanager
def sign_of_life(folder: Path) -> Iterator[None]:
    """Touch a folder now and then: a training of days in one machine must not look abandoned to
    another.
    """
    with beating(lambda: os.utime(folder), every=BEAT_SECONDS, name="raxalign-store"):
        yield


def discard(path: Path) -> None:
    """Remove a temporary file or folder, as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


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
