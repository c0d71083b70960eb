"""What a grid does on three hosts when one of them, or a process, is lost.

    python -m tests.hosts [--folder FOLDER] [SCENARIO ...]

Needs what ``tests/hosts/namespaces.py`` needs; where that is missing, it says so and ends well.
`ray up` makes the cluster. Each scenario runs a grid that lacks its trainings, with groups of two
workers or, as `-inline`, with one; strikes once a training has a checkpoint; and notes the seconds
lost, whether the results equal those of an undisturbed run exactly, and what is left behind. With
`--folder`, a later call compares with the same undisturbed runs, and its table has all scenarios.
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
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from raxalign.stages import run_trial
from raxalign.sweep.job import Job, open_workshop, write_plan
from tests.e2e.runs import Site
from tests.grids import write_grid
from tests.hosts.cluster import Cluster, eventually
from tests.hosts.losses import LOSSES
from tests.hosts.namespaces import hosts_up, missing
from tests.hosts.run import Run
from tests.soak.rounds import WATCH

METHODS = (
    "none: {}",
    "rotation: {center: [false, true]}",
    "finetune: {lambda: [0.5, 1.0], batch_size: 1, epochs: 6}",
)
COLUMNS = (
    *("scenario", "s", "lost s", "values", "weights", "compared with"),
    *("twice", "actors", "groups", "running"),
)
SCENARIOS = ("whole", *(f"{name}{kind}" for kind in ("", "-inline") for name in LOSSES), "unshared")


@dataclass
class Lab:
    """The cluster, the grid, and what is known of it.

    Attributes:
        folder: Holds a folder per scenario, and `results.jsonl`.
        grid: The grid file.
        cluster: Where scenarios run.
    """

    folder: Path
    grid: Path
    cluster: Cluster

    @property
    def base(self) -> Site:
        """The grid as one process made it, without Ray."""
        return Site(self.grid, self.folder / "alone")

    @property
    def log(self) -> Path:
        """A line per evaluation that began on any host (see ``tests/soak/watch``)."""
        return self.folder / "begun.jsonl"

    def results(self) -> dict[str, dict[str, Any]]:
        """Return what scenarios showed so far, the last one of each name."""
        file = self.folder / "results.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return {entry["scenario"]: entry for entry in map(json.loads, lines)}

    def keep(self, entry: Mapping[str, Any]) -> None:
        """Note what a scenario showed."""
        with (self.folder / "results.jsonl").open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def alone(self) -> None:
        """Make the whole grid in this process."""
        begun, plan, root = time.monotonic(), self.base.plan, str(self.base.storage)
        workshop = open_workshop(Job(root, write_plan(plan, root)))
        for trial in plan.trials:
            run_trial(workshop, trial.key)
        print(f"one process: {time.monotonic() - begun:.0f} s", flush=True)

    def play(self, name: str) -> None:
        """Play a scenario and note what it showed."""
        print(f"-- {name}", flush=True)
        loss, inline = name.removesuffix("-inline"), name.endswith("-inline")
        reference = "undisturbed-inline" if inline else "undisturbed"
        if name != reference and name != "whole" and reference not in self.results():
            self.play(reference)
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        site = Site(self.grid, place / "storage")
        if name != "whole":
            self.base.copy(place)
            site.forget("finetune")
        run, clock = Run(self.cluster, site, 1 if inline or name == "whole" else 2), time.time()
        run.start()
        try:
            if name not in ("whole", reference):
                eventually(run.checkpointed, "a checkpoint")
                run.note(f"struck: {name}")
                LOSSES[loss](run)
            self.judge(name, run, run.finish(), clock, reference)
        finally:
            if run.process.poll() is None:
                run.kill()

    def judge(self, name: str, run: Run, seconds: float, clock: float, reference: str) -> None:
        """Note what a scenario showed, and print the screen.

        Args:
            name: The scenario.
            run: What ran.
            seconds: How long it took.
            clock: When it began.
            reference: The scenario that it is compared with.
        """
        end = time.monotonic() + 20
        while self.cluster.actors() and time.monotonic() < end:
            time.sleep(0.5)
        known = self.results().get(reference)
        # groups of two add numbers in another order than one worker does
        grouped = run.workers > 1 and name != reference
        peer = Site(self.grid, self.folder / reference / "storage") if grouped else self.base
        (rows, weights), (wanted, peers) = run.values(), Run(self.cluster, peer, 1).values()
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        begun = [line for line in map(json.loads, lines) if line["begun"] >= clock]
        left = self.cluster.actors()
        self.keep(
            {
                "scenario": name,
                "s": round(seconds),
                "lost s": round(seconds - known["s"]) if known and name != "whole" else "",
                "values": "equal" if rows == wanted else "DIFFERENT",
                "weights": "equal" if weights == peers else "DIFFERENT",
                "compared with": reference if grouped else "one process",
                "twice": len(run.repeated(self.log)),
                "actors": len(left),
                "groups": self.cluster.state()[1],
                "running": run.running(),
            }
        )
        print(f"   exit {run.process.returncode}, {seconds:.0f} s; left: {left or 'no actors'}")
        for host, trials in run.spread(begun).items():
            print(f"   on {host}: {', '.join(trials)}")
        again = sorted(step for step, times in run.steps.items() if len(times) > 1)
        print(f"   checkpoints: {', '.join(sorted(run.steps))}; written again: {again or 'none'}")
        for at, line in run.said:
            print(f"   {at:6.1f} | {line}")
        sys.stdout.flush()

    def unshared(self) -> None:
        """Run with a storage that each host has for itself."""
        (own,) = self.cluster.hosts.private
        run = Run(self.cluster, Site(self.grid, own / "storage"), 1)
        run.start()
        print(f"-- unshared\n   {run.finish():.0f} s, exit {run.process.returncode}\n{run.text}")

    def table(self) -> str:
        """Return all that scenarios showed so far."""
        rows = [COLUMNS, *([str(e[c]) for c in COLUMNS] for e in self.results().values())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        )


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
    if unknown := set(asked.scenarios) - set(SCENARIOS):
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
        folder / "site", languages="{each: [de]}", size=300, sentences="[100]", methods=METHODS
    )
    paths = [str(WATCH), *filter(None, [os.environ.get("PYTHONPATH")])]
    log = {"PYTHONPATH": os.pathsep.join(paths), "RAXALIGN_SOAK_LOG": str(folder / "begun.jsonl")}
    with hosts_up(folder / "hosts", private=[folder / "own"], variables=log) as hosts:
        cluster = Cluster(hosts, folder, folder / "site", folder / "storage")
        lab = Lab(folder, grid, cluster)
        if not lab.base.storage.exists():
            lab.alone()
        begun = time.monotonic()
        cluster.up()
        print(f"ray up: {time.monotonic() - begun:.0f} s", flush=True)
        failed = []
        if (folder / "more").exists():  # TEMPORARY
            asked.scenarios += (folder / "more").read_text().split()
        for name in asked.scenarios or SCENARIOS:
            try:
                lab.unshared() if name == "unshared" else lab.play(name)
            except Exception:  # noqa: BLE001 - the others can still be played
                failed.append(name)
                traceback.print_exc()
                cluster.up()
        cluster.down()
    print(lab.table(), *(f"never ended: {name}" for name in failed), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
