"""MLflow: one experiment a grid, a parent run, a child run a trial, and cell runs. The only file that imports mlflow.

Trials write curves to a spool in the storage; the ledger holds their results. One thread in the driver brings both to MLflow; what it could
not bring (a server that is down) `sync` brings later. Everything is keyed by tags, so bringing twice changes nothing.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raxalign.analysis.cells import Cell, cells
from raxalign.errors import RaxalignError
from raxalign.plan.plan import Plan
from raxalign.plan.results import metric_name, rows, trial_rows
from raxalign.plan.trial import Trial
from raxalign.provenance import commit
from raxalign.store.key import digest
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool

BATCH = 900  # MLflow takes at most 1,000 entries in one request


class TrackingError(RaxalignError):
    """The tracking server does not answer; results are safe in the ledger, and `raxalign sync` brings them later."""


@dataclass(frozen=True)
class Target:
    """Where runs go: a tracking URI, the storage root, and the grid file's text (kept with the parent run)."""

    uri: str
    root: str
    grid_text: str


def default_uri(root: str, local: Path) -> str:
    """The database in the storage, or in the machine's own folder where the storage is an object store."""
    folder = Path(root) if "://" not in root else local
    return f"sqlite:///{folder.absolute()}/mlflow.db"


class Recorder:
    """Brings a plan's trials to MLflow; every call may raise what the client raises, and may be repeated."""

    def __init__(self, plan: Plan, target: Target) -> None:
        self._plan, self._target = plan, target
        self._ledger = Ledger(target.root)
        self._client = _client(target.uri)
        self._experiment = self._find_experiment()
        self._known = {run.data.tags.get("raxalign.key", ""): run for run in self._runs("tags.`raxalign.key` LIKE '%'")}
        self.parent = self._run("grid:" + plan.name, "grid", plan.name, {"mlflow.source.name": "raxalign"}, None)

    def open(self) -> None:
        """Mark the parent as running by this process, keep the grid and the plan with it, and end the runs that a dead driver left running."""
        if not self._held_by_another():
            for key, run in self._known.items():
                if run.info.status == "RUNNING" and key.startswith("trial:"):
                    self._client.set_terminated(run.info.run_id, "KILLED")
        self._client.update_run(self.parent, status="RUNNING")
        self.beat()
        self._client.log_text(self.parent, self._target.grid_text, "grid.yaml")
        self._client.log_text(self.parent, self._plan.to_json(), "plan.json")

    def beat(self) -> None:
        """Say that the driver lives."""
        self._client.set_tag(self.parent, "raxalign.driver", json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "at": time.time()}))

    def _held_by_another(self) -> bool:
        """Whether another living driver runs this grid."""
        driver = json.loads(self._client.get_run(self.parent).data.tags.get("raxalign.driver", "null"))
        if not driver or (driver["host"], driver["pid"]) == (socket.gethostname(), os.getpid()):
            return False
        if driver["host"] != socket.gethostname():
            return bool(time.time() - driver["at"] < 300)
        return Path(f"/proc/{driver['pid']}").exists() if Path("/proc").exists() else False

    def abandon(self) -> None:
        """End what is running, since its driver ends."""
        for run in self._runs("attributes.status = 'RUNNING'"):
            self._client.set_terminated(run.info.run_id, "KILLED")

    def start(self, trial: Trial) -> None:
        """A run for a trial that begins."""
        self._client.update_run(self._trial_run(trial), status="RUNNING")

    def finish(self, trial: Trial, error: str | None) -> None:
        """The results and curves of a trial that ended, each brought once."""
        run_id = self._trial_run(trial)
        run = self._client.get_run(run_id)
        records = self._ledger.read_many([key for key in trial.evaluations.values() if self._ledger.has(key)])
        self._bring_results(trial, run, records)
        self._bring_curves(trial, run)
        if error:
            self._client.set_tag(run_id, "raxalign.error", error[:5000])
        status = "FAILED" if error else ("FINISHED" if len(records) == len(set(trial.evaluations.values())) else "KILLED")
        self._client.set_terminated(run_id, status)

    def _bring_results(self, trial: Trial, run: Any, records: Mapping[str, Mapping[str, Any]]) -> None:
        mark = digest(sorted(records))
        if not records or run.data.tags.get("raxalign.results") == mark:
            return
        from mlflow.entities import Metric, RunTag

        now = int(time.time() * 1000)
        found = {metric_name(row["task"], row["lang"], row["metric"], row["split"]): row["value"] for row in trial_rows(trial, records)}
        fresh = {name: value for name, value in found.items() if run.data.metrics.get(name) != value}
        metrics = [Metric(name, value, now, 0) for name, value in fresh.items()]
        tags = {"raxalign.results": mark, **_provenance(records.values())}
        for first in range(0, max(len(metrics), 1), BATCH):
            last = first + BATCH >= len(metrics)
            self._client.log_batch(
                run.info.run_id, metrics=metrics[first : first + BATCH], tags=[RunTag(*pair) for pair in tags.items()] if last else []
            )

    def _bring_curves(self, trial: Trial, run: Any) -> None:
        points = Spool(self._target.root, trial.key).read()
        done = int(run.data.tags.get("raxalign.curve_points", 0))
        if len(points) <= done:
            return
        from mlflow.entities import Metric, RunTag

        for first in range(done, len(points), BATCH):
            part = points[first : first + BATCH]
            metrics = [Metric(f"train/{name}", value, moment, step) for name, value, step, moment in part]
            self._client.log_batch(run.info.run_id, metrics=metrics, tags=[RunTag("raxalign.curve_points", str(first + len(part)))])

    def close(self, failed: int) -> None:
        """The cells, and the end of the parent run."""
        for cell in cells(rows(self._plan, self._ledger), self._plan.pivot):
            self._bring_cell(cell)
        self._client.set_terminated(self.parent, "FAILED" if failed else "FINISHED")

    def _bring_cell(self, cell: Cell) -> None:
        from mlflow.entities import Metric

        params = _shown_params(self._plan, cell.method, cell.params, cell.encoder)
        if cell.sentences is not None:
            params["sentences"] = str(cell.sentences)
        name = " ".join([cell.method, *(f"{key}={value}" for key, value in params.items() if key != "method")])
        run_id = self._run("cell:" + digest([cell.method, cell.params, cell.encoder, cell.sentences]), "cell", name, {}, params)
        known = self._client.get_run(run_id).data.metrics
        metrics = {}
        for (task, lang, metric, split), value in cell.values.items():
            metrics[metric_name(task, lang, metric, split)] = value.mean
            if value.half_width is not None:
                metrics[metric_name(task, lang, metric, split) + "_ci95"] = value.half_width
        fresh = [Metric(key, value, int(time.time() * 1000), 0) for key, value in metrics.items() if known.get(key) != value]
        for first in range(0, len(fresh), BATCH):
            self._client.log_batch(run_id, metrics=fresh[first : first + BATCH])
        self._client.set_terminated(run_id, "FINISHED")

    def _trial_run(self, trial: Trial) -> str:
        params = _shown_params(self._plan, trial.method, trial.params, trial.encoder)
        params["languages"] = " ".join(trial.languages)
        params |= {name: str(value) for name, value in (("sentences", trial.sentences), ("seed", trial.seed)) if value is not None}
        name = " ".join([trial.method, *(f"{key}={value}" for key, value in params.items() if key != "method")])
        return self._run("trial:" + trial.key, "trial", name, {"raxalign.trial_key": trial.key, **_code()}, params)

    def _run(self, key: str, kind: str, name: str, tags: Mapping[str, str], params: Mapping[str, str] | None) -> str:
        """The run of a key, made where there is none."""
        if key not in self._known:
            from mlflow.entities import Param

            parent = {} if kind == "grid" else {"mlflow.parentRunId": self.parent}
            every = {"raxalign.key": key, "raxalign.kind": kind, "mlflow.user": os.environ.get("USER", "unknown"), **parent, **tags}
            run = self._client.create_run(self._experiment, run_name=name[:250], tags=every)
            if params:
                self._client.log_batch(run.info.run_id, params=[Param(key, value) for key, value in params.items()])
            self._known[key] = run
        run_id: str = self._known[key].info.run_id
        return run_id

    def _runs(self, condition: str) -> Iterable[Any]:
        token = None
        while True:
            page = self._client.search_runs([self._experiment], condition, max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _find_experiment(self) -> str:
        found = self._client.get_experiment_by_name(self._plan.name)
        if found is not None:
            return str(found.experiment_id)
        uri = self._target.uri
        place = f"{Path(uri.removeprefix('sqlite:///')).parent}/mlartifacts" if uri.startswith("sqlite:///") else None
        return str(self._client.create_experiment(self._plan.name, artifact_location=place))


def _client(uri: str) -> Any:
    """A client that gives up soon: results are in the ledger, so a server that is down is not worth waiting for."""
    for name, value in (("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1"), ("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")):
        os.environ.setdefault(name, value)
    if uri.startswith("sqlite:///"):
        Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


def _shown_params(plan: Plan, method: str, params: Mapping[str, Any], encoder: str) -> dict[str, str]:
    """The axes of the grid, flat: what is no axis of it would only crowd the comparison."""
    axes = plan.axes.get(method, ())
    shown = {"method": method, "encoder": encoder}
    return shown | {name: str(params[name]) for name in axes if name in params}


def _code() -> dict[str, str]:
    return {f"raxalign.{name}": value for name, value in commit().items()}


def _provenance(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Tags that say where results came from."""
    tags: dict[str, str] = {}
    for record in records:
        tags["raxalign.device"] = str(record["device"])
        tags["raxalign.versions"] = json.dumps(record["versions"], sort_keys=True)
        tags["raxalign.links"] = json.dumps(record["notes"].get("links", {}), sort_keys=True)[:5000]
    return tags


def sync(plan: Plan, target: Target) -> int:
    """Bring everything that the ledger has; returns how many trials have results. Raises `TrackingError` where the server is down."""
    ledger = Ledger(target.root)
    there = ledger.keys()
    brought = 0
    try:
        recorder = Recorder(plan, target)
        recorder.open()
        for trial in plan.trials:
            failure = ledger.failure(trial.key)
            if there.intersection(trial.evaluations.values()) or failure:
                recorder.finish(trial, failure["message"] if failure else None)
                brought += 1
        recorder.close(0)
    except Exception as error:
        raise _down(target.uri, error) from error
    return brought


def _down(uri: str, error: Exception) -> TrackingError:
    return TrackingError(
        f"the tracking server at {uri} does not answer ({type(error).__name__}); results are in the ledger: run `raxalign sync` later"
    )


class Tracker:
    """The driver's one logger: a thread that brings what happens to MLflow, and lets a server that is down stop nothing.

    After a failure it waits (10 s, doubling to 5 minutes) before it tries again; what was missed meanwhile is brought at the end.
    """

    def __init__(self, plan: Plan, target: Target) -> None:
        self._plan, self._target = plan, target
        self._events: queue.Queue[tuple[str, Trial | None, str | None]] = queue.Queue()
        self._recorder: Recorder | None = None
        self._retry_at, self._pause, self.missed = 0.0, 10.0, 0
        self._thread = threading.Thread(target=self._work, name="raxalign-tracker", daemon=True)
        self._thread.start()

    def start(self, trial: Trial) -> None:
        """A trial began."""
        self._events.put(("start", trial, None))

    def finish(self, trial: Trial, error: str | None) -> None:
        """A trial ended."""
        self._events.put(("finish", trial, error))

    def close(self, failed: int, *, wait: float = 120.0) -> str | None:
        """Bring the rest and end; returns a message where something stays behind for `raxalign sync`."""
        self._events.put(("close", None, str(failed)))
        self._thread.join(wait)
        if self._thread.is_alive() or self.missed:
            return f"the tracking server at {self._target.uri} does not answer: run `raxalign sync` when it does"
        return None

    def abandon(self) -> None:
        """End at once after an interruption: what still runs is marked as killed."""
        self._events.put(("abandon", None, None))
        self._thread.join(15.0)

    def _work(self) -> None:
        self._try(None, None, None)
        beaten = time.monotonic()
        while True:
            try:
                event, trial, text = self._events.get(timeout=60.0)
            except queue.Empty:
                event, trial, text = "beat", None, None
            if event == "close":
                self._finish_up(int(text or 0))
                return
            if event == "abandon":
                self._try(event, None, None)
                return
            self._try(event, trial, text)
            if time.monotonic() - beaten > 60.0:
                self._try("beat", None, None)
                beaten = time.monotonic()

    def _try(self, event: str | None, trial: Trial | None, text: str | None) -> None:
        if time.monotonic() < self._retry_at:
            self.missed += event in {"start", "finish"}
            return
        try:
            recorder = self._open()
            if event == "start" and trial:
                recorder.start(trial)
            elif event == "finish" and trial:
                recorder.finish(trial, text)
            elif event == "beat":
                recorder.beat()
            elif event == "abandon":
                recorder.abandon()
            self._pause = 10.0
        except Exception:  # noqa: BLE001 whatever the client raises, tracking must not stop a grid; the end of the grid tries again and tells
            self.missed += event in {"start", "finish"}
            self._retry_at = time.monotonic() + self._pause
            self._pause = min(self._pause * 2, 300.0)

    def _open(self) -> Recorder:
        if self._recorder is None:
            recorder = Recorder(self._plan, self._target)
            recorder.open()
            self._recorder = recorder
        return self._recorder

    def _finish_up(self, failed: int) -> None:
        try:
            if self.missed or self._recorder is None:
                sync(self._plan, self._target)
                self._open().close(failed)
            else:
                self._recorder.close(failed)
            self.missed = 0
        except Exception:  # noqa: BLE001 the message of `close` tells the user what to do
            self.missed += 1


def serve(root: str, host: str, port: int, uri: str | None = None) -> int:
    """Run the MLflow UI on a storage's runs until it is ended; returns its exit code."""
    uri = uri or default_uri(root, Path(root))
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists():
        raise RaxalignError(f"{uri.removeprefix('sqlite:///')}: no runs are there yet: run a grid first, or name its storage with --storage")
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--host", host, "--port", str(port)]
    sys.stderr.write(f"MLflow UI: http://{host}:{port} (Ctrl-C ends it)\n")
    try:
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:
        return 0
