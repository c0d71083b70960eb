"""What Ray Tune costs a trial that trains inline, over calling the same function in this process.

usage: python -m benchmarks.inline_trial [TRIALS]

Budget: at most 0.5 s over the bare function, actors reused, first trial of an actor excepted. The
trials (evaluations of rotations) are run by one actor; then their results are forgotten and the
same function runs them here, its first one not counted either. The value is the difference of the
medians; every third trial is a round. Seconds are those of the wall, since trials wait for Ray.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.table import ROUNDS, Row, at_most, show, spread
from raxalign.grid.load import open_grid
from raxalign.grid.stored import StoredPlans
from raxalign.grid.trial import Trial
from raxalign.store.storage import Storage
from raxalign.sweep.events import Event, JobEnded
from raxalign.sweep.job import Job
from raxalign.sweep.running import run_sweep

GRID = """
name: inline
pivot: en
encoder: {{kind: scratch, layers: 2, hidden_size: 64, heads: 2, intermediate: 128,
  vocab_size: 500, steps: 5, batch_size: 8}}
languages: {{each: [de]}}
corpus: {{source: phrasebook, size: 1000, split: {{test: 50, dev: 50}}}}
pairs: {{aligner: fast_align}}
sentences: [{sizes}]
methods:
  rotation: {{center: [false, true]}}
tasks:
  retrieval: {{}}
"""


class Clock:
    """When each trial ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def hear(self, event: Event) -> None:
        """Note the time of a trial that ends."""
        if isinstance(event, JobEnded) and isinstance(event.what, Trial):
            if event.error is not None:
                raise SystemExit(event.error)
            self.ends.append(time.perf_counter())


def main() -> None:
    """Print the difference."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    with tempfile.TemporaryDirectory() as folder:
        grid = Path(folder, "grid.yaml")
        grid.write_text(
            GRID.format(sizes=", ".join(str(100 + 20 * number) for number in range(count // 2))),
            encoding="utf-8",
        )
        plan = open_grid(grid, storage=f"{folder}/storage").plan
        job, clock = (
            Job(
                Storage(f"{folder}/storage"),
                StoredPlans(Storage(f"{folder}/storage")).write(plan),
                at_once=1,
            ),
            Clock(),
        )
        run_sweep(plan, job, clock.hear, name=plan.name)
        tuned = [after - before for before, after in zip(clock.ends, clock.ends[1:], strict=False)]
        bare = bare_times(Path(folder, "storage"), job, [trial.key for trial in plan.trials])
    over = statistics.median(tuned) - statistics.median(bare)
    rounds = [[statistics.median(side[i::ROUNDS]) for i in range(ROUNDS)] for side in (tuned, bare)]
    print(f"a trial through Tune {statistics.median(tuned):.2f} s")
    beside = f"the bare function: {statistics.median(bare):.2f} s"
    what = f"a trial through Tune, {count} trials: more time"
    show(Row(what, over, at_most(0.5), spread(*rounds), beside, "s"))


def bare_times(storage: Path, job: Job, keys: list[str]) -> list[float]:
    """The same trials in this process; the first one, which loads the libraries, is left out."""
    from raxalign.sweep.work import attempt

    shutil.rmtree(storage / "ledger")
    shutil.rmtree(storage / "artifacts" / "aligned")
    times = []
    for key in keys:
        start = time.perf_counter()
        error = attempt(job, key)
        times.append(time.perf_counter() - start)
        if error is not None:
            raise SystemExit(error)
    return times[1:]


if __name__ == "__main__":
    main()
