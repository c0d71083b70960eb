"""What scenarios showed, kept in a folder, and the table of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raxalign.plan.trial import Trial
from raxalign.store.artifacts import ArtifactStore
from raxalign.sweep.progress import describe
from tests.e2e.runs import Site
from tests.soak import verdict

LOG = "begun.jsonl"
COLUMNS = (
    *("scenario", "s", "back after s", "values", "weights", "compared with"),
    *("twice", "actors", "groups", "running"),
)
ALONE = "one process"


def reference_of(name: str) -> str:
    """Return the undisturbed scenario that a scenario is compared with."""
    return "undisturbed-inline" if name.endswith("-inline") else "undisturbed"


@dataclass(frozen=True)
class Lab:
    """A grid and the scenarios that were played with it.

    Attributes:
        folder: Holds a folder per scenario, `scenarios.jsonl`, and a log with a line per evaluation
            that began on any host (see ``tests/soak/watch``).
        grid: The grid file.
    """

    folder: Path
    grid: Path

    @property
    def base(self) -> Site:
        """The grid as one process made it, without Ray."""
        return Site(self.grid, self.folder / "alone")

    def site(self, name: str) -> Site:
        """Return the grid with a scenario's storage."""
        return Site(self.grid, self.folder / name / "storage")

    def played(self) -> dict[str, dict[str, Any]]:
        """Return what scenarios showed so far, the last one of each name."""
        file = self.folder / "scenarios.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return {entry["scenario"]: entry for entry in map(json.loads, lines)}

    def keep(self, entry: Mapping[str, Any]) -> None:
        """Keep what a scenario showed."""
        with (self.folder / "scenarios.jsonl").open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def begun(self, start: float, end: float) -> list[dict[str, Any]]:
        """Return the evaluations that any host began between two times: key, host and time."""
        log = verdict.begun(self.folder / LOG)
        return [line for line in log if start <= line["begun"] <= end]

    def table(self) -> str:
        """Compare the results of all scenarios so far, and return one row for each."""
        played = self.played()
        found = {name: _values(self.site(name)) for name in played} | {ALONE: _values(self.base)}
        rows = [COLUMNS]
        for name, entry in played.items():
            # groups of two add numbers in another order than one worker does
            peer = reference_of(name) if entry["workers"] > 1 else ALONE
            peer = ALONE if peer == name or peer not in found else peer
            same = [_same(*pair) for pair in zip(found[name], found[peer], strict=True)]
            site = self.site(name)
            log = self.begun(entry["began"], entry["ended"])
            twice = len(verdict.repeated(log, site.ledger.read_many(site.keys())))
            running = sum(run["status"] == "RUNNING" for run in site.tracked())
            left = (entry["actors"], entry["groups"], running)
            row = (name, entry["s"], entry["back"], *same, peer, twice, *left)
            rows.append(tuple(map(str, row)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        )


def _same(found: Mapping[str, object], expected: Mapping[str, object]) -> str:
    """Compare what both have, which is that of all trials but for earlier, smaller grids."""
    common = found.keys() & expected.keys()
    different = sum(found[key] != expected[key] for key in common)
    return f"{different} DIFFER" if different else f"{len(common)} equal"


def _values(site: Site) -> tuple[dict[str, object], dict[str, object]]:
    """Return the results of each trial of a grid, and the digests of trained weights."""
    store, rows = ArtifactStore(str(site.storage)), defaultdict[str, Any](list)
    for row in site.results():
        rows[str(row["trial"])].append(row)
    keys = sorted({trial.aligned for trial in trained(site)})
    made = [key for key in keys if store.has("aligned", key)]
    return dict(rows), {key: store.manifest("aligned", key).content for key in made}


def trained(site: Site) -> list[Trial]:
    """Return the trials of a grid that train, the shortest first."""
    trials = [trial for trial in site.plan.trials if trial.method == "finetune"]
    return sorted(trials, key=lambda trial: int(str(trial.params["epochs"])))


def spread(site: Site, begun: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the trials that each host took part in, from the evaluations that began."""
    plan, found = site.plan, defaultdict[str, list[str]](list)
    trials = {
        key: describe(trial, plan.axes.get(trial.method, ()))
        for trial in plan.trials
        for key in trial.evaluations.values()
    }
    for line in begun:
        if line["key"] in trials:
            found[line["host"]].append(trials[line["key"]])
    return {host: sorted(names) for host, names in sorted(found.items())}
