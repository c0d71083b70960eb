"""What a grid of ten thousand trials costs beyond the trials: time, memory of the driver, files.

usage: python -m benchmarks.many_trials [--trials N] [--nodes N] [--storage FOLDER] [--tracked]
[--profile]

One grid of real, tiny trials (shifts of the mean, on a small encoder that is trained from scratch,
with one task on the phrasebook) runs on two cores. The core-time of a trial is what all processes
used between two ends, over the trials between; what it costs by itself is measured in this process
on some of the same trials. Budget: 0.12 s over that, and as much for the last thousand as for the
first. Its noise is that of the stretches after the first one, in which the workers load their
libraries, and of the trials by themselves. The time of the clock is printed too, but other programs
change it. A storage that is named is kept, and continued where it has results.

With `--nodes` the grid runs on a cluster of so many nodes with one core each, all of them on this
machine: what grows with the number of nodes is the driver's work. A node takes more than 1 GiB of
memory with its worker.
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
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console

from benchmarks.processes import DRIVER, Processes, adopt_orphans
from benchmarks.table import ROUNDS, Row, at_most, show, spread
from raxalign.grid.load import Opened, open_grid
from raxalign.grid.stored import StoredPlans
from raxalign.grid.trial import Trial
from raxalign.store.storage import Storage
from raxalign.sweep.cluster import require_token
from raxalign.sweep.events import Event, JobEnded
from raxalign.sweep.job import Job
from raxalign.sweep.progress import Progress
from raxalign.sweep.running import run_sweep
from raxalign.sweep.tracker import TrackedGrid

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
BUDGET = 0.12


class Clock:
    """Prints at some numbers of trials what they took and the memory of this process."""

    def __init__(self, root: Path, marks: set[int]) -> None:
        self.ends = 0
        self._root, self._marks = root, marks
        self._processes = Processes()
        self._last, self._at, self._used = 0, time.perf_counter(), self._processes.look()
        self.each: list[tuple[int, float]] = []  # of each stretch: its trials, core-seconds each

    def hear(self, event: Event) -> None:
        """Note the time of a trial that ends."""
        if not (isinstance(event, JobEnded) and isinstance(event.what, Trial)):
            return
        if event.error is not None:
            raise SystemExit(event.error)
        self.ends += 1
        if self.ends in self._marks:
            self._print()
        elif self.ends % 20 == 0:
            self._processes.look()  # some may end before the next mark

    def _print(self) -> None:
        number, now = self.ends - self._last, time.perf_counter()
        after = self._processes.look()
        parts = {name: seconds / number for name, seconds in after.since(self._used).items()}
        self.each.append((number, sum(parts.values())))
        described = ", ".join(
            f"{name} {seconds:.3f}"
            for name, seconds in sorted(parts.items(), key=lambda part: -part[1])
            if seconds >= 0.001
        )
        memory = after.mebibytes[DRIVER]
        print(
            f"{self.ends:6,} trials, since {self._last + 1:,}: {sum(parts.values()):.3f}"
            f" core-seconds each ({described}), {(now - self._at) / number:.3f} s of the clock;"
            f" driver {memory:,.1f} MiB, all {after.mebibytes.total():,.0f};"
            f" {after.started['worker']} workers started;"
            f" load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        files(self._root)
        self._last, self._at, self._used = self.ends, now, after


def main() -> None:
    """Run the grid and print what it took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=0)
    parser.add_argument("--storage", type=Path)
    parser.add_argument("--tracked", action="store_true")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    adopt_orphans()
    place = nullcontext(given.storage) if given.storage else tempfile.TemporaryDirectory()
    with place as folder:
        root = Path(folder, "storage")
        root.mkdir(parents=True, exist_ok=True)
        grid = Path(folder, "grid.yaml")
        alphas = ", ".join(f"{(number + 1) / given.trials:.6f}" for number in range(given.trials))
        grid.write_text(GRID.format(alphas=alphas), encoding="utf-8")
        start = time.perf_counter()
        opened = open_grid(grid, storage=str(root))
        job = Job(Storage(str(root)), StoredPlans(Storage(str(root))).write(opened.plan))
        size = Path(job.plan).stat().st_size / 2**20
        print(f"plan in {time.perf_counter() - start:.1f} s, {size:.1f} MiB as JSON", flush=True)
        with cluster(given.nodes) as address:
            run(opened, job, address, profiled=given.profile, tracked=given.tracked)


