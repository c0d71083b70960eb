"""Grids as a user runs them: other processes, real signals, and what they leave behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from raxalign.plan.load import open_grid
from raxalign.plan.plan import Plan
from raxalign.store.ledger import Ledger
from raxalign.tracking.client import connect

LIMIT = 600.0  # seconds after which a run hangs: on two busy cores some take four minutes


@dataclass(frozen=True)
class Site:
    """A grid file and its storage."""

    grid: Path
    storage: Path

    @property
    def plan(self) -> Plan:
        return open_grid(self.grid, storage=str(self.storage)).plan

    @property
    def ledger(self) -> Ledger:
        return Ledger(str(self.storage))

    def run(
        self, *arguments: str, command: str = "grid", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """A command, to its end."""
        return subprocess.run(
            self.command(command, *arguments),
            env=self.environment(environment),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    @contextmanager
    def running(
        self, *arguments: str, said: IO[str] | None = None, **environment: str
    ) -> Iterator[subprocess.Popen[str]]:
        """`grid` in a process group of its own; what is left of it in the end is killed. What it
        says goes into a pipe, or into the file `said`.
        """
        process = subprocess.Popen(
            self.command("grid", *arguments),
            env=self.environment(environment),
            stdout=said or subprocess.PIPE,
            stderr=said or subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            kill_all(process)
            process.communicate()

    def command(self, command: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "raxalign", command, str(self.grid), *arguments]

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        return {**kept, "RAXALIGN_STORAGE": str(self.storage), **more}

    def results(self, **environment: str) -> list[dict[str, object]]:
        done = self.run("--format", "json", command="results", **environment)
        assert done.returncode == 0, done.stderr
        rows: list[dict[str, object]] = json.loads(done.stdout)
        return rows

    def entries(self) -> dict[str, int]:
        """Key -> when its entry was written."""
        return {
            path.parent.name: path.stat().st_mtime_ns
            for path in self.storage.glob("ledger/*/evaluation.json")
        }

    def copy(self, folder: Path) -> Site:
        """The same grid on a copy of the storage, with tracking of its own."""
        shutil.copytree(
            self.storage,
            folder / "storage",
            ignore=shutil.ignore_patterns("mlflow.db*", "mlartifacts", "tracked"),
        )
        return Site(self.grid, folder / "storage")

    def forget(self, method: str, lang: str | None = None) -> list[str]:
        """Remove the results and aligned encoders of a method, or of its trials in one language;
        returns the evaluations that have to be made again.
        """
        plan = self.plan
        gone = [
            (trial.aligned, key)
            for trial in plan.trials
            if trial.method == method and lang in {None, *trial.languages}
            for key in trial.evaluations.values()
        ]
        for aligned, key in gone:
            shutil.rmtree(self.storage / "ledger" / key)
            shutil.rmtree(
                self.storage / "artifacts" / "aligned" / aligned[:2] / aligned, ignore_errors=True
            )
        return [key for _, key in gone]


def signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """A signal to a process and all that it started."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def read_until(stream: IO[str], wanted: str) -> str:
    """What a process says up to and with the line that holds a text."""
    said = ""
    for line in stream:
        said += line
        if wanted in line:
            return said
    raise AssertionError(f"{wanted!r} was never said:\n{said}")


def wait_for(
    found: Callable[[], object], process: subprocess.Popen[str], log: Path | None = None
) -> None:
    """Until something holds; the process must live so long (what it said is in the log, or in its
    stderr).
    """
    end = time.monotonic() + LIMIT
    while not found():
        if process.poll() is not None:
            said = log.read_text() if log else process.stderr.read() if process.stderr else ""
            raise AssertionError(f"ended with {process.returncode}: {said}")
        assert time.monotonic() < end, "never came"
        time.sleep(0.02)


def session(process: subprocess.Popen[str]) -> dict[int, str]:
    """All processes that a grid started, Ray's included (they have process groups of their own): id
    -> command line.
    """
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getsid(int(entry.name)) == process.pid:
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
    return found


def kill_all(process: subprocess.Popen[str]) -> None:
    """What a machine that loses its power does to a grid."""
    for pid in (process.pid, *session(process)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def ray_workers(process: subprocess.Popen[str], title: str) -> list[int]:
    """The Ray workers that a process's cluster runs, by what they show as their title."""
    return [
        pid
        for pid, command in session(process).items()
        if command.startswith("ray::") and title in command
    ]


def tracked(uri: str, experiment: str) -> list[dict[str, object]]:
    """The runs of an experiment: tags, metrics, params, status."""
    client = connect(uri)
    found = client.get_experiment_by_name(experiment).experiment_id
    return [
        {
            "id": run.info.run_id,
            "status": run.info.status,
            **{name: dict(getattr(run.data, name)) for name in ("tags", "metrics", "params")},
        }
        for run in client.search_runs([found], max_results=1000)
    ]
