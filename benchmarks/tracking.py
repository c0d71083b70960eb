"""Trials per second that reach MLflow's SQLite store: 20 metrics, params, tags and a curve of 50
points each.

Two paths: `close` brings a whole grid after the fact, as `raxalign sync` does; the live path brings
each trial when it starts and when it ends. Run it in two checkouts to compare two versions.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from raxalign.plan.load import open_grid
from raxalign.plan.plan import Plan
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool
from raxalign.tracking.client import Target
from raxalign.tracking.recorder import Recorder

GRID = """
name: tracked
encoder: {{kind: scratch}}
languages: {{each: [de]}}
corpus: {{source: phrasebook, size: 400, split: {{test: 30, dev: 30}}}}
pairs: {{aligner: fast_align}}
sentences: [100]
seeds: [{seeds}]
methods: {{finetune: {{}}}}
tasks: {{retrieval: {{}}}}
"""
METRICS, POINTS = 20, 50


def fill(folder: Path, trials: int) -> Plan:
    """Write a grid of so many trials with made-up results and curves; return its plan."""
    path = folder / "grid.yaml"
    path.write_text(GRID.format(seeds=", ".join(map(str, range(trials)))), encoding="utf-8")
    plan = open_grid(path, storage=str(folder)).plan
    ledger = Ledger(str(folder))
    for number, trial in enumerate(plan.trials):
        scores = [
            {"lang": "de-en", "metric": f"m{i}", "split": "test", "value": number / 1e4 + i}
            for i in range(METRICS)
        ]
        facts = {"params": {}, "notes": {}, "device": "cpu", "versions": {"torch": "2"}}
        for key in trial.evaluations.values():
            ledger.write(key, {"scores": scores, **facts}, None)
        spool = Spool(str(folder), trial.key)
        for step in range(1, POINTS + 1):
            spool.report({"finetune/loss": 1.0 / step}, step)
        spool.flush()
    return plan


def measure(trials: int, *, live: bool) -> None:
    """Print the speed of one path."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        plan = fill(folder, trials)
        recorder = Recorder(plan, Target(f"sqlite:///{folder}/mlflow.db", place, "name: tracked"))
        recorder.open()
        begun, used = time.monotonic(), time.process_time()
        if live:
            for trial in plan.trials:
                recorder.start(trial)
                recorder.finish(trial, None)
        recorder.close()
        wall, cpu = time.monotonic() - begun, time.process_time() - used
    name = "live (start, finish, close)" if live else "close alone"
    print(
        f"{name}: {trials} trials in {wall:.1f} s, {trials / wall:.1f} trials/s;"
        f" {cpu:.1f} CPU-s, {1000 * cpu / trials:.1f} CPU-s per 1,000 trials"
    )


def main() -> None:
    """Measure both paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=500)
    arguments = parser.parse_args()
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    for live in (False, True):
        measure(arguments.trials, live=live)


if __name__ == "__main__":
    main()
