"""What strikes a running grid: SIGKILL for one of its processes, or for all."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from tests.e2e.runs import kill_all, session

GONE_SECONDS = 60.0  # within which what a dead driver started must be dead too
RAYS_OWN = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Ray's agents, which end by themselves about 64 seconds after their raylet (Ray 2.60, also without
raxalign). They hold no room and write nothing, so nobody waits for them here.
"""


def _driver(process: subprocess.Popen[str], dice: random.Random) -> bool:
    process.send_signal(signal.SIGKILL)
    return True


def _machine(process: subprocess.Popen[str], dice: random.Random) -> bool:
    kill_all(process)
    return True


def _worker(process: subprocess.Popen[str], dice: random.Random) -> bool:
    return _one_of(process, dice, lambda command: command.startswith("ray::"))


def _raylet(process: subprocess.Popen[str], dice: random.Random) -> bool:
    return _one_of(process, dice, lambda command: command.partition("\0")[0].endswith("/raylet"))


BLOWS: Mapping[str, Callable[[subprocess.Popen[str], random.Random], bool]] = {
    "driver": _driver,
    "worker": _worker,
    "raylet": _raylet,
    "machine": _machine,
}
"""Name -> a function that strikes, and returns whether there was something to strike."""


def _one_of(
    process: subprocess.Popen[str], dice: random.Random, wanted: Callable[[str], bool]
) -> bool:
    found = sorted(pid for pid, command in session(process).items() if wanted(command))
    if not found:
        return False
    try:
        os.kill(dice.choice(found), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def left_behind(process: subprocess.Popen[str]) -> list[str]:
    """End what a dead driver's processes do not end by themselves within `GONE_SECONDS`; returns
    the command lines.
    """
    end = time.monotonic() + GONE_SECONDS
    while (found := _others(process)) and time.monotonic() < end:
        time.sleep(0.2)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [command.replace("\0", " ")[:120] for command in found.values()]


def _others(process: subprocess.Popen[str]) -> dict[int, str]:
    """Return the processes of a session but Ray's own agents, and those that have ended already and
    whose parent has not noticed.
    """
    return {
        pid: command
        for pid, command in session(process).items()
        if command and not command.startswith(RAYS_OWN)
    }
