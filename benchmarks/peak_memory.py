"""The peak memory of this process and of those that it started."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path


class Memory(threading.Thread):
    """Looks at the memory of this process and of those that it started, ten times per second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before, self.own, self.mapped = _used(os.getpid())[0], 0.0, 0.0

    def run(self) -> None:
        """Look until the process ends."""
        while True:
            self.look()
            time.sleep(0.1)

    def look(self) -> None:
        """Look once."""
        found = [_used(pid) for pid in _family(os.getpid())]
        self.own = max(self.own, sum(own for own, _ in found))
        self.mapped = max(self.mapped, sum(own + mapped for own, mapped in found))

    def peak(self) -> tuple[float, float, float]:
        """Return MiB: the peak without mapped files, with them, and what was used at the start."""
        self.look()
        return self.own, self.mapped, self.before


def _used(pid: int) -> tuple[float, float]:
    """(MiB of a process that no file holds, MiB of mapped files); zeros where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
    own = int(found.get("RssAnon", 0)) + int(found.get("RssShmem", 0))
    return own / 1024, int(found.get("RssFile", 0)) / 1024


def _family(pid: int) -> list[int]:
    """The process and all that it has started."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        found += [entry for child in children for entry in _family(int(child))]
    return found
