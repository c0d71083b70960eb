"""Grids as a user runs them: other processes, real signals, and what they leave behind."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import pytest

from raxalign import cli
from raxalign.grid.load import open_grid
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from raxalign.tracking.client import Client
from raxalign.values.results import rows

LIMIT = 600.0  # seconds after which a run hangs: on two busy cores some take four minutes
TOKEN = {"RAY_AUTH_MODE": "token"}


@dataclass(frozen=True)
class Site:
    """A grid file and its storage. `run` joins the Ray at an address, where one is given."""

    grid: Path
    storage: Path
    address: str = ""

    @property
    def plan(self) -> Plan:
        return open_grid(self.grid, storage=str(self.storage)).plan

    @property
    def ledger(self) -> Ledger:
        return Ledger(str(self.storage))

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.storage}/mlflow.db"

    def run(
        self, *arguments: str, command: str = "grid", code: int | None = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """A command, to its end. Its exit code is `code`, unless that is None; an error is
        reported without a traceback.
        """
        joined = self.address and command == "grid"
        done = subprocess.run(
            self.command(command, *arguments, *(self._joining if joined else ())),
            env=self.environment({**(TOKEN if joined else {}), **environment}),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert code in (None, done.returncode), done.stderr
        assert code == 0 or "Traceback" not in done.stderr
        return done

    def look(self, command: str, *arguments: str, code: int = 0, **environment: str) -> str:
        """What a command prints that runs no trial, in this process; where its exit code is to be
        another than 0, its errors.
        """
        ended: object = 0
        with (
            patch.dict(os.environ, self.environment(environment), clear=True),
            patch.object(sys, "argv", self.command(command, *arguments)[2:]),
            redirect_stdout(io.StringIO()) as out,
            redirect_stderr(io.StringIO()) as told,
        ):
            try:
                cli.main()
            except SystemExit as end:
                ended = end.code or 0
        assert ended == code, out.getvalue() + told.getvalue()
        return told.getvalue() if code else out.getvalue()

    @contextmanager
    def running(
        self, *, joins: bool = False, said: IO[str] | None = None, **environment: str
    ) -> Iterator[subprocess.Popen[str]]:
        """`grid` in a process group of its own; what is left of it in the end is killed. It has a
        Ray of its own, which can be disturbed too, unless it `joins` the one at the address. What
        it says goes into a pipe, or into the file `said`.
        """
        process = subprocess.Popen(
            self.command("grid", *(self._joining if joins else ())),
            env=self.environment({**(TOKEN if joins else {}), **environment}),
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

    @property
    def _joining(self) -> tuple[str, ...]:
        return ("--address", self.address)

    def command(self, command: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "raxalign", command, str(self.grid), *arguments]

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        others = ("MLFLOW_TRACKING_URI", "RAY_AUTH_MODE")
        kept = {name: value for name, value in os.environ.items() if name not in others}
        return {**kept, "RAXALIGN_STORAGE": str(self.storage), **more}

    @property
    def root(self) -> str:
        return str(self.storage)

    def results(self) -> list[dict[str, Any]]:
        """The rows of `raxalign results --format json`."""
        opened = open_grid(self.grid, storage=self.root)
        return rows(opened.plan, opened.storage.ledger)

    def report(self, file: str) -> str:
        """A file of the report, which is written next to the grid; figures are for its page."""
        from tests.report.material import leave_undrawn

        with pytest.MonkeyPatch.context() as patch:
            if not file.endswith(".html"):
                leave_undrawn(patch)
            self.look("report")
        return (self.grid.parent / f"{self.plan.name}-report" / file).read_text(encoding="utf-8")

    def keys(self) -> set[str]:
        return {key for trial in self.plan.trials for key in trial.evaluations.values()}

    def entries(self) -> dict[str, int]:
        """Key -> when its entry was written."""
        return {
            path.parent.name: path.stat().st_mtime_ns
            for path in self.storage.glob("ledger/*/evaluation.json")
        }

    def checkpoints(self) -> list[Path]:
        return list(self.storage.glob("checkpoints/*/*/step-*/state.json"))

    def copy(self, folder: Path) -> Site:
        """The same grid on a copy of the storage, with tracking of its own."""
        shutil.copytree(
            self.storage,
            folder / "storage",
            ignore=shutil.ignore_patterns("mlflow.db*", "mlartifacts", "tracked"),
        )
        return Site(self.grid, folder / "storage", self.address)

    def forget(self, method: str) -> None:
        self.forget_trials(trial for trial in self.plan.trials if trial.method == method)

    def forget_trials(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            for key in trial.evaluations.values():
                shutil.rmtree(self.storage / "ledger" / key)
            made = self.storage / "artifacts" / "aligned" / trial.aligned[:2] / trial.aligned
            shutil.rmtree(made, ignore_errors=True)

    def tracked(self, uri: str = "") -> list[dict[str, object]]:
        """Its runs at a tracking store, or in its own database."""
        return tracked(uri or self.uri, self.plan.name)

    def statuses(self) -> set[object]:
        return {run["status"] for run in self.tracked()}

    def check_tracking(self, uri: str = "") -> None:
        """One run per trial below that of its cell, none running, and all values of the ledger."""
        plan, runs = self.plan, self.tracked(uri)
        kinds = Counter(run["tags"]["raxalign.kind"] for run in runs)
        assert (kinds["grid"], kinds["trial"]) == (1, len(plan.trials))
        assert {run["status"] for run in runs} == {"FINISHED"}
        cells = [run for run in runs if run["tags"]["raxalign.kind"] == "cell"]
        method_of = {run["id"]: run["params"]["method"] for run in cells}
        trials = [run for run in runs if run["tags"]["raxalign.kind"] == "trial"]
        by_trial = {run["tags"]["raxalign.trial_key"]: run for run in trials}
        assert set(by_trial) == set(plan.by_key)
        for run in trials:
            assert method_of[run["tags"]["mlflow.parentRunId"]] == run["params"]["method"]
        for row in self.results():
            if row["split"] == "test":
                name = f"{row['task']}/{row['lang']}/{row['metric']}"
                assert by_trial[row["trial"]]["metrics"][name] == pytest.approx(row["value"])


def undisturbed(site: Site) -> Site:
    """The grid on a local storage, its trials run one after the other as a worker runs them."""
    assert without_ray(site) == []
    return site


def without_ray(site: Site) -> list[str]:
    """Run its trials likewise; returns the messages of those that failed."""
    return [*attempted(site.plan, Storage(site.root)).values()]


def attempted(plan: Plan, storage: Storage) -> dict[str, str]:
    """Run trials likewise; returns the messages of those that failed, by their keys."""
    from raxalign.grid.stored import StoredPlans
    from raxalign.sweep.job import Job
    from raxalign.sweep.work import attempt

    job = Job(storage, StoredPlans(storage).write(plan))
    with patch.dict(os.environ):  # a worker limits its threads
        ends = {trial.key: attempt(job, trial.key) for trial in plan.trials}
    return {key: message for key, message in ends.items() if message is not None}


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
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(entry.name)) == process.pid:
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
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
    client = Client(uri)
    found = client.get_experiment_by_name(experiment).experiment_id
    return [
        {
            "id": run.info.run_id,
            "status": run.info.status,
            **{name: dict(getattr(run.data, name)) for name in ("tags", "metrics", "params")},
        }
        for run in client.search_runs([found], max_results=1000)
    ]
