"""The time and memory of this process and of all that it has started, by what they are."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DRIVER = "driver"
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Used:
    """What processes have used until now, by their names: `seconds` of a core, and `mebibytes` that
    are in memory. Seconds of processes that have ended count for what started them.
    """

    seconds: Counter[str]
    mebibytes: Counter[str]

    def since(self, before: Used) -> Counter[str]:
        """Return the seconds since an earlier moment, by name."""
        return Counter({name: self.seconds[name] - before.seconds[name] for name in self.seconds})


def used() -> Used:
    """Return what this process and its descendants have used."""
    seconds: Counter[str] = Counter()
    mebibytes: Counter[str] = Counter()
    own = os.getpid()
    for pid, name, fields in _family(own):
        name = DRIVER if pid == own else _kind(pid, name)
        seconds[name] += sum(int(fields[place]) for place in range(11, 15)) / _TICKS
        mebibytes[name] += int(fields[21]) * _PAGE / 2**20
    return Used(seconds, mebibytes)


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
        command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return name
    if command.startswith("ray::"):
        word = command.split()[0].removeprefix("ray::")
        return "worker" if word.startswith(("_run_step", "ImplicitFunc", "IDLE")) else word
    for known in ("raylet", "gcs_server", "dashboard", "log_monitor", "monitor", "runtime_env"):
        if known in command:
            return known
    return name
