"""Run the benchmarks, and print one table of what they have measured.

usage: python -m benchmarks [NAME...] [--rows FOLDER] [--write]

Each runs in a process of its own, one after the other; without a NAME all of them run. One that
fails is a row of the table, and the exit code is 1. With `--rows`, what a benchmark has measured is
kept in a folder, and one that has been kept there is not run again, so that a run can be continued.
`--write` puts the table into docs/reference/benchmarks.md, which says how long they take.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.page import PAGE, described, written
from benchmarks.table import ROWS, Failure, Row, markdown

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Run:
    """A benchmark at the size that the table has: its module, the arguments, and about how many
    seconds it takes on two quiet cores.
    """

    module: str
    arguments: str
    seconds: int

    @property
    def name(self) -> str:
        """The module and its arguments."""
        return f"{self.module} {self.arguments}".strip()


RUNS = (
    Run("plan_speed", "", 45),
    Run("report_speed", "25", 20),
    Run("object_store", "100", 30),
    Run("csls", "--threads 2", 20),
    Run("csls", "--threads 1 --n 8000", 20),
    Run("csls", "--memory --n 20000", 15),
    Run("word_vectors", "--sentences 1500", 35),
    Run("finetune", "--steps 15", 65),
    Run("training", "--steps 6", 70),
    Run("tasks", "--rows 320", 150),
    Run("joint", "--steps 8 --batch 16", 30),
    Run("translation", "--sentences 100", 25),
    Run("layers", "--sentences 200", 30),
    Run("steps", "--steps 4 --batch 16", 30),
    Run("workers", "--steps 4", 30),
    Run("pieces", "--pairs 10000 --rows 10000 --threads 2", 30),
    Run("word_pairs", "--sentences 50000", 30),
    Run("fast_align", "--sentences 5000 --no-error-rates", 20),
    Run("tracking", "--trials 100 --path bare --path close", 30),
    Run("significance", "150", 15),
    Run("language_sample", "60", 3),
    Run("sequential", "2", 2),
    Run("curves", "4", 8),
    Run("inline_trial", "16", 30),
    Run("many_trials", "--trials 300", 50),
    Run("busy", "2", 100),
    Run("shared_work", "--alone 3 --steps 50", 100),
)
"""The benchmarks in the order of the table. One that is added needs a line here, and has to `show`
its rows (`benchmarks.table`).
"""


@dataclass(frozen=True)
class Outcome:
    """What one benchmark has measured, the seconds that it took, and the load at its start; `error`
    says why it failed.
    """

    rows: tuple[Row, ...]
    seconds: float
    load: float
    error: str | None = None


def run(chosen: Run, file: Path) -> Outcome:
    """Run a benchmark, whose rows go through a file."""
    print(f"== {chosen.name} (about {chosen.seconds} s)", flush=True)
    start, load = time.perf_counter(), os.getloadavg()[0]
    command = [sys.executable, "-m", f"benchmarks.{chosen.module}", *chosen.arguments.split()]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, ROWS: str(file)},
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    seconds = time.perf_counter() - start
    sys.stderr.write(done.stderr)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    error = None if lines else "it measured nothing"
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        error = said[-1] if said else f"exit code {done.returncode}"
    return Outcome(tuple(map(Row.of, lines)), seconds, load, error)


def outcome(chosen: Run, folder: Path) -> Outcome:
    """Return what is kept of a benchmark, or run it and keep it if it does not fail."""
    name = "".join(letter if letter.isalnum() else "-" for letter in chosen.name)
    kept = folder / f"{name}.json"
    if kept.exists():
        found = json.loads(kept.read_text(encoding="utf-8"))
        rows = tuple(Row.of(json.dumps(row)) for row in found.pop("rows"))
        return Outcome(rows, **found)
    file = folder / f"{name}.rows"
    file.unlink(missing_ok=True)  # of a run that was killed
    made = run(chosen, file)
    file.unlink(missing_ok=True)
    if made.error is None:
        kept.write_text(json.dumps(asdict(made)), encoding="utf-8")
    return made


def table(outcomes: dict[str, Outcome]) -> str:
    """Return the table of some outcomes by the names of their benchmarks."""
    rows: list[Row | Failure] = []
    for name, found in outcomes.items():
        rows += found.rows
        if found.error is not None:
            rows.append(Failure(name, found.error))
    return markdown(rows)


@contextmanager
def place(folder: Path | None) -> Iterator[Path]:
    """Yield the folder that was named, or a temporary one."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="raxalign-bench-") as made:
            yield Path(made)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.absolute()


def main() -> int:
    """Run what was named, print the table; return 1 where a benchmark failed, else 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = list(dict.fromkeys(run.module for run in RUNS))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(known)}")
    parser.add_argument("--rows", type=Path, metavar="FOLDER")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(known)):
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(known)}")
    if given.write and given.names:
        parser.error("--write puts the table of all benchmarks into the page: name none")
    with place(given.rows) as folder:
        outcomes = {
            run.name: outcome(run, folder)
            for run in RUNS
            if not given.names or run.module in given.names
        }
    made = table(outcomes)
    loads = [found.load for found in outcomes.values()]
    about = described(sum(found.seconds for found in outcomes.values()), min(loads), max(loads))
    print(f"\n{about}\n\n{made}")
    if given.write:
        page = ROOT / PAGE
        text = written(page.read_text(encoding="utf-8"), f"{about}\n\n{made}")
        page.write_text(text, encoding="utf-8")
        print(f"\nwritten to {PAGE}")
    return int(any(found.error is not None for found in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
