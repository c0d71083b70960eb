"""Names of temporary files and folders, which hold the process that made them, and the removal of
those that a dead process left.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from raxalign.store.beats import beating

PREFIX = ".tmp-"
DAY_SECONDS = 24 * 3600.0
BEAT_SECONDS = 600.0
_PLACES = (
    *(".", "ledger", "failures", "drivers/*", "plans"),
    *("studies", "studies/drivers", "studies/curves/*", "artifacts/*/*"),
)
"""The folders of a storage on a file system that temporaries are made in."""


def temporary_name(key: str) -> str:
    """``.tmp-<key>-<machine>-<pid>-<start of the process>-<random>``."""
    return f"{PREFIX}{key}-{maker_name()}-{uuid.uuid4().hex[:8]}"


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


def is_abandoned(path: Path) -> bool:
    """Return whether the process that made a temporary is dead: known on its own machine, elsewhere
    assumed after a day without a sign of life.
    """
    parts = path.name.rsplit("-", 4)
    if len(parts) == 5 and parts[1] == _machine() and parts[2].isdigit():
        return _started(int(parts[2])) != parts[3]
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
