"""One round: a grid on an empty storage, killed at random moments until it ends by itself."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raxalign.plan.load import open_grid
from raxalign.plan.values.results import rows
from raxalign.store.ledger import Ledger
from tests.e2e.runs import Site, kill_all, session, tracked
from tests.soak import verdict

HANG_SECONDS = 300.0
GONE_SECONDS = 60.0  # within which what a dead driver started must be dead too
RAYS_OWN = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Ray's agents, which end by themselves about 64 seconds after their raylet (Ray 2.60, also without
raxalign). They hold no room and write nothing, so nobody waits for them here.
"""
FAULTS = ("repeated", "wrong", "runs", "orphans", "leftovers", "other")


@dataclass
class Round:
    """What happened in a round; every list is empty after a good one."""

    number: int
    storage: str
    blows: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    seconds: float = 0.0
    repeated: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)

    @property
    def faults(self) -> dict[str, list[str]]:
        """What was found, by its kind."""
        return {name: found for name in FAULTS if (found := getattr(self, name))}


@dataclass(frozen=True)
class Place:
    """Where a round happens.

    `bucket` is the URL of its storage where that is an object store. The machine's cache is then
    lost with the machine; the tracking store outlives it.
    """

    site: Site
    folder: Path
    bucket: str | None
    environment: dict[str, str]

    @property
    def root(self) -> str:
        """The storage root."""
        return self.bucket or str(self.site.storage)

    def results(self) -> list[dict[str, Any]]:
        """Return the rows of its results."""
        opened = open_grid(self.site.grid, storage=self.root)
        return rows(opened.plan, opened.storage.ledger)

    @property
    def tracking(self) -> str:
        """The tracking store."""
        return f"sqlite:///{self.folder / 'mlflow.db'}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment of every command of the round."""
        return {
            **self.environment,
            **verdict.watched(self.folder / "begun.jsonl"),
            "RAXALIGN_STORAGE": self.root,
            "RAXALIGN_CACHE": str(self.folder / "cache"),
            "MLFLOW_TRACKING_URI": self.tracking,
            "TMPDIR": str(self.folder / "tmp"),
        }


def play(place: Place, found: Round, dice: random.Random, most: int, pause: float) -> None:
    """Run the grid of a place and strike it, at most `most` times, until it ends by itself. `dice`
    chooses what is struck, and when; two blows are at most `pause` seconds apart.
    """
    begun = time.monotonic()
    (place.folder / "tmp").mkdir(parents=True, exist_ok=True)
    while True:
        found.starts += 1
        log = place.folder / f"stderr-{found.starts}"
        with log.open("w") as said, place.site.running(said=said, **place.variables) as process:
            code = _disturb(place, process, found, dice, most, pause)
            found.orphans += _left_behind(process)
        if code == 0 or found.starts > most + 3:
            break
        if not (code is None or found.blows["raylet"] or found.blows["worker"]):
            found.other.append(f"ended with {code} and nothing had been struck: {log}")
    if code != 0:
        found.other.append(f"never ended by itself; the last start ended with {code}: {log}")
    found.seconds = time.monotonic() - begun


def _disturb(
    place: Place,
    process: subprocess.Popen[str],
    found: Round,
    dice: random.Random,
    most: int,
    pause: float,
) -> int | None:
    """Strike a running grid; returns its exit code, None where it was killed itself."""
    while found.blows.total() < most:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=dice.uniform(1.0, pause))
        name = dice.choice(sorted(BLOWS))
        if not BLOWS[name](process, dice):
            continue
        found.blows[name] += 1
        if name == "machine" and place.bucket:
            shutil.rmtree(place.folder / "cache", ignore_errors=True)
        if name in ("driver", "machine"):
            process.wait()
            return None
    try:
        return process.wait(timeout=HANG_SECONDS)
    except subprocess.TimeoutExpired:
        found.other.append(f"hung for {HANG_SECONDS:.0f} s after {dict(found.blows)}")
        return None


def _driver(process: subprocess.Popen[str], dice: random.Random) -> bool:
    process.kill()
    return True


def _machine(process: subprocess.Popen[str], dice: random.Random) -> bool:
    kill_all(process)
    return True


def _one_of(
    wanted: Callable[[str], bool],
) -> Callable[[subprocess.Popen[str], random.Random], bool]:
    def strike(process: subprocess.Popen[str], dice: random.Random) -> bool:
        found = sorted(pid for pid, command in session(process).items() if wanted(command))
        with suppress(ProcessLookupError, IndexError):  # it has just ended, or there is none
            os.kill(dice.choice(found), signal.SIGKILL)
            return True
        return False

    return strike


BLOWS: Mapping[str, Callable[[subprocess.Popen[str], random.Random], bool]] = {
    "driver": _driver,
    "worker": _one_of(lambda command: command.startswith("ray::")),
    "raylet": _one_of(lambda command: command.partition("\0")[0].endswith("/raylet")),
    "machine": _machine,
}
"""Name -> a function that kills, and returns whether there was something to kill."""


def _left_behind(process: subprocess.Popen[str]) -> list[str]:
    """End what a dead driver's processes do not end by themselves within `GONE_SECONDS`; returns
    the command lines. One without a command line has ended, and its parent has not noticed.
    """
    end = time.monotonic() + GONE_SECONDS
    while True:
        found = {
            pid: command
            for pid, command in session(process).items()
            if command and not command.startswith(RAYS_OWN)
        }
        if not found or time.monotonic() > end:
            break
        time.sleep(0.2)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [command.replace("\0", " ")[:120] for command in found.values()]


def judge(place: Place, found: Round, expected: list[dict[str, Any]]) -> None:
    """Compare what a round left with what it should have left."""
    plan = place.site.plan
    log = verdict.begun(place.folder / "begun.jsonl")
    found.repeated = verdict.repeated(log, Ledger(place.root).read_many(place.site.keys()))
    found.wrong = verdict.wrong(place.results(), expected)
    found.runs = verdict.untidy_runs(tracked(place.tracking, plan.name), plan.by_key)
    found.leftovers = verdict.leftovers(
        place.folder / "cache" if place.bucket else place.site.storage, place.folder / "tmp"
    )
