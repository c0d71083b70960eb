"""The time and memory of this process and of all that it has started, by what they are."""

from __future__ import annotations

import ctypes
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DRIVER = "driver"
_SUBREAPER = 36  # of prctl(2)
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Used:
    """What processes have used until now, by their names: `seconds` of a core, `mebibytes` that are
    in memory, and the number of processes that were `started`.
    """

    seconds: Counter[str]
    mebibytes: Counter[str]
    started: Counter[str]

    def since(self, before: Used) -> Counter[str]:
        """Return the seconds since an earlier moment, by name."""
        return Counter({name: self.seconds[name] - before.seconds[name] for name in self.seconds})


class Processes:
    """This process and its descendants. Those that have ended count as they were at the last look:
    Ray's workers leave their times to nobody.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], tuple[str, float]] = {}  # (id, start) -> name, seconds

    def look(self) -> Used:
        """Return what they have used."""
        mebibytes: Counter[str] = Counter()
        own = os.getpid()
        for pid, name, fields in _family(own):
            name = DRIVER if pid == own else _kind(pid, name)
            self._seen[pid, fields[19]] = (name, (int(fields[11]) + int(fields[12])) / _TICKS)
            mebibytes[name] += int(fields[21]) * _PAGE / 2**20
        seconds: Counter[str] = Counter()
        for name, used in self._seen.values():
            seconds[name] += used
        return Used(seconds, mebibytes, Counter(name for name, _ in self._seen.values()))


def adopt_orphans() -> None:
    """Let this process be the parent of processes whose parents have ended, so that it finds all
    that a program has started.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("this needs Linux")


def descendants(root: int) -> list[int]:
    """Return the ids of all processes that a process has started, directly or not."""
    return [pid for pid, _, _ in _family(root) if pid != root]


def _family(root: int) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the id, the name and the further fields of ``/proc/<id>/stat`` of a process and its
    descendants.
    """
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text()
            except OSError:  # it has ended
                continue
            fields = text.rpartition(")")[2].split()
            found[int(folder.name)] = (text.partition("(")[2].rpartition(")")[0], fields)
    children: dict[int, list[int]] = {}
    for pid, (_, fields) in found.items():
        children.setdefault(int(fields[1]), []).append(pid)
    stack = [root]
    while stack:
        pid = stack.pop()
        stack += children.get(pid, [])
        yield pid, *found[pid]


def _kind(pid: int, name: str) -> str:
    """Name a process by what it does: Ray's own ones are Python too."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip() or name
    except OSError:
        command = name
    if command.startswith("ray::"):
        word = command.split()[0].removeprefix("ray::")
        return "worker" if word.startswith(("_run_step", "ImplicitFu", "IDLE")) else word
    if "raxalign.sweep.forked" in command:
        return "forked worker"
    for known in ("raylet", "gcs_server", "dashboard", "log_monitor", "monitor", "runtime_env"):
        if known in command:
            return known
    return name
