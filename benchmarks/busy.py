"""How busy two cores are while a grid runs that shares stages: 4 languages x 3 methods.

usage: python -m benchmarks.busy [ROUNDS]

The time that workers spend on stages and trials, over twice the time from the first start to the
last end. Budget: 0.9. The start of Ray before it is printed apart, and so is the longest time in
which nothing ended, since one long stage alone can keep only one core busy. The stretches in which
a core was idle are printed with what ran on the other one: where that is nothing that the rest
waits for, workers were idle while work was ready. The best of three rounds counts, each on an empty
storage. Seconds are those of the wall, since what is measured is waiting.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from benchmarks.table import ROUNDS, Row, at_least, show, spread
from raxalign.grid.load import open_grid
from raxalign.grid.stage import Stage
from raxalign.grid.stored import StoredPlans
from raxalign.grid.trial import Trial
from raxalign.store.storage import Storage
from raxalign.sweep.events import Began, Event, JobEnded, Planned
from raxalign.sweep.job import Job
from raxalign.sweep.progress import describe, describe_stage
from raxalign.sweep.running import run_sweep

GRID = """
name: busy
pivot: en
encoder: {kind: scratch, layers: 2, hidden_size: 128, heads: 4, intermediate: 256,
  vocab_size: 1000, steps: 60, batch_size: 16}
languages: {each: [de, fr, es, bg]}
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


class Clock:
    """Adds the times of stages and trials."""

    def __init__(self) -> None:
        self.busy, self.begun = 0.0, 0.0
        self.ends: list[float] = []
        self.first_trial: float | None = None
        self._running: dict[str, float] = {}
        self.steps: list[tuple[float, float, str]] = []  # begin, end, name

    def hear(self, event: Event) -> None:
        """Note when a stage or a trial begins and ends, and add its time."""
        match event:
            case Planned():
                self.begun = time.perf_counter()
            case Began(what=Trial() as trial):
                self._running[trial.key] = time.perf_counter()
                self.first_trial = self.first_trial or self._running[trial.key]
            case JobEnded(error=str() as error):
                raise SystemExit(error)
            case JobEnded(what=Trial() as trial):
                self._end(time.perf_counter() - self._running[trial.key], describe(trial))
            case JobEnded(what=Stage() as stage):
                self._end(event.seconds or 0.0, describe_stage(stage))

    def _end(self, seconds: float, name: str) -> None:
        self.busy += seconds
        self.ends.append(time.perf_counter())
        self.steps.append((self.ends[-1] - seconds, self.ends[-1], name))

    def idle(self) -> list[tuple[float, str]]:
        """Return the stretches in which not all cores had a step, the longest first: seconds of
        idle cores, and when it was with what ran.
        """
        times = sorted({self.begun, *(moment for step in self.steps for moment in step[:2])})
        found: list[tuple[float, str]] = []
        for begin, end in pairwise(times):
            there = [name for start, stop, name in self.steps if start < end and stop > begin]
            if len(there) < CORES:
                ran = " + ".join(there) or "nothing"
                at = f"{begin - self.begun:.1f} to {end - self.begun:.1f} s: {ran}"
                found.append(((CORES - len(there)) * (end - begin), at))
        return sorted(found, reverse=True)


def main() -> None:
    """Run the grid some times and show the share."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    idle = []  # 1 / share: small is good, as with seconds
    for _ in range(rounds):
        share, trials = once()
        idle.append(1 / share)
    what = f"busy core-time of a grid of {trials} trials"
    show(Row(what, 1 / min(idle), at_least(BUDGET), spread(idle), f"{CORES} x its time"))


def once() -> tuple[float, int]:
    """Run the grid on an empty storage, and print what it took; return the share and the number of
    trials.
    """
    with tempfile.TemporaryDirectory() as folder:
        grid, root = Path(folder, "grid.yaml"), f"{folder}/storage"
        grid.write_text(GRID, encoding="utf-8")
        plan, clock = open_grid(grid, storage=root).plan, Clock()
        start = time.perf_counter()
        job = Job(Storage(root), StoredPlans(Storage(root)).write(plan))
        run_sweep(plan, job, clock.hear, name=plan.name)
        end = time.perf_counter()
    wall = clock.ends[-1] - clock.begun
    share = clock.busy / (CORES * wall)
    gaps = [b - a for a, b in zip([clock.begun, *clock.ends], clock.ends, strict=False)]
    print(
        f"{len(plan.trials)} trials and {len(clock.ends) - len(plan.trials)} shared stages: busy"
        f" {clock.busy:.1f} of {CORES} x {wall:.1f} s: {share:.2f}\n"
        f"before the first step {clock.begun - start:.1f} s, first trial begun after"
        f" {(clock.first_trial or end) - clock.begun:.1f} s, longest time without an end"
        f" {max(gaps):.1f} s, after the last {end - clock.ends[-1]:.1f} s; load"
        f" {os.getloadavg()[0]:.1f}"
    )
    for seconds, at in clock.idle()[:12]:
        print(f"  idle for {seconds:.1f} core-seconds from {at}")
    return share, len(plan.trials)


if __name__ == "__main__":
    main()
