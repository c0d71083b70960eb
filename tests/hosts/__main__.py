"""What a grid does on three hosts when one of them, or a process, is lost.

    python -m tests.hosts [--folder FOLDER] [SCENARIO ...]

Needs root, iproute2 and util-linux; says so and ends well where they are missing. Each scenario
runs a grid whose shared stages are there, disturbs its trainings once one has a checkpoint, and
prints the spread of trials over hosts, whether the results equal those of an undisturbed run
exactly, the seconds lost, and what is left of Ray's actors and placement groups.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tests.e2e.runs import Site
from tests.grids import write_grid
from tests.hosts.cluster import GROUP, INLINE, Cluster, Run, eventually
from tests.hosts.network import Network, missing

HOSTS, CUT = 3, 60.0
METHODS = (
    "none: {}",
    "rotation: {}",
    "finetune: {lambda: [0.5, 1.0], batch_size: 1, epochs: 6}",
)
SHOWN = ("waits for", "note:", "failed", "warning:", "not every machine", " done, ")


@dataclass
class Lab:
    """The cluster, the grid, and what an undisturbed run of it gave: `base` is its storage,
    `seconds` what its trainings took, by the kind of process that trains.
    """

    cluster: Cluster
    folder: Path
    grid: Path

    @property
    def base(self) -> Path:
        return self.folder / "base" / "storage"

    def run(self, name: str, kind: str) -> Run:
        """Start a grid that has everything but its trainings."""
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        site = Site(self.grid, self.base).copy(place)
        site.forget("finetune")
        run = Run(self.cluster, self.grid, site.storage, workers(kind))
        run.start()
        return run

    def again(self, run: Run) -> Run:
        """Start the same grid once more."""
        other = Run(self.cluster, self.grid, run.storage, run.arguments)
        other.start()
        return other

    def reference(self, kind: str) -> tuple[object, float]:
        """Return the results and the seconds of an undisturbed run, which is made where it was not
        yet.
        """
        file, name = self.folder / f"undisturbed-{kind}.json", f"undisturbed-{kind}"
        if not file.exists():
            run = self.run(name, kind)
            seconds = run.finish()
            self.report("undisturbed", kind, run, seconds, None)
            file.write_text(json.dumps(seconds))
        storage = self.folder / name / "storage"
        return Run(self.cluster, self.grid, storage).values(), json.loads(file.read_text())

    def report(
        self, name: str, kind: str, run: Run, seconds: float, reference: tuple[object, float] | None
    ) -> None:
        """Print what a scenario showed."""
        wait = time.monotonic() + 20
        while self.cluster.actors() and time.monotonic() < wait:
            time.sleep(0.5)
        what = "groups of 2" if kind == GROUP else "one worker per trial"
        print(f"{name} ({what}): {seconds:.0f} s", end="")
        if reference is not None:
            same = "equal" if run.values() == reference[0] else "DIFFERENT"
            print(f", {seconds - reference[1]:.0f} s lost; values {same}", end="")
        left = sorted(kind for _, kind in self.cluster.actors().values())
        print(f"; left: {len(left)} actors {left or ''}, {self.cluster.room()} placement groups")
        print(f"  spread: {run.spread()}")
        for line in run.said:
            if any(part in line for part in SHOWN):
                print(f"  | {line}")
        sys.stdout.flush()


def workers(kind: str) -> tuple[str, ...]:
    return ("--workers", "2" if kind == GROUP else "1")


def kill_worker(lab: Lab, run: Run, kind: str) -> float:
    pid, _ = lab.cluster.training(kind)[0]
    os.kill(pid, signal.SIGKILL)
    return run.finish()


def kill_host(lab: Lab, run: Run, kind: str) -> float:
    _, host = lab.cluster.training(kind)[0]
    host.kill()
    seconds = run.finish()
    host.boot()
    lab.cluster.join(host)
    return seconds


def kill_hosts(lab: Lab, run: Run, kind: str) -> float:
    """Kill all hosts but the head, and boot them when the driver says what it waits for."""
    _, *others = lab.cluster.network
    for host in others:
        host.kill()
    if kind == GROUP:
        eventually(lambda: any("waits for" in line for line in run.said), "the wait is on screen")
    for host in others:
        host.boot()
        lab.cluster.join(host)
    return run.finish()


def kill_driver(lab: Lab, run: Run, kind: str) -> float:
    run.kill()
    before, other = time.monotonic() - run.begun, lab.again(run)
    seconds = before + other.finish()
    run.said, run.seen = [*run.said, *other.said], {**run.seen, **other.seen}
    return seconds


def kill_head(lab: Lab, run: Run, kind: str) -> float:
    """Kill the head and the driver on it; the other hosts leave by themselves; all start anew."""
    head, *others = lab.cluster.network
    head.kill()
    eventually(
        lambda: not any("raylet" in line for h in others for line in h.processes().values()),
        "raylets without a head end",
    )
    print(f"  raylets ended {time.monotonic() - run.begun:.0f} s after the start")
    head.boot()
    for host in lab.cluster.network:
        lab.cluster.join(host)
    before, other = time.monotonic() - run.begun, lab.again(run)
    seconds = before + other.finish()
    run.said, run.seen = [*run.said, *other.said], {**run.seen, **other.seen}
    return seconds


def cut_network(lab: Lab, run: Run, kind: str) -> float:
    _, host = lab.cluster.training(kind)[0]
    host.plug(up=False)
    time.sleep(CUT)
    host.plug(up=True)
    seconds = run.finish()
    eventually(
        lambda: not any("raylet" in line for line in host.processes().values()),
        "a raylet that was given up ends",
    )
    lab.cluster.join(host)
    return seconds


def unshared(lab: Lab) -> None:
    """Run with a storage that each host has for itself."""
    run = Run(lab.cluster, lab.grid, lab.folder / "own" / "storage")
    run.start()
    seconds = run.finish()
    print(f"storage that is not shared: exit {run.process.returncode} after {seconds:.0f} s")
    for line in run.said:
        print(f"  | {line}")


SCENARIOS: dict[str, Callable[[Lab, Run, str], float]] = {
    "worker": kill_worker,
    "host": kill_host,
    "hosts": kill_hosts,
    "driver": kill_driver,
    "head": kill_head,
    "cut": cut_network,
}


def _end(number: int, frame: object) -> NoReturn:
    """End with the network taken down; a second signal does not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> int:
    """Run the scenarios that are named, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path)
    names = [f"{name}-{kind}" for name in SCENARIOS for kind in ("group", "inline")]
    parser.add_argument("scenarios", nargs="*", choices=[*names, "unshared", []])
    asked = parser.parse_args()
    lacking = missing()
    if lacking:
        print(f"skipped: {lacking}")
        return 0
    signal.signal(signal.SIGTERM, _end)
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="raxalign-hosts-"))
    folder.mkdir(parents=True, exist_ok=True)
    with Network(folder, HOSTS) as network:
        cluster = Cluster(network, folder)
        for host in network:
            cluster.join(host)
        (folder / "grid").mkdir(exist_ok=True)
        grid = write_grid(
            folder / "grid",
            languages="{each: [de]}",
            size=300,
            sentences="[100]",
            methods=METHODS,
        )
        lab = Lab(cluster, folder, grid)
        if not lab.base.exists():
            whole = Run(cluster, grid, lab.base, workers(GROUP))
            whole.start()
            lab.report("a whole grid", GROUP, whole, whole.finish(), None)
        for name in asked.scenarios or [*names, "unshared"]:
            print(f"-- {name}", flush=True)
            if name == "unshared":
                unshared(lab)
                continue
            scenario, _, short = name.partition("-")
            kind = GROUP if short == "group" else INLINE
            reference = lab.reference(kind)
            run = lab.run(name, kind)
            eventually(run.checkpointed, "a checkpoint")
            lab.report(name, kind, run, SCENARIOS[scenario](lab, run, kind), reference)
    return 0


if __name__ == "__main__":
    sys.exit(main())
