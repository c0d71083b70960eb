"""Whether a process lives: a name that no other process has, which its own machine knows, and signs
of life that it gives for other machines. Temporary files and folders hold the name of the process
that made them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import ClassVar

from raxalign.errors import StorageError

DAY_SECONDS = 24 * 3600.0
PREFIX = ".tmp-"
"""How the names of temporaries begin."""
_DIGITS = 9  # of the number of a process


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


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Wait until no other process holds the lock of this file, and hold it meanwhile; it is freed
    when the process dies, however it dies.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def temporary_name(key: str) -> str:
    """``.tmp-<key>-<machine>-<pid>-<start of the process>-<random>``."""
    return f"{PREFIX}{key}-{maker_name()}-{uuid.uuid4().hex[:8]}"


def abandoned(folder: Path, places: Sequence[str] = (".",)) -> list[Path]:
    """Return the temporaries in a folder, at `places` (patterns) below it, that dead processes
    left. A process of this machine is asked for; one of another machine counts as dead after a day
    without a sign of life.
    """
    patterns = (f"{place}/{PREFIX}*".removeprefix("./") for place in places)
    return [path for pattern in patterns for path in folder.glob(pattern) if _is_abandoned(path)]


def _is_abandoned(path: Path) -> bool:
    parts = path.name.rsplit("-", 4)
    lives = process_of("-".join(parts[1:4])) if len(parts) == 5 else None
    if lives is not None:
        return not lives
    try:
        return time.time() - path.stat().st_mtime > DAY_SECONDS
    except OSError:
        return False


def discard(path: Path) -> None:
    """Remove a temporary file or folder, as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


class ScratchFolders:
    """Folders of Ray on this machine, ``raxalign-ray-<process>-<random>``, and links to them."""

    NAME: ClassVar = "raxalign-ray-"
    SHORT: ClassVar = Path("/tmp")  # noqa: S108 nothing is shorter
    """Where the links are, since a socket's path has at most 107 bytes."""

    @classmethod
    def make(cls, place: Path) -> str:
        """Make a folder of this process, and remove those there whose processes are dead."""
        for left in cls.left_by_dead(place):
            discard(left)
        return tempfile.mkdtemp(prefix=f"{cls.NAME}{maker_name()}-", dir=place)

    @classmethod
    def link(cls, folder: str) -> Path:
        """Return where the short name of a folder is, if it has one."""
        return cls.SHORT / f"{cls.NAME}{folder[-8:]}"

    @classmethod
    def left_by_dead(cls, place: Path) -> list[Path]:
        """Return the folders in a local one whose processes are dead, and the links to such,
        whether or not these are still there.
        """

        def maker(path: Path) -> str:
            return os.path.realpath(path).rpartition(cls.NAME)[2].rpartition("-")[0]

        found = {*place.glob(f"{cls.NAME}*"), *cls.SHORT.glob(f"{cls.NAME}*")}
        return [path for path in sorted(found) if process_of(maker(path)) is False]


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
