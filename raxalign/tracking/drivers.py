"""Drivers that copy runs of one grid to MLflow: who they are, and whether they live.

A driver signs on by a tag of its own on the run of the grid, and signs off by deleting it, so no
driver overwrites another's sign. A driver that signs off and sees no other living driver ends that
run.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PREFIX = "raxalign.driver."
SILENCE = 300.0  # seconds after which a driver on another machine that gave no sign counts as dead


@dataclass(frozen=True)
class Driver:
    """A process that copies runs to MLflow; `started` tells it from a later process with the same
    id (None where the system does not report it).
    """

    host: str
    pid: int
    started: int | None

    @property
    def tag(self) -> str:
        """The name of its tag."""
        return PREFIX + re.sub(r"[^\w.-]", "_", self.host)[:100] + f"-{self.pid}"

    def sign(self) -> str:
        """Return the value of its tag: who it is, and that it lived now."""
        return json.dumps(
            {"host": self.host, "pid": self.pid, "started": self.started, "at": time.time()}
        )


def this_driver() -> Driver:
    """Return the driver that this process is."""
    return Driver(socket.gethostname(), os.getpid(), _started(os.getpid()))


def lives(sign: str) -> bool:
    """Return whether the driver that left a sign lives: on this machine its process is asked, on
    another one the age of the sign decides.
    """
    driver = json.loads(sign)
    if driver["host"] != socket.gethostname():
        return bool(time.time() - driver["at"] < SILENCE)
    return process_lives(driver["pid"], driver["started"])


def living(tags: Mapping[str, str], *, apart_from: Driver | None = None) -> list[str]:
    """Return the tags of living drivers on the run of a grid, apart from one driver's own."""
    own = apart_from.tag if apart_from else None
    return [
        name
        for name, sign in tags.items()
        if name.startswith(PREFIX) and name != own and lives(sign)
    ]


def dead(tags: Mapping[str, str]) -> list[str]:
    """Return the tags of drivers that died without signing off."""
    return [name for name, sign in tags.items() if name.startswith(PREFIX) and not lives(sign)]


def process_lives(pid: int, started: int | None = None) -> bool:
    """Return whether a process of this machine lives; with `started`, whether it is that very
    process.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    now = _started(pid)
    return now is None or (now >= 0 and started in (None, now))


def _started(pid: int) -> int | None:
    """When a process started, in clock ticks since the machine did; -1 for one that has ended and
    awaits its parent; None where the system has no /proc.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return -1 if fields[0] in "ZX" else int(fields[19])
