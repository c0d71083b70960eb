"""What a grid does on three hosts when one of them, or a process, is lost.

    python -m tests.hosts [--folder FOLDER] [SCENARIO ...]

Needs what ``tests/hosts/namespaces.py`` needs; where that is missing, it says so and ends well.
`ray up` makes the cluster. Each scenario runs a grid that lacks a training, with groups of two
workers or, as `-inline`, with one; strikes once it has a checkpoint; and compares what is left with
an undisturbed run. `head+host` has two losses after one another.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

from raxalign.grid.stored import StoredPlans
from raxalign.store.storage import Storage
from raxalign.sweep.job import Job
from tests.e2e.runs import Site
from tests.grids import write_grid
from tests.hosts.cluster import GROUP, HEAD, INLINE, LIMIT, Cluster, eventually
from tests.hosts.namespaces import hosts_up, missing
from tests.soak import verdict

CUT = 60.0  # seconds without a network


@dataclass
class Run:
    """One run of a grid, of one driver or of several after one another.

    Attributes:
        cluster: Where it runs.
        site: The grid and its storage.
        workers: Workers of each training.
        crowded: Whether another job uses the head's CPU, so that trials run on other hosts.
        said: What the drivers wrote on the screen, with the seconds since the start.
        written: When each checkpoint was written that was seen.
    """

    cluster: Cluster
    site: Site
    workers: int
    crowded: bool = False
    said: list[str] = field(default_factory=list)
    written: set[float] = field(default_factory=set)
    other: subprocess.Popen[str] | None = None

    def __post_init__(self) -> None:
        self.begun, self.struck = time.monotonic(), time.time()

    def start(self) -> None:
        """Start a driver."""
        if self.crowded and (self.other is None or self.other.poll() is not None):
            self.other = self.cluster.occupy()
        command = self.site.command("grid", "--address", "auto", f"--workers={self.workers}")
        self.process = self.cluster.hosts.popen(
            HEAD, *command, RAY_AUTH_MODE="token", RAXALIGN_STORAGE=str(self.site.storage)
        )
        for stream in (self.process.stdout, self.process.stderr):
            threading.Thread(target=self._listen, args=(stream,), daemon=True).start()
        threading.Thread(target=self._look, args=(self.process,), daemon=True).start()

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            self.note(line.rstrip())

    def _look(self, process: subprocess.Popen[str]) -> None:
        while process.poll() is None:
            with suppress(FileNotFoundError):  # a checkpoint that was removed meanwhile
                self.written |= {state.stat().st_mtime for state in self.site.checkpoints()}
            time.sleep(0.2)

    def suffer(self, name: str) -> None:
        """Suffer a loss once there is a checkpoint since the last one, and wait until the run goes
        on.
        """
        struck = self.struck
        eventually(lambda: max(self.written, default=0) > struck or self.ended_well(), "checkpoint")
        assert not self.ended_well(), self.text
        self.struck = time.time()
        self.note(f"-- struck: {name}")
        # what an orphan writes meanwhile does not count
        repair, since = LOSSES[name](self), time.time()
        eventually(lambda: max(self.written) > since or self.ended_well(), "that it goes on")
        self.note(f"-- back {time.time() - self.struck:.0f} s after the loss: {name}")
        if repair is not None:
            repair()

    def ended_well(self) -> bool:
        """Return whether the driver ended by itself; fails where it did so with an error."""
        code = self.process.poll()
        assert code in (None, 0), self.text
        return code == 0

    def note(self, text: str) -> None:
        """Keep a line of the screen, or of this program's."""
        self.said.append(f"   {time.monotonic() - self.begun:6.1f} {text}")

    def finish(self) -> float:
        """Wait for the end; returns the seconds from the first start to it."""
        self.process.wait(LIMIT + 120)
        return time.monotonic() - self.begun

    def kill(self) -> None:
        """Kill the driver."""
        self.cluster.kill(self.process, "-m raxalign grid")

    def release(self) -> None:
        """End what is left of the run."""
        self.kill()
        if self.other is not None and self.other.poll() is None:
            self.cluster.kill(self.other, "others_work():")

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(self.said)

    def training(self) -> tuple[int, int]:
        """Return the process of an actor that trains, and its host."""
        return self.cluster.training(GROUP if self.workers > 1 else INLINE)[0]


Repair = Callable[[], None]
"""What a person does once the run goes on. Ray's autoscaler does the rest."""


def _worker(run: Run) -> None:
    """Kill a worker."""
    os.kill(run.training()[0], signal.SIGKILL)


def _host(run: Run) -> Repair:
    """Cut the power of a host that trains; it is switched on again once the run goes on."""
    _, number = run.training()
    run.cluster.hosts.kill(number)
    return partial(run.cluster.hosts.boot, number)


def _hosts(run: Run) -> None:
    """Cut the power of all hosts but the head, for half a minute."""
    others = [number for number in run.cluster.numbers if number != HEAD]
    for number in others:
        run.cluster.hosts.kill(number)
    time.sleep(CUT / 2)
    for number in others:
        run.cluster.hosts.boot(number)


def _driver(run: Run) -> None:
    """Kill the driver, and type the command again."""
    run.kill()
    run.start()


def _head(run: Run) -> None:
    """Cut the head's power, and the driver's with it; switch it on, and type `ray up` and the
    grid's command again.
    """
    run.cluster.hosts.kill(HEAD)
    run.process.wait()
    run.cluster.hosts.boot(HEAD)
    run.cluster.up()
    run.note("-- the head is up again")
    run.start()


def _network(run: Run) -> None:
    """Pull the network cable of a host that trains for `CUT` seconds."""
    _, number = run.training()
    run.cluster.hosts.cut(number)
    time.sleep(CUT)
    run.cluster.hosts.mend(number)
    run.note("-- the network is mended")


