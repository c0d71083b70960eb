"""What a grid that was killed again and again must hold in the end, and what it must not."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

CLOCK_SECONDS = 0.05  # between two processes' looks at the clock


def begun(log: Path) -> list[dict[str, Any]]:
    """Return the evaluations that began: a line of JSON for each (see ``watch/``)."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [json.loads(line) for line in lines]


def watched(log: Path) -> dict[str, str]:
    """Return the environment in which processes note in a log when each evaluation begins."""
    paths = [str(Path(__file__).with_name("watch")), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "RAXALIGN_SOAK_LOG": str(log)}


def repeated(
    begun: Iterable[Mapping[str, Any]], records: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return the evaluations that began after they had been finished, by their records."""
    return [
        line["key"]
        for line in begun
        if line["key"] in records
        and line["begun"] > records[line["key"]]["created"] + CLOCK_SECONDS
    ]


def wrong(rows: Iterable[Mapping[str, Any]], expected: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the results that differ from the undisturbed run's, or that only one of them has."""
    found, wanted = _values(rows), _values(expected)
    return sorted(
        str(name) for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)
    )


def _values(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, ...], float]:
    names = ("trial", "task", "lang", "metric", "split")
    return {tuple(str(row[name]) for name in names): row["value"] for row in rows}


def untidy_runs(runs: Iterable[Mapping[str, Any]], trials: Iterable[str]) -> list[str]:
    """Return what is wrong in the tracking store: runs that are not finished, trials with no run or
    with two, runs without the parent, a second parent.
    """
    runs = list(runs)
    faults = [f"run {run['id']} is {run['status']}" for run in runs if run["status"] != "FINISHED"]
    parents = [run["id"] for run in runs if run["tags"].get("raxalign.kind") == "grid"]
    cells = [run["id"] for run in runs if run["tags"].get("raxalign.kind") == "cell"]
    if len(parents) != 1:
        faults.append(f"{len(parents)} parent runs")
    children = [run for run in runs if run["tags"].get("raxalign.kind") == "trial"]
    count = Counter(run["tags"]["raxalign.trial_key"] for run in children)
    faults += [f"{count[key]} runs of trial {key}" for key in trials if count[key] != 1]
    faults += [
        f"run {run['id']} has no parent"
        for run in children
        if run["tags"].get("mlflow.parentRunId") not in [*cells, *parents]
    ]
    return faults


def leftovers(storage: Path, scratch: Path) -> list[str]:
    """Return what no process will finish or read: temporary files, checkpoints of finished
    trainings, folders of Ray's.
    """
    found = [*storage.rglob(".tmp-*"), *storage.rglob("*.part")]
    found += storage.glob("checkpoints/*/*/step-*")
    found += scratch.glob("raxalign-ray-*")
    return [str(path) for path in found]
