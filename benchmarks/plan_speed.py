"""Plans, finished grids and help: what a person waits for before anything runs.

usage: python -m benchmarks.plan_speed

Budgets (design, §11): `plan` of 1,000 trials in 1 s and of 10,000 in 10 s; `grid` on a finished
grid 3 s; `--help` 0.3 s. Absolute times are given as multiples of starting Python with the lightest
of our libraries too, so that a slow machine can be told from slow code.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GRID = """
name: speed
pivot: en
encoder: {{kind: scratch, layers: 1, hidden_size: 16, heads: 1, intermediate: 32,
  vocab_size: 300, steps: 2, batch_size: 8}}
languages: {{each: [de, fr]}}
corpus: {{source: phrasebook, size: 100000, split: {{test: 20, dev: 20}}}}
pairs: {{aligner: fast_align}}
sentences: [100, 200, 400, 800, 1000]
seeds: [{seeds}]
methods:
  none: {{}}
  finetune: {{lambda: [{lambdas}]}}
tasks:
  retrieval: {{}}
"""
SMALL = """
name: speed
pivot: en
encoder: {kind: scratch, layers: 1, hidden_size: 16, heads: 1, intermediate: 32, vocab_size: 300,
  steps: 2, batch_size: 8}
languages: {each: [de]}
corpus: {source: phrasebook, size: 200, split: {test: 20, dev: 20}}
pairs: {aligner: fast_align}
sentences: [100]
methods:
  none: {}
tasks:
  retrieval: {}
"""


def seconds(*command: str) -> float:
    """The best of three runs of a command."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        best = min(best, time.perf_counter() - start)
        if done.returncode:
            raise SystemExit(done.stderr)
    return best


def main() -> None:
    """Print one line a budget."""
    raxalign = (sys.executable, "-m", "raxalign")
    floor = seconds(sys.executable, "-c", "import typer, pydantic")
    print(f"starting Python with typer and pydantic: {floor:.2f} s (the unit of the multiples)")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAXALIGN_STORAGE"] = f"{folder}/storage"
        told("--help", seconds(*raxalign, "--help"), 0.3, floor)
        for trials, seeds, budget in ((1_000, 10, 1.0), (10_000, 100, 10.0)):
            lambdas = ", ".join(str(value / 100) for value in range(1, 11))
            grid = Path(folder, f"{trials}.yaml")
            grid.write_text(
                GRID.format(seeds=", ".join(map(str, range(seeds))), lambdas=lambdas),
                encoding="utf-8",
            )
            told(f"plan of {trials:,} trials", seconds(*raxalign, "plan", str(grid)), budget, floor)
        grid = Path(folder, "small.yaml")
        grid.write_text(SMALL, encoding="utf-8")
        subprocess.run([*raxalign, "grid", str(grid)], capture_output=True, check=True)
        told("grid on a finished grid", seconds(*raxalign, "grid", str(grid)), 3.0, floor)


def told(what: str, took: float, budget: float, floor: float) -> None:
    """One line."""
    print(
        f"{what}: {took:.2f} s, {took / floor:.1f} times the unit (budget {budget:g}"
        f" s{'' if took <= budget else ': MISSED'})",
        flush=True,
    )


if __name__ == "__main__":
    main()
