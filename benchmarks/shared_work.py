"""A grid against its trials run one by one on empty storages.

usage: python -m benchmarks.shared_work [--alone 12] [--steps 200] [--rounds 3]

Budget: a 12-trial grid takes at most 0.4 of the time of its trials run one by one. With `--alone`
3, every fourth trial, one per method, is run by itself, and stands for four. `--steps` are those of
the encoder's pre-training; with fewer there is less work to share, and the budget is harder to
meet. Both sides run in turn, and the best round of each counts; seconds are those of the wall,
which is what a grid is waited for.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.table import ROUNDS, Row, at_most, in_turn, show, spread

BUDGET = 0.4
GRID = """
name: shared
pivot: en
encoder: {{kind: scratch, layers: 2, hidden_size: 64, heads: 2, intermediate: 128,
  vocab_size: 1000, steps: {steps}, batch_size: 16}}
languages: {{each: [de, fr]}}
corpus: {{source: phrasebook, size: 4000, split: {{test: 200, dev: 100}}}}
pairs: {{aligner: fast_align}}
sentences: [1000, 2000]
seeds: [0]
methods:
  rotation: {{center: [false, true]}}
  finetune: {{lambda: 1.0, epochs: 1}}
tasks:
  retrieval: {{}}
"""
TRIALS = [
    f"method={method},language={lang},sentences={sentences}{more}"
    for lang in ("de", "fr")
    for sentences in (1000, 2000)
    for method, more in (
        ("rotation", ",center=False"),
        ("rotation", ",center=True"),
        ("finetune", ""),
    )
]


def run(grid: Path, *arguments: str) -> None:
    """Run a grid on an empty storage."""
    with tempfile.TemporaryDirectory() as storage:
        command = [sys.executable, "-m", "raxalign", "grid", str(grid), "--storage", storage]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)


def main() -> None:
    """Show the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--alone", type=int, choices=(3, 12), default=12)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    many = len(TRIALS) // options.alone
    with tempfile.TemporaryDirectory() as folder:
        grid = Path(folder, "grid.yaml")
        grid.write_text(GRID.format(steps=options.steps), encoding="utf-8")

        def alone() -> None:
            for trial in TRIALS[::many]:
                run(grid, "--only", trial)

        whole, apart = in_turn(options.rounds, time.perf_counter, lambda: run(grid), alone)
    print(f"as a grid {min(whole):.1f} s, {options.alone} trials one by one {min(apart):.1f} s")
    ratio = min(whole) / (many * min(apart))
    times = "" if many == 1 else f" ({options.alone} of them, {many} times)"
    what = f"grid of {len(TRIALS)} trials, encoder of {options.steps} steps: time"
    beside = f"its trials one by one{times}"
    show(Row(what, ratio, at_most(BUDGET), spread(whole, apart), beside))


if __name__ == "__main__":
    main()
