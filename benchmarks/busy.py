"""How busy two cores are while a grid runs that shares stages: 4 languages x 3 methods.

usage: python -m benchmarks.busy

The time that workers spend on stages and trials, over twice the time from the first start to the
last end. Budget: 0.9. The start of Ray before it is printed apart, and so is the longest time in
which nothing ended, since one long stage alone can keep only one core busy.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from raxalign.plan.load import open_grid
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.trial import Trial
from raxalign.sweep.job import Job, write_plan
from raxalign.sweep.observer import Observer
from raxalign.sweep.tuner import run_grid

GRID = """
name: busy
pivot: en
encoder: {kind: scratch, layers: 2, hidden_size: 128, heads: 4, intermediate: 256,
  vocab_size: 1000, steps: 60, batch_size: 16}
languages: {each: [de, fr, es, tr]}
corpus: {source: phrasebook, size: 4000, split: {test: 200, dev: 100}}
pairs: {aligner: fast_align}
sentences: [2000]
methods:
  rotation: {}
  mean_shift: {}
  finetune: {batch_size: 16, epochs: 1}
tasks:
  retrieval: {}
  sentence_retrieval: {}
"""
CORES, BUDGET = 2, 0.9


class Clock(Observer):
    """Adds the times of stages and trials."""

    def __init__(self) -> None:
        self.busy, self.begun = 0.0, 0.0
        self.ends: list[float] = []
        self.first_trial: float | None = None
        self._running: dict[str, float] = {}

    def grid_started(self, plan: Plan, pending: int, cached: int, stages: int) -> None:  # noqa: ARG002
        """Note when steps may start."""
        self.begun = time.perf_counter()

    def stage_finished(self, stage: Stage, seconds: float | None, error: str | None) -> None:  # noqa: ARG002
        """Add the time of a stage."""
        if seconds is None:
            raise SystemExit(error)
        self.busy += seconds
        self.ends.append(time.perf_counter())

    def trial_started(self, trial: Trial) -> None:
        """Note the time."""
        self._running[trial.key] = time.perf_counter()
        self.first_trial = self.first_trial or self._running[trial.key]

    def trial_finished(self, trial: Trial, error: str | None) -> None:
        """Add the time of a trial."""
        if error is not None:
            raise SystemExit(error)
        self.ends.append(time.perf_counter())
        self.busy += self.ends[-1] - self._running[trial.key]


def main() -> None:
    """Run the grid and print the share."""
    with tempfile.TemporaryDirectory() as folder:
        grid, root = Path(folder, "grid.yaml"), f"{folder}/storage"
        grid.write_text(GRID, encoding="utf-8")
        plan, clock = open_grid(grid, storage=root).plan, Clock()
        start = time.perf_counter()
        run_grid(plan, Job(root, write_plan(plan, root)), clock)
        end = time.perf_counter()
    wall = clock.ends[-1] - clock.begun
    share = clock.busy / (CORES * wall)
    gaps = [b - a for a, b in zip([clock.begun, *clock.ends], clock.ends, strict=False)]
    missed = "" if share >= BUDGET else ": MISSED"
    print(
        f"{len(plan.trials)} trials and {len(clock.ends) - len(plan.trials)} shared stages: busy"
        f" {clock.busy:.1f} of {CORES} x {wall:.1f} s: {share:.2f} (budget {BUDGET}{missed})\n"
        f"before the first step {clock.begun - start:.1f} s, first trial begun after"
        f" {(clock.first_trial or end) - clock.begun:.1f} s, longest time without an end"
        f" {max(gaps):.1f} s, after the last {end - clock.ends[-1]:.1f} s"
    )


if __name__ == "__main__":
    main()