@contextmanager
def cluster(nodes: int) -> Iterator[str | None]:
    """Start a cluster on this machine; yield its address, None for no nodes."""
    if not nodes:
        yield None
        return
    from ray.cluster_utils import Cluster

    start = time.perf_counter()
    require_token()
    started = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "resources": {Job.DRIVER: 1000}}
    )
    try:
        for _ in range(nodes):
            started.add_node(wait=False, num_cpus=1)
        started.wait_for_nodes(timeout=20.0 * nodes)
        print(f"{nodes} nodes in {time.perf_counter() - start:.0f} s", flush=True)
        yield started.address
    finally:
        started.shutdown()


def run(opened: Opened, job: Job, address: str | None, *, profiled: bool, tracked: bool) -> None:
    """Run the grid, and some of its trials here."""
    plan, root = opened.plan, Path(job.storage.root)
    count = len(plan.trials)
    marks = {100, 300, count, *range(0, count, 1_000 if count > 4_000 else 100)}
    clock, profile = Clock(root, marks), cProfile.Profile()
    start = time.perf_counter()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        progress = Progress(job.storage.ledger, Console(file=nowhere, force_terminal=False))
        tracker = None
        if tracked:
            tracker = TrackedGrid(opened).tracker()
        if profiled:
            profile.enable()
        listeners = [clock.hear, progress.hear, *([tracker.hear] if tracker else [])]

        def hear(event: Event) -> None:
            for listener in listeners:
                listener(event)

        run_sweep(plan, job, hear, name=plan.name, address=address)
        profile.disable()
        took = time.perf_counter() - start
        if tracker is not None:
            print(tracker.close() or f"tracked {time.perf_counter() - start - took:.1f} s on")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    total = sum(number * seconds for number, seconds in clock.each)
    print(
        f"{clock.ends:,} trials in {took:.0f} s and {total:,.0f} core-seconds; driver at most"
        f" {peak:,.0f} MiB"
    )
    files(root)
    if clock.each:
        _judge(clock, _bare(root, job, [trial.key for trial in plan.trials[:60]]))
    if profiled:
        pstats.Stats(profile).sort_stats("cumtime").print_stats(60)


def _judge(clock: Clock, own: list[float]) -> None:
    """Show what trials cost over themselves, the first stretch apart: workers load in it."""
    each = clock.each[1:] or clock.each
    mean = sum(number * seconds for number, seconds in each) / sum(number for number, _ in each)
    bare = statistics.median(own)
    thirds = [statistics.median(own[i::ROUNDS]) for i in range(ROUNDS)]
    noise = spread([seconds for _, seconds in each], thirds)
    print(f"a trial {mean:.3f} core-seconds, by itself {bare:.3f}")
    what = f"a trial of a grid of {clock.ends:,}: more time"
    show(Row(what, mean - bare, at_most(BUDGET), noise, f"{bare:.3f} by itself", "core-s"))


def _bare(root: Path, job: Job, keys: list[str]) -> list[float]:
    """The core-times of some trials in this process, as results would be made without Ray;
    the first ones, which load the libraries, are left out.
    """
    from raxalign.sweep.work import attempt

    shutil.move(root / "ledger", root.parent / "ledger")
    shutil.move(root / "artifacts" / "aligned", root.parent / "aligned")
    times = []
    for key in keys:
        start = time.process_time()
        error = attempt(job, key)
        times.append(time.process_time() - start)
        if error is not None:
            raise SystemExit(error)
    for made, kept in ((root / "ledger", "ledger"), (root / "artifacts" / "aligned", "aligned")):
        shutil.rmtree(made)
        shutil.move(root.parent / kept, made)
    return times[10:]


def files(root: Path) -> None:
    """Print the number of files and bytes in each folder of the storage."""
    parts = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        found = [
            os.stat(os.path.join(parent, name)).st_size  # noqa: PTH116, PTH118
            for parent, _, names in os.walk(folder)
            for name in names
            if not name.startswith(".tmp-") and not parent.rpartition("/")[2].startswith(".tmp-")
        ]
        if found:
            parts.append(f"{folder.name} {len(found):,} files {sum(found) / 2**20:,.1f} MiB")
    print("       " + ", ".join(parts), flush=True)


if __name__ == "__main__":
    main()
