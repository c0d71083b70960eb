"""What a grid of ten thousand trials costs beyond the trials: time, memory of the driver, files.

usage: python -m benchmarks.many_trials [--trials N] [--profile]

One grid of real, tiny trials (shifts of the mean, on a small encoder that is trained from scratch,
with one task on the phrasebook) runs on two cores. The core-time of a trial is twice the time
between two ends, over the trials between; what it costs by itself is measured in this process on
some of the same trials. Budget: 0.05 s of the two cores over that, and as much for the last
thousand as for the first.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console

from raxalign.plan.load import open_grid
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.store.ledger import Ledger
from raxalign.sweep.job import Job, write_plan
from raxalign.sweep.observer import Observer, Several
from raxalign.sweep.progress import Progress
from raxalign.sweep.tuner import run_grid

GRID = """
name: many
pivot: en
encoder: {{kind: scratch, layers: 1, hidden_size: 32, heads: 2, intermediate: 64,
  vocab_size: 400, steps: 5, batch_size: 8}}
languages: {{each: [de]}}
corpus: {{source: phrasebook, size: 400, split: {{test: 20, dev: 20}}}}
pairs: {{aligner: fast_align}}
sentences: [100]
methods:
  mean_shift: {{alpha: [{alphas}]}}
tasks:
  retrieval: {{}}
"""
CORES, BUDGET = 2, 0.05


class Clock(Observer):
    """Prints at some numbers of trials what they took and the memory of this process."""

    def __init__(self, marks: set[int]) -> None:
        self.ends: list[float] = []
        self._marks, self._last = marks, 0

    def trial_finished(self, trial: Trial, error: str | None) -> None:  # noqa: ARG002
        """Note the time."""
        if error is not None:
            raise SystemExit(error)
        self.ends.append(time.perf_counter())
        number = len(self.ends)
        if number not in self._marks:
            return
        wall = self.ends[-1] - self.ends[self._last]
        each = CORES * wall / (number - 1 - self._last)
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(
            f"{number:6,} trials: {each:.3f} core-seconds each since {self._last + 1:,}; driver"
            f" {_memory():,.0f} MiB, {used.ru_utime + used.ru_stime:,.0f} s of its own",
            flush=True,
        )
        self._last = number - 1


def _memory() -> float:
    """MiB of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Run the grid and print what it took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        grid, root = Path(folder, "grid.yaml"), Path(folder, "storage")
        alphas = ", ".join(f"{(number + 1) / given.trials:.6f}" for number in range(given.trials))
        grid.write_text(GRID.format(alphas=alphas), encoding="utf-8")
        start = time.perf_counter()
        plan = open_grid(grid, storage=str(root)).plan
        job = Job(str(root), write_plan(plan, str(root)))
        size = Path(job.plan).stat().st_size / 2**20
        print(f"plan in {time.perf_counter() - start:.1f} s, {size:.1f} MiB as JSON", flush=True)
        run(plan, job, profiled=given.profile)
        _files(root)


def run(plan: Plan, job: Job, *, profiled: bool) -> None:
    """Run the grid, and some of its trials here."""
    marks = {100, 300, 1_000, 2_000, 5_000, 10_000, len(plan.trials)}
    clock, profile = Clock(marks), cProfile.Profile()
    start = time.perf_counter()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        progress = Progress(Ledger(job.root), Console(file=nowhere, force_terminal=False))
        if profiled:
            profile.enable()
        run_grid(plan, job, Several([clock, progress]))
        profile.disable()
    wall = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    steady = clock.ends[len(clock.ends) // 10 :]
    each = CORES * (steady[-1] - steady[0]) / (len(steady) - 1)
    own = _bare(Path(job.root), job, [trial.key for trial in plan.trials[:60]])
    missed = "" if each - own <= BUDGET else ": MISSED"
    print(
        f"{len(plan.trials):,} trials in {wall:.0f} s, first after {clock.ends[0] - start:.1f} s,"
        f" {start + wall - clock.ends[-1]:.1f} s after the last; driver at most {peak:,.0f} MiB\n"
        f"a trial {each:.3f} core-seconds, by itself {own:.3f}: {each - own:.3f} over it (budget"
        f" {BUDGET}{missed})"
    )
    if profiled:
        pstats.Stats(profile).sort_stats("cumtime").print_stats(60)


def _bare(root: Path, job: Job, keys: list[str]) -> float:
    """The median time of some trials in this process, as results would be made without Ray; the
    first ones, which load the libraries, are left out.
    """
    from raxalign.sweep.trial import attempt

    shutil.move(root / "ledger", root.parent / "ledger")
    shutil.move(root / "artifacts" / "aligned", root.parent / "aligned")
    times = []
    for key in keys:
        start = time.perf_counter()
        error = attempt(job, key)
        times.append(time.perf_counter() - start)
        if error is not None:
            raise SystemExit(error)
    for made, kept in ((root / "ledger", "ledger"), (root / "artifacts" / "aligned", "aligned")):
        shutil.rmtree(made)
        shutil.move(root.parent / kept, made)
    return statistics.median(times[10:])


def _files(root: Path) -> None:
    """Print the number of files and bytes in each folder of the storage."""
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        files = [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files) / 2**20
        print(f"  {folder.name}: {len(files):,} files, {size:,.1f} MiB")


if __name__ == "__main__":
    main()
