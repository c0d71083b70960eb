"""Kill grids again and again and print what was lost: ``python -m tests.soak --kills 200``.

Options: ``--kills N`` (200), ``--seed N`` (0), ``--minutes M`` (no limit), ``--most N`` blows per
grid (8), ``--pause S`` the longest time between two blows (12), ``--folder DIR`` (a temporary one).
Every third round has its storage in a bucket of a local S3 server, and every third one, another,
has its runs on an MLflow server behind a proxy that loses answers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raxalign.corpora.phrasebook import sentences
from raxalign.grid.load import open_grid
from raxalign.store.ledger import Ledger
from raxalign.values.results import rows
from tests.aws import BUCKET, SETTINGS, Proxy, fake_aws
from tests.e2e.runs import Site, kill_all, session, tracked
from tests.grids import SPLIT, write_grid
from tests.soak import verdict
from tests.test_tracking import free_port, server

HANG_SECONDS = 300.0  # without a line on the screen
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
    lost with the machine; the tracking store outlives it. `proxy` stands before a tracking server,
    where the round has one.
    """

    site: Site
    folder: Path
    bucket: str | None
    environment: dict[str, str]
    proxy: Proxy | None = None

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
        return self.proxy.endpoint if self.proxy else f"sqlite:///{self.folder / 'mlflow.db'}"

    @property
    def text(self) -> Path:
        """The German side of the corpus, which is replaced while the grid runs."""
        return self.folder / "text.de"

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
        log, right = place.folder / f"stderr-{found.starts}", place.text.read_bytes()
        with log.open("w") as said, place.site.running(said=said, **place.variables) as process:
            code = _disturb(place, process, found, dice, most, pause)
            found.orphans += _left_behind(process)
        if place.text.read_bytes() != right:
            place.text.write_bytes(right)  # the user notices, and puts the right text back
        if code == 0 or found.starts > most + 3:
            break
        if not (code is None or found.blows.keys() & {"raylet", "worker", "text"}):
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
        if not BLOWS[name](place, process, dice):
            continue
        found.blows[name] += 1
        if name == "machine" and place.bucket:
            shutil.rmtree(place.folder / "cache", ignore_errors=True)
        if name in ("driver", "machine"):
            process.wait()
            return None
    log, silent = place.folder / f"stderr-{found.starts}", 0.0
    while silent < HANG_SECONDS:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=5.0)
        silent = time.time() - log.stat().st_mtime
    found.other.append(f"printed nothing for {HANG_SECONDS:.0f} s after {dict(found.blows)}")
    return None


def _is_raylet(command: str) -> bool:
    return command.partition("\0")[0].endswith("/raylet")


Blow = Callable[[Place, subprocess.Popen[str], random.Random], bool]


def _driver(place: Place, process: subprocess.Popen[str], dice: random.Random) -> bool:
    process.kill()
    return True


def _machine(place: Place, process: subprocess.Popen[str], dice: random.Random) -> bool:
    kill_all(process)
    return True


def _text(place: Place, process: subprocess.Popen[str], dice: random.Random) -> bool:
    """Put another text in place of the one that was planned: the same lines in another order."""
    if not any(map(_is_raylet, session(process).values())):
        return False  # Ray starts when the plan is made
    lines = place.text.read_bytes().splitlines(keepends=True)
    dice.shuffle(lines)
    place.text.write_bytes(b"".join(lines))
    return True


def _answer(place: Place, process: subprocess.Popen[str], dice: random.Random) -> bool:
    """Lose the next answer to a request that makes or changes something."""
    if place.proxy is None:
        return False
    place.proxy.fail(1, -1, "POST")
    return True


def _one_of(wanted: Callable[[str], bool]) -> Blow:
    def strike(place: Place, process: subprocess.Popen[str], dice: random.Random) -> bool:
        found = sorted(pid for pid, command in session(process).items() if wanted(command))
        with suppress(ProcessLookupError, IndexError):  # it has just ended, or there is none
            os.kill(dice.choice(found), signal.SIGKILL)
            return True
        return False

    return strike


BLOWS: Mapping[str, Blow] = {
    "answer": _answer,
    "driver": _driver,
    "worker": _one_of(lambda command: command.startswith("ray::")),
    "raylet": _one_of(_is_raylet),
    "machine": _machine,
    "text": _text,
}
"""Name -> a function that strikes, and returns whether there was something to strike."""


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


