"""One round: a grid on an empty storage, killed at random moments until it ends by itself."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raxalign.store.ledger import Ledger
from tests.e2e.runs import Site, tracked
from tests.soak import verdict
from tests.soak.blows import BLOWS, left_behind

WATCH = Path(__file__).with_name("watch")
HANG_SECONDS = 300.0


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
    def good(self) -> bool:
        """Whether nothing was found."""
        return not any(
            (self.repeated, self.wrong, self.runs, self.orphans, self.leftovers, self.other)
        )


@dataclass(frozen=True)
class Place:
    """Where a round happens.

    `bucket` is the URL of its storage where that is an object store. The machine's cache is then
    lost with the machine.
    """

    site: Site
    folder: Path
    bucket: str | None
    environment: dict[str, str]

    @property
    def root(self) -> str:
        """The storage root."""
        return self.bucket or str(self.site.storage)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of every command of the round."""
        return {
            **self.environment,
            "RAXALIGN_STORAGE": self.root,
            "RAXALIGN_CACHE": str(self.folder / "cache"),
            "RAXALIGN_SOAK_LOG": str(self.folder / "begun.jsonl"),
            "MLFLOW_TRACKING_URI": self.tracking,
            "TMPDIR": str(self.folder / "tmp"),
        }

    @property
    def tracking(self) -> str:
        """The tracking store, which outlives the machine."""
        return f"sqlite:///{self.folder / 'mlflow.db'}"


def play(place: Place, number: int, dice: random.Random, most: int, pause: float) -> Round:
    """Run the grid of a place and strike it, at most `most` times, until it ends by itself.

    Args:
        place: The grid and its storage.
        number: The number of the round.
        dice: Chooses what is struck, and when.
        most: The most blows; the rest of the round is undisturbed.
        pause: The longest time between two blows, in seconds.
    """
    found, begun = Round(number, "s3" if place.bucket else "folder"), time.monotonic()
    (place.folder / "tmp").mkdir(parents=True, exist_ok=True)
    while True:
        found.starts += 1
        log = place.folder / f"stderr-{found.starts}"
        with log.open("w") as said, place.site.running(said=said, **place.variables) as process:
            code = _disturb(place, process, found, dice, most, pause)
            found.orphans += left_behind(process)
        if code == 0 or found.starts > most + 3:
            break
        struck = code is None or found.blows["raylet"] or found.blows["worker"]
        if not struck:
            found.other.append(f"ended with {code} and nothing had been struck: {log}")
    if code != 0:
        found.other.append(f"never ended by itself; the last start ended with {code}: {log}")
    found.seconds = time.monotonic() - begun
    return found


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
        try:
            return process.wait(timeout=dice.uniform(1.0, pause))
        except subprocess.TimeoutExpired:
            pass
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


def judge(place: Place, found: Round, expected: list[dict[str, Any]]) -> None:
    """Compare what a round left with what it should have left."""
    plan = place.site.plan
    records = Ledger(place.root).read_many(
        key for trial in plan.trials for key in trial.evaluations.values()
    )
    found.repeated = verdict.repeated(place.folder / "begun.jsonl", records)
    found.wrong = verdict.wrong(place.site.results(**place.variables), expected)
    found.runs = verdict.untidy_runs(tracked(place.tracking, plan.name), plan.by_key)
    found.leftovers = verdict.leftovers(
        place.folder / "cache" if place.bucket else place.site.storage, place.folder / "tmp"
    )
