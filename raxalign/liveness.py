"""Signs of life: whether a process, or the driver of a grid, still runs."""

from __future__ import annotations

import json
import os
import socket
import time

_SILENCE = 300.0
"""Seconds. A driver on another machine that was silent for longer is taken for dead."""


def driver_sign() -> str:
    """Return what a driver leaves with its grid's run from time to time: who it is, and when it
    was alive.
    """
    return json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "at": time.time()})


def another_driver_lives(sign: str | None) -> bool:
    """Check whether the driver that left a sign is another one than this process, and alive."""
    driver = json.loads(sign or "null")
    if not driver or (driver["host"], driver["pid"]) == (socket.gethostname(), os.getpid()):
        return False
    if driver["host"] != socket.gethostname():
        return bool(time.time() - driver["at"] < _SILENCE)
    return process_lives(driver["pid"])


def process_lives(pid: int) -> bool:
    """Check whether a process of this machine is alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
