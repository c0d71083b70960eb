"""What a grid does on three hosts when one of them, or a process, is lost.

    python -m tests.hosts [--folder FOLDER] [SCENARIO ...]

Needs what ``tests/hosts/namespaces.py`` needs; where that is missing, it says so and ends well.
`ray up` makes the cluster. Each scenario runs a grid that lacks a training, with groups of two
workers or, as `-inline`, with one; strikes once it has a checkpoint; and notes the seconds until it
goes on, whether the results equal those of an undisturbed run exactly, and what is left behind.
With `--folder`, a later call compares with the same undisturbed runs, and its table has all
scenarios; `table` prints it without playing any. `head+host` has two losses after one another.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from raxalign.stages import run_trial
from raxalign.store.storage import Storage
from raxalign.sweep.job import Job, open_workshop, write_plan
from tests.e2e.runs import Site
from tests.grids import write_grid
from tests.hosts.cluster import Cluster
from tests.hosts.lab import LOG, Lab, reference_of, spread, trained
from tests.hosts.namespaces import hosts_up, missing
from tests.hosts.run import LOSSES, Run
from tests.soak.verdict import watched

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


@dataclass(frozen=True)
class Player:
    """What plays scenarios of a lab on a cluster."""

    lab: Lab
    cluster: Cluster

    def play_all(self, names: Iterable[str]) -> list[str]:
        """Start the cluster and play scenarios; returns those that never ended."""
        if not self.lab.base.keys() <= self.lab.base.ledger.keys():
            plan, storage = self.lab.base.plan, Storage(str(self.lab.base.storage))
            workshop = open_workshop(Job(storage, write_plan(plan, storage)))
            for trial in plan.trials:
                run_trial(workshop, trial.key)
        begun, failed = time.monotonic(), []
        self.cluster.up()
        print(f"ray up: {time.monotonic() - begun:.0f} s", flush=True)
        self.cluster.wait()
        print(f"three hosts: {time.monotonic() - begun:.0f} s", flush=True)
        for name in names:
            try:
                self.unshared() if name == "unshared" else self.play(name)
            except Exception:  # noqa: BLE001 - the others can still be played
                failed.append(name)
                traceback.print_exc()
                self.cluster.repair()
        self.cluster.down()
        return failed

    def play(self, name: str) -> None:
        """Play a scenario and note what it showed."""
        print(f"-- {name}", flush=True)
        reference, inline = reference_of(name), name.endswith("-inline")
        losses = [loss for loss in name.removesuffix("-inline").split("+") if loss in LOSSES]
        if losses and reference not in self.lab.played():
            self.play(reference)
        place, site = self.lab.folder / name, self.lab.site(name)
        shutil.rmtree(place, ignore_errors=True)
        if name != "whole":
            self.lab.base.copy(place)
            site.forget_trials([trained(site)[-1 if len(losses) > 2 else 0]])
        self.cluster.wait()
        workers, clock = 1 if inline or name == "whole" else 2, time.time()
        run = Run(self.cluster, site, workers, crowded=inline and bool(losses))
        run.start()
        try:
            for loss in losses:
                run.suffer(loss)
            self.note(name, run, run.finish(), clock)
        finally:
            if run.process.poll() is None:
                print(run.text, flush=True)
            run.release()

    def note(self, name: str, run: Run, seconds: float, clock: float) -> None:
        """Note what a scenario showed that began at `clock`, and print the screen."""
        end = time.monotonic() + 20
        while (left := self.cluster.actors()) and time.monotonic() < end:
            time.sleep(0.5)
        _, groups = self.cluster.state()
        back = " ".join(f"{loss} {seconds:.0f}" for loss, seconds in run.backs.items())
        entry = {"s": round(seconds), "back": back, "actors": len(left), "groups": groups}
        span = {"scenario": name, "workers": run.workers, "began": clock, "ended": time.time()}
        self.lab.keep({**span, **entry})
        print(f"   exit {run.process.returncode}, {seconds:.0f} s; left: {left or 'no actors'}")
        for host, trials in spread(run.site, self.lab.begun(clock, time.time())).items():
            print(f"   on {host}: {', '.join(trials)}")
        again = sorted(step for step, times in run.steps.items() if len(times) > 1)
        print(f"   checkpoints: {', '.join(sorted(run.steps))}; written again: {again or 'none'}")
        for at, line in run.said:
            print(f"   {at:6.1f} | {line}")
        sys.stdout.flush()

    def unshared(self) -> None:
        """Run with a storage that each host has for itself."""
        (own,) = self.cluster.hosts.private
        run = Run(self.cluster, Site(self.lab.grid, own / "storage"), 1)
        run.start()
        print(f"-- unshared\n   {run.finish():.0f} s, exit {run.process.returncode}\n{run.text}")


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
    if unknown := parts - {"whole", "undisturbed", "unshared", "table", *LOSSES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(SCENARIOS)}")
    if lacking := missing():
        print(f"skipped: {lacking}")
        return 0
    signal.signal(signal.SIGTERM, _end)
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="raxalign-hosts-"))
    for part in (folder / "hosts", folder / "own"):
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
    (folder / "site").mkdir(exist_ok=True)
    grid = write_grid(
        folder / "site",
        languages="{each: [de]}",
        size=300,
        sentences="[100]",
        methods=METHODS,
        run="workers: 2, checkpoint_minutes: 0.01",
    )
    lab, failed = Lab(folder, grid), list[str]()
    if asked.scenarios != ["table"]:
        with hosts_up(
            folder / "hosts", private=[folder / "own"], variables=watched(folder / LOG)
        ) as hosts:
            cluster = Cluster(hosts, folder, folder / "site", folder / "storage")
            failed = Player(lab, cluster).play_all(asked.scenarios or SCENARIOS)
    print(lab.table(), *(f"never ended: {name}" for name in failed), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