LOSSES: Mapping[str, Callable[[Run], Repair | None]] = {
    "worker": _worker,
    "host": _host,
    "hosts": _hosts,
    "driver": _driver,
    "head": _head,
    "network": _network,
}

METHODS = (
    "none: {}",
    "rotation: {center: [false, true]}",
    "finetune: {lambda: 1.0, batch_size: 1, epochs: [6, 14]}",
)
SCENARIOS = (
    "whole",
    *(f"{name}{kind}" for kind in ("", "-inline") for name in ("undisturbed", *LOSSES)),
    "unshared",
)
LOG = "begun.jsonl"


@dataclass
class Player:
    """What plays scenarios of a grid on a cluster.

    Attributes:
        folder: Holds a folder per scenario, and a log with a line per evaluation that began on any
            host (see ``tests/soak/watch``).
        grid: The grid file.
        cluster: Where it runs.
    """

    folder: Path
    grid: Path
    cluster: Cluster

    @property
    def base(self) -> Site:
        """The grid as one process made it, without Ray."""
        return Site(self.grid, self.folder / "alone")

    def play_all(self, names: Iterable[str]) -> list[str]:
        """Start the cluster and play scenarios; returns those that never ended or lost anything."""
        storage, plan = Storage(str(self.base.storage)), self.base.plan
        workshop = Job(storage, StoredPlans(storage).write(plan)).open_workshop()
        for trial in plan.trials:
            workshop.run_trial(trial.key)
        self.cluster.up()
        self.cluster.wait()
        failed = []
        for name in names:
            try:
                faults = self.unshared() if name == "unshared" else self.play(name)
            except Exception:  # noqa: BLE001 - the others can still be played
                faults = ["never ended"]
                traceback.print_exc()
                self.cluster.repair()
            print(f"-- {name}: {'; '.join(faults) or 'nothing lost'}", flush=True)
            failed += [name] if faults else []
        self.cluster.down()
        return failed

    def play(self, name: str) -> list[str]:
        """Play a scenario; returns what was lost."""
        print(f"-- {name}", flush=True)
        inline, place = name.endswith("-inline"), self.folder / name
        losses = [loss for loss in name.removesuffix("-inline").split("+") if loss in LOSSES]
        peer = self.base if inline else Site(self.grid, self.folder / "undisturbed" / "storage")
        if losses and not peer.storage.exists():
            self.play("undisturbed")
        site = Site(self.grid, place / "storage")
        if name != "whole":
            self.base.copy(place)
            trained = [trial for trial in site.plan.trials if trial.method == "finetune"]
            trained.sort(key=lambda trial: int(str(trial.params["epochs"])))
            site.forget_trials([trained[-1 if len(losses) > 2 else 0]])
        self.cluster.wait()
        workers = 1 if inline or name == "whole" else 2
        since, run = time.time(), Run(self.cluster, site, workers, crowded=inline and bool(losses))
        run.start()
        try:
            for loss in losses:
                run.suffer(loss)
            print(f"   {run.finish():.0f} s\n{run.text}", flush=True)
            return self.judge(site, peer if losses else site, since)
        finally:
            if run.process.poll() is None:
                print(run.text, flush=True)
            run.release()

    def judge(self, site: Site, peer: Site, since: float) -> list[str]:
        """Return what is wrong with a grid that began at a time and has ended, and what it left."""
        end = time.monotonic() + 20
        while (left := self.cluster.actors()) and time.monotonic() < end:
            time.sleep(0.5)
        log = [line for line in verdict.begun(self.folder / LOG) if line["begun"] >= since]
        repeated = verdict.repeated(log, site.ledger.read_many(site.keys()))
        return [
            *(f"wrong: {row}" for row in verdict.wrong(site.results(), peer.results())),
            *(f"twice: {key}" for key in repeated),
            *(f"left: {actor}" for actor in left.values()),
            *(["runs are left running"] if "RUNNING" in site.statuses() else []),
            *(["groups hold room"] if self.cluster.state()[1] else []),
        ]

    def unshared(self) -> list[str]:
        """Run with a storage that each host has for itself, which is refused."""
        (own,) = self.cluster.hosts.private
        run = Run(self.cluster, Site(self.grid, own / "storage"), 1)
        run.start()
        run.finish()
        print(run.text, flush=True)
        return [] if "not every machine of the cluster has this storage" in run.text else ["ran"]


def _end(number: int, frame: object) -> NoReturn:
    """End with the hosts taken down; a second signal does not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> int:
    """Play the scenarios that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.hosts")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    asked = parser.parse_args()
    parts = {part for name in asked.scenarios for part in name.removesuffix("-inline").split("+")}
    if unknown := parts - {"whole", "undisturbed", "unshared", *LOSSES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(SCENARIOS)}")
    if lacking := missing():
        print(f"skipped: {lacking}")
        return 0
    signal.signal(signal.SIGTERM, _end)
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="raxalign-hosts-"))
    for part in ("hosts", "own", "site"):
        (folder / part).mkdir(parents=True)
    grid = write_grid(
        folder / "site",
        languages="{each: [de]}",
        size=300,
        sentences="[100]",
        methods=METHODS,
        run="workers: 2, checkpoint_minutes: 0.01",
    )
    variables = verdict.watched(folder / LOG)
    with hosts_up(folder / "hosts", private=[folder / "own"], variables=variables) as hosts:
        cluster = Cluster(hosts, folder, folder / "site", folder / "storage")
        failed = Player(folder, grid, cluster).play_all(asked.scenarios or SCENARIOS)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
