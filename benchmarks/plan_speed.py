"""Plans, finished grids and help: what a person waits for before anything runs.

usage: python -m benchmarks.plan_speed

Budgets: `plan` of 1,000 trials in 1 s and of 10,000 in 10 s; `grid` on a finished grid 3 s;
`--help` 0.3 s; `plan`, `status` and `results` of the quickstart 0.35 s; `doctor` 0.4 s without a
GPU driver. Seconds are those of cores, the best of three runs. `PYTHONDONTWRITEBYTECODE`
is taken out of the environment: with it every run compiles the package again, which takes .2 s and
says nothing about an installed one. Seconds are given as multiples of starting Python with the
lightest of our libraries too, so that a slow machine can be told from slow code.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.table import ROUNDS, Row, at_most, children, in_turn, show, spread

QUICKSTART = Path(__file__).resolve().parent.parent / "grids" / "quickstart.yaml"
GRID = """
name: speed
pivot: en
encoder: {{kind: scratch, layers: 1, hidden_size: 16, heads: 1, intermediate: 32,
  vocab_size: 300, steps: 2, batch_size: 8}}
languages: {{each: [de, fr]}}
corpus: {{source: phrasebook, size: 12000, split: {{test: 20, dev: 20}}}}
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


def seconds(*command: str) -> list[float]:
    """The core-seconds of each of three runs of a command."""

    def run() -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr or done.stdout)

    return in_turn(ROUNDS, children, run)[0]


def lightest() -> list[float]:
    """The unit of the multiples."""
    floor = seconds(sys.executable, "-c", "import typer, pydantic")
    print(f"starting Python with typer and pydantic: {min(floor):.2f} s (the unit of multiples)")
    return floor


def report(what: str, took: list[float], budget: float | None, floor: list[float]) -> None:
    """Show one row; without a budget where its size is not that of the budget."""
    beside = f"{min(took) / min(floor):.1f} x starting Python with typer and pydantic"
    limit = None if budget is None else at_most(budget)
    show(Row(what, min(took), limit, spread(took), beside, "core-s"))


def main() -> None:
    """Show one row per budget."""
    raxalign, floor = (sys.executable, "-m", "raxalign"), lightest()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAXALIGN_STORAGE"] = f"{folder}/storage"
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        subprocess.run([*raxalign, "plan", str(QUICKSTART)], capture_output=True, check=True)
        report("`--help`", seconds(*raxalign, "--help"), 0.3, floor)
        for command in ("plan", "status", "results"):
            took = seconds(*raxalign, command, str(QUICKSTART))
            report(f"`{command}` of the quickstart", took, 0.35, floor)
        report("`doctor`", seconds(*raxalign, "doctor"), 0.4, floor)
        for trials, seeds, budget in ((1_000, 10, 1.0), (10_000, 100, 10.0)):
            lambdas = ", ".join(str(value / 100) for value in range(1, 11))
            grid = Path(folder, f"{trials}.yaml")
            grid.write_text(
                GRID.format(seeds=", ".join(map(str, range(seeds))), lambdas=lambdas),
                encoding="utf-8",
            )
            report(
                f"`plan` of {trials:,} trials", seconds(*raxalign, "plan", str(grid)), budget, floor
            )
        grid = Path(folder, "small.yaml")
        grid.write_text(SMALL, encoding="utf-8")
        subprocess.run([*raxalign, "grid", str(grid)], capture_output=True, check=True)
        report("`grid` on a finished grid", seconds(*raxalign, "grid", str(grid)), 3.0, floor)


if __name__ == "__main__":
    main()