METHODS = (
    "none: {}",
    "rotation: {}",
    "finetune: {lambda: 1.0, batch_size: 1, epochs: 3}",
    "tlm: {epochs: 2, batch_size: 4}",
)
TASKS = ("retrieval: {}", "xnli: {data: phrasebook, epochs: 2, batch_size: 8}")
LABELS = {"repeated": "evaluations made twice", "wrong": "wrong values", "runs": "untidy runs"}


def main(arguments: list[str]) -> int:
    """Play rounds until there were enough blows; returns 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--most", type=int, default=8)
    parser.add_argument("--pause", type=float, default=12.0)
    parser.add_argument("--folder")
    options = parser.parse_args(arguments)
    folder = Path(options.folder or tempfile.mkdtemp(prefix="soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    dice, begun = random.Random(options.seed), time.monotonic()
    rounds: list[Round] = []
    port = free_port()
    with fake_aws() as endpoint, server(folder, port):
        expected = _undisturbed(folder)
        while (left := options.kills - sum(one.blows.total() for one in rounds)) > 0:
            if time.monotonic() - begun > 60 * options.minutes:
                break
            place = _place(folder, len(rounds) + 1, endpoint, f"http://127.0.0.1:{port}")
            found = Round(len(rounds) + 1, "s3" if place.bucket else "folder")
            play(place, found, dice, min(options.most, left), options.pause)
            judge(place, found, expected)
            rounds.append(found)
            _write(_line(found))
            with (folder / "rounds.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(vars(found)) + "\n")
    _write(_summary(rounds, time.monotonic() - begun))
    return int(any(one.faults for one in rounds))


def _undisturbed(folder: Path) -> list[dict[str, Any]]:
    """Return the results of the same grid, run without a disturbance."""
    place, begun = _place(folder, 0), time.monotonic()
    (place.folder / "tmp").mkdir(parents=True)
    place.site.run(**place.variables)
    _write(f"undisturbed: {time.monotonic() - begun:.0f} s")
    return place.results()


def _place(folder: Path, number: int, endpoint: str = "", runs: str = "") -> Place:
    """Return a new place: in a bucket every third time, with a tracking server after that."""
    here = folder / str(number)
    here.mkdir(parents=True)
    _write_text(here)
    grid = write_grid(
        here,
        name=f"soak-{number}.yaml",
        corpus=f"source: moses\n  path: text\n  {SPLIT}",
        sentences="[100]",
        seeds="[0, 1]",
        methods=METHODS,
        tasks=TASKS,
        # the blows are many on purpose: a trial that is struck often has not failed
        run="max_failures: 100, checkpoint_minutes: 0.01",
    )
    grid.write_text(grid.read_text().replace("name: small", f"name: soak-{number}"))
    if number % 3 == 1 and runs:
        return Place(Site(grid, here / "storage"), here, None, {}, Proxy(runs))
    if number % 3 or not endpoint:
        return Place(Site(grid, here / "storage"), here, None, {})
    environment = {**SETTINGS, "AWS_ENDPOINT_URL": endpoint}
    os.environ.update(environment)
    return Place(Site(grid, here / "storage"), here, f"s3://{BUCKET}/{number}", environment)


def _write_text(folder: Path) -> None:
    """Write the corpus, whose files the blow `text` can replace: the phrasebook's in two languages
    with the pivot.
    """
    for lang in ("de", "fr", "en"):
        rows = [row.words for (row,) in sentences([lang], 300, 0)]
        (folder / f"text.{lang}").write_text("".join(" ".join(words) + "\n" for words in rows))


def _counted(blows: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(blows.items())) or "none"


def _line(found: Round) -> str:
    return (
        f"round {found.number} ({found.storage}): {_counted(found.blows)}; {found.starts} starts,"
        f" {found.seconds:.0f} s; {json.dumps(found.faults) if found.faults else 'nothing lost'}"
    )


def _summary(rounds: list[Round], seconds: float) -> str:
    blows: Counter[str] = sum((one.blows for one in rounds), Counter())
    in_buckets = sum(one.blows.total() for one in rounds if one.storage == "s3")
    counts = (
        f"{LABELS.get(name, name)} {sum(len(getattr(one, name)) for one in rounds)}"
        for name in FAULTS
    )
    return (
        f"{blows.total()} blows ({_counted(blows)}; {in_buckets} on s3) in {len(rounds)} rounds,"
        f" {seconds / 60:.0f} min: {', '.join(counts)}"
    )


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
