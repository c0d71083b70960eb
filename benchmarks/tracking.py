"""Trials per second that reach MLflow: 20 metrics, params, tags and a curve of 20 points each, the
most that a run has.

Three paths: `close` copies a whole grid after the fact, as `raxalign sync` does; the live path
copies what began and ended since its last turn, as a driver does; `one by one` is the live path of
trials so long that each begins and ends alone. `bare` is what `close` is compared with: a call of
MLflow's client each to make a run, to write the same numbers, and to end it. With `--server` a real
MLflow server on SQLite takes them, else the database itself, which is made before the clock runs.
Run it in two checkouts to compare two versions. Budget: `close` takes at most 1.2 times the
core-seconds of `bare`. All paths run in turn, each round into a store of its own, and the best
round of each counts.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.table import ROUNDS, Row, at_most, show, spread
from raxalign.grid.load import open_grid
from raxalign.grid.plan import Plan
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from raxalign.sweep.events import Began, JobEnded
from raxalign.sweep.tracker import Tracker
from raxalign.tracking.client import Target
from raxalign.tracking.recorder import Recorder, SeenTrial
from raxalign.tracking.runs import PlanRuns

GRID = """
name: tracked
encoder: {{kind: scratch}}
languages: {{each: [de]}}
corpus: {{source: phrasebook, size: 400, split: {{test: 30, dev: 30}}}}
pairs: {{aligner: fast_align}}
sentences: [100]
seeds: [{seeds}]
methods: {{finetune: {{}}}}
tasks: {{retrieval: {{}}}}
"""
METRICS, POINTS = 20, 20
SHARE = 1.2  # times the calls alone
BARE, AFTER, LIVE, ALONE = PATHS = ("bare", "close", "live", "one by one")
CALLS = ("create_run", "log_batch", "log_inputs", "set_terminated", "update_run", "delete_tag")


def fill(folder: Path, trials: int) -> Plan:
    """Write a grid of so many trials with made-up results and curves; return its plan."""
    path = folder / "grid.yaml"
    path.write_text(GRID.format(seeds=", ".join(map(str, range(trials)))), encoding="utf-8")
    plan = open_grid(path, storage=str(folder)).plan
    ledger = Ledger(str(folder))
    for number, trial in enumerate(plan.trials):
        scores = [
            {"lang": "de-en", "metric": f"m{i}", "split": "test", "value": number / 1e4 + i}
            for i in range(METRICS)
        ]
        facts = {"params": {}, "notes": {}, "device": "cpu", "versions": {"torch": "2"}}
        for key in trial.evaluations.values():
            ledger.write(key, {"scores": scores, **facts}, None)
        spool = Spool(Storage(str(folder)), trial.key, trial.parts)
        for step in range(1, POINTS + 1):
            spool.report({"finetune/loss": 1.0 / step}, step)
        spool.flush()
    return plan


def measure(path: str, trials: int, *, server: bool) -> float:
    """Print the speed of one path, and the requests that it sends for each trial; return
    core-seconds per 1,000 trials.
    """
    from mlflow import MlflowClient

    with tempfile.TemporaryDirectory() as place, _store(Path(place), server=server) as uri:
        plan = fill(Path(place), trials)
        target = Target(uri, Storage(place), "name: tracked")
        MlflowClient(uri).search_experiments()  # makes the tables of a new database
        with _counted() as requests:
            begun, used = time.monotonic(), time.process_time()
            _bring(path, plan, target)
            wall, cpu = time.monotonic() - begun, time.process_time() - used
    print(
        f"{path}: {trials} trials in {wall:.1f} s, {trials / wall:.1f} trials/s;"
        f" {1000 * cpu / trials:.1f} CPU-s per 1,000 trials; {requests[0] / trials:.1f} requests"
        " per trial",
        flush=True,
    )
    return 1000 * cpu / trials


def _bring(path: str, plan: Plan, target: Target) -> None:
    if path == BARE:
        _write(plan, target)
        return
    if path == LIVE:
        tracker = Tracker(plan, target)
        for trial in plan.trials:
            tracker.hear(Began(trial))
            tracker.hear(JobEnded(trial))
        if message := tracker.close():
            raise SystemExit(message)
        return
    recorder = Recorder(plan, target)
    recorder.open()
    if path == ALONE:
        for trial in plan.trials:
            recorder.take([SeenTrial(trial, attempts=1)])
    recorder.close()


def _write(plan: Plan, target: Target) -> None:
    """Write a run for each trial by MLflow's client alone."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

    client = MlflowClient(target.uri)
    experiment = client.create_experiment("bare")
    for trial in plan.trials:
        wanted, now = PlanRuns(plan).trial(trial), int(time.time() * 1000)
        run = client.create_run(experiment, run_name=wanted.name, tags=dict(wanted.tags))
        points = Spool(target.storage, trial.key, trial.parts).read()
        metrics = [Metric(f"m{i}", i, now, 0) for i in range(METRICS)]
        metrics += [Metric(name, value, moment, step) for name, value, step, moment in points]
        params = [Param(*pair) for pair in wanted.params.items()]
        tags = [RunTag(f"tag{i}", str(i)) for i in range(6)]
        client.log_batch(run.info.run_id, metrics=metrics, params=params, tags=tags)
        client.set_terminated(run.info.run_id)


@contextmanager
def _store(folder: Path, *, server: bool) -> Iterator[str]:
    """Yield the address of a tracking store, which is a server on this machine where that was
    chosen.
    """
    database = f"sqlite:///{folder}/mlflow.db"
    if not server:
        yield database
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", database]
    command += ["--artifacts-destination", f"{folder}/artifacts", "--workers", "1"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    log = (folder / "server.log").open("w")
    process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        while not _answers(port):
            if process.poll() is not None:
                raise SystemExit((folder / "server.log").read_text())
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        log.close()


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def _counted() -> Iterator[list[int]]:
    """Count the requests of MLflow's client during the block: to a server, or to its store."""
    from mlflow import MlflowClient

    names = (*CALLS, "search_runs", "get_run", "get_experiment", "set_experiment_tag")
    real, count = {name: getattr(MlflowClient, name) for name in names}, [0]

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            count[0] += 1
            return call(*args, **kwargs)

        return counted

    for name, call in real.items():
        setattr(MlflowClient, name, counting(call))
    try:
        yield count
    finally:
        for name, call in real.items():
            setattr(MlflowClient, name, call)


def main() -> None:
    """Measure all paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--server", action="store_true", help="through a server on this machine")
    parser.add_argument("--path", choices=PATHS, action="append", help="default: all")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    found: dict[str, list[float]] = {path: [] for path in arguments.path or PATHS}
    measure(AFTER, 1, server=arguments.server)  # loads all libraries
    for _ in range(arguments.rounds):  # in turn, so that other load falls on all alike
        for path, used in found.items():
            used.append(measure(path, arguments.trials, server=arguments.server))
    for path, used in found.items():
        store = "a server" if arguments.server else "SQLite"
        what = f"MLflow, `{path}` of {arguments.trials:,} trials"
        show(Row(f"{what}: 1,000 trials", min(used), None, spread(used), store, "core-s"))
        if path == AFTER and BARE in found:
            ratio, noise = min(used) / min(found[BARE]), spread(used, found[BARE])
            show(Row(f"{what}: time", ratio, at_most(SHARE), noise, "MLflow's calls alone"))


if __name__ == "__main__":
    main()
