"""MLflow: one experiment a grid, a parent run, a child run a trial, and cell runs. The only file
that imports mlflow.

Trials write curves to a spool in the storage; the ledger holds their results. The driver brings
both to MLflow while a grid runs; what it could not bring (a server that is down) `sync` brings
later. Everything is keyed by tags, so bringing twice changes nothing.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raxalign import liveness
from raxalign import run_descriptions as runs
from raxalign.analysis.cells import Cell, cells
from raxalign.errors import DamagedArtifact, RaxalignError
from raxalign.plan.comparisons import Compared, comparisons
from raxalign.plan.plan import Plan
from raxalign.plan.results import rows, with_added
from raxalign.plan.trial import Trial
from raxalign.store.ledger import Ledger
from raxalign.store.lock import turn
from raxalign.store.spool import Spool

BATCH = 900  # MLflow takes at most 1,000 entries in one request
_SQLITE = "sqlite:///"
_DRIVER = "raxalign.driver"


class TrackingError(RaxalignError):
    """The tracking store does not answer; results are safe in the ledger, and `raxalign sync`
    brings them later.
    """


@dataclass(frozen=True)
class Target:
    """Where runs go: a tracking URI, the storage root, and the grid file's text (kept with the
    parent run).
    """

    uri: str
    root: str
    grid_text: str


def default_uri(root: str, local: Path) -> str:
    """The database in the storage, or in the machine's own folder where the storage is an object
    store.
    """
    folder = Path(root) if "://" not in root else local
    return f"{_SQLITE}{folder.absolute()}/mlflow.db"


class Recorder:
    """Brings a plan's trials to MLflow; every call may raise what the client raises, and may be
    repeated.
    """

    def __init__(self, plan: Plan, target: Target) -> None:
        self._plan, self._target = plan, target
        self._ledger = Ledger(target.root)
        self._client = connect(target.uri)
        self._experiment = self._find_experiment()
        self._known: dict[str, Any] = {}
        for run in self._search("tags.`raxalign.key` LIKE '%'"):
            self._keep_first(run)
        self._mine: dict[str, Trial] = {}
        self._brought: set[str] = set()
        self.parent = self._run(runs.grid_run(plan))

    def open(self) -> None:
        """Mark the parent as running by this process, keep the grid and the plan with it, and end
        the runs that a dead driver left running.
        """
        if not held_by_another(self._client.get_run(self.parent)):
            for key, run in self._known.items():
                if run.info.status == "RUNNING" and key.startswith("trial:"):
                    self._client.set_terminated(run.info.run_id, "KILLED")
            self._client.set_tag(self.parent, _DRIVER, liveness.driver_sign())
        self._client.update_run(self.parent, status="RUNNING")
        self._client.log_text(self.parent, self._target.grid_text, "grid.yaml")
        self._client.log_text(self.parent, self._plan.to_json(), "plan.json")

    def beat(self) -> None:
        """Say that the driver lives, and bring the curves of the trials that run."""
        self._client.set_tag(self.parent, _DRIVER, liveness.driver_sign())
        for run_id, trial in self._mine.items():
            self._bring_curves(trial, self._client.get_run(run_id))

    def keep(self, folder: Path) -> None:
        """Put a report's files with the parent run."""
        self._client.log_artifacts(self.parent, str(folder), "report")

    def abandon(self) -> None:
        """End what this process has running, since it ends."""
        for run_id in self._mine:
            self._client.set_terminated(run_id, "KILLED")
        if not held_by_another(self._client.get_run(self.parent)):
            self._client.set_terminated(self.parent, "KILLED")

    def start(self, trial: Trial) -> None:
        """A run for a trial that begins, again where its worker was lost."""
        run_id = self._run(runs.trial_run(self._plan, trial))
        attempt = int(self._client.get_run(run_id).data.tags.get("raxalign.attempt", 0)) + 1
        self._client.set_tag(run_id, "raxalign.attempt", str(attempt))
        self._client.update_run(run_id, status="RUNNING")
        self._mine[run_id] = trial

    def finish(self, trial: Trial, error: str | None) -> None:
        """The results and curves of a trial that ended, each brought once."""
        run_id = self._run(runs.trial_run(self._plan, trial))
        run = self._client.get_run(run_id)
        there = [key for key in trial.evaluations.values() if self._ledger.has(key)]
        records = with_added(self._plan, self._ledger, self._ledger.read_many(there))
        self._bring_results(trial, run, records)
        self._bring_curves(trial, run)
        if error:
            self._client.set_tag(run_id, "raxalign.error", error[:5000])
        elif "raxalign.error" in run.data.tags:
            self._client.delete_tag(run_id, "raxalign.error")
        status = (
            "FAILED"
            if error
            else ("FINISHED" if len(records) == len(set(trial.evaluations.values())) else "KILLED")
        )
        self._mine.pop(run_id, None)
        self._brought.add(trial.key)
        if run.info.status != status:
            self._client.set_terminated(run_id, status)

    def catch_up(self) -> tuple[int, int]:
        """Bring what the ledger has and no driver has brought; returns how many trials have
        results, and how many of all have failed.
        """
        there, counts = self._ledger.keys(), [0, 0]
        for trial in self._plan.trials:
            keys = set(trial.evaluations.values())
            failure = None if there.issuperset(keys) else self._ledger.failure(trial.key)
            counts[0], counts[1] = counts[0] + bool(there & keys), counts[1] + bool(failure)
            known = self._known.get("trial:" + trial.key)
            whole = (
                known is not None
                and known.info.status == "FINISHED"
                and known.data.tags.get("raxalign.results") == runs.results_mark(self._plan, keys)
            )
            if (
                (there & keys or failure)
                and trial.key not in self._brought
                and not (whole and there.issuperset(keys))
            ):
                self.finish(trial, failure["message"] if failure else None)
        return counts[0], counts[1]

    def close(self) -> int:
        """The rest, the cells, and the end of the parent run; returns how many trials have
        results.
        """
        brought, failed = self.catch_up()
        found = cells(rows(self._plan, self._ledger), self._plan.pivot)
        compared = self._compared(found)
        for cell in found:
            run_id = self._run(runs.cell_run(self._plan, cell))
            known = self._client.get_run(run_id)
            self._log(run_id, _fresh(runs.cell_metrics(cell, compared), known))
            if known.info.status != "FINISHED":
                self._client.set_terminated(run_id, "FINISHED")
        for run in self._search(
            "tags.`raxalign.key` LIKE '%'"
        ):  # two drivers that began at once may both have made one
            self._keep_first(run)
        if not held_by_another(self._client.get_run(self.parent)):
            self._client.set_terminated(self.parent, "FAILED" if failed else "FINISHED")
        return brought

    def _compared(self, found: Sequence[Cell]) -> Sequence[Compared]:
        """What tests say of the cells; nothing where predictions are damaged, which a warning
        names: means are brought all the same.
        """
        try:
            return comparisons(found, self._plan, self._ledger)
        except DamagedArtifact as error:
            warnings.warn(str(error), stacklevel=2)
            return []

    def _bring_results(
        self, trial: Trial, run: Any, records: Mapping[str, Mapping[str, Any]]
    ) -> None:
        mark = runs.results_mark(self._plan, records)
        if records and run.data.tags.get("raxalign.results") != mark:
            tags = {"raxalign.results": mark, **runs.provenance_tags(records.values())}
            self._log(run.info.run_id, _fresh(runs.trial_metrics(trial, records), run), tags)

    def _bring_curves(self, trial: Trial, run: Any) -> None:
        """The points beyond the last step that was brought of each curve: a stretch that a resumed
        training repeats is brought once.
        """
        from mlflow.entities import Metric

        brought: dict[str, int] = json.loads(run.data.tags.get("raxalign.curves", "{}"))
        points = [
            point
            for point in Spool(self._target.root, trial.key).read()
            if point[2] > brought.get(point[0], -1)
        ]
        if points:
            last = brought | {name: step for name, _, step, _ in points}
            metrics = [
                Metric(f"train/{name}", value, moment, step) for name, value, step, moment in points
            ]
            self._log(run.info.run_id, metrics, {"raxalign.curves": json.dumps(last)})

    def _log(self, run_id: str, metrics: list[Any], tags: Mapping[str, str] | None = None) -> None:
        """Metrics in batches; the tags with the last, so that they say that all is there."""
        from mlflow.entities import RunTag

        batches = [metrics[first : first + BATCH] for first in range(0, len(metrics), BATCH)] or [
            []
        ]
        for batch in batches:
            marks = [RunTag(*pair) for pair in (tags or {}).items()] if batch is batches[-1] else []
            if batch or marks:
                self._client.log_batch(run_id, metrics=batch, tags=marks)

    def _run(self, wanted: runs.Run) -> str:
        """The run of a key, made where there is none."""
        if wanted.key not in self._known:
            for run in self._search(
                f"tags.`raxalign.key` = '{wanted.key}'"
            ):  # another driver may have made it meanwhile
                self._keep_first(run)
        if wanted.key not in self._known:
            from mlflow.entities import Param

            parent = {} if wanted.kind == "grid" else {"mlflow.parentRunId": self.parent}
            user = os.environ.get("USER", "unknown")
            tags = {
                "raxalign.key": wanted.key,
                "raxalign.kind": wanted.kind,
                "mlflow.user": user,
                **parent,
                **wanted.tags,
            }
            run = self._client.create_run(self._experiment, run_name=wanted.name, tags=tags)
            if wanted.params:
                self._client.log_batch(
                    run.info.run_id,
                    params=[Param(name, value) for name, value in wanted.params.items()],
                )
            self._known[wanted.key] = run
        run_id: str = self._known[wanted.key].info.run_id
        return run_id

    def _keep_first(self, run: Any) -> None:
        """Remember a run; where two have one key, the earlier one stays and the other is deleted,
        by whichever driver sees both.
        """
        key = run.data.tags["raxalign.key"]
        other = self._known.get(key, run)
        first, second = sorted(
            (other, run), key=lambda entry: (entry.info.start_time, entry.info.run_id)
        )
        self._known[key] = first
        if first.info.run_id != second.info.run_id:
            if second.info.status == "RUNNING":
                self._client.set_terminated(second.info.run_id, "KILLED")
            self._client.delete_run(second.info.run_id)

    def _search(self, condition: str) -> Iterator[Any]:
        token = None
        while True:
            page = self._client.search_runs(
                [self._experiment], condition, max_results=1000, page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return

    def _find_experiment(self) -> str:
        uri, name = self._target.uri, self._plan.name
        place = (
            f"{Path(uri.removeprefix(_SQLITE)).parent}/mlartifacts"
            if uri.startswith(_SQLITE)
            else None
        )
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name, artifact_location=place))
            except Exception:
                found = self._client.get_experiment_by_name(
                    name
                )  # another driver may have made it meanwhile
                if found is None:
                    raise
        return str(found.experiment_id)


def _fresh(metrics: Mapping[str, float], run: Any) -> list[Any]:
    """The metrics that a run does not have yet."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    return [
        Metric(name, value, now, 0)
        for name, value in metrics.items()
        if run.data.metrics.get(name) != value
    ]


def held_by_another(parent: Any) -> bool:
    """Whether another living driver runs this grid."""
    return parent.info.status == "RUNNING" and liveness.another_driver_lives(
        parent.data.tags.get(_DRIVER)
    )


def connect(uri: str) -> Any:
    """A client that gives up soon: results are in the ledger, so a server that is down is not worth
    waiting for.
    """
    for name, value in (
        ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1"),
        ("MLFLOW_HTTP_REQUEST_TIMEOUT", "10"),
        ("MLFLOW_DISABLE_TELEMETRY", "true"),
    ):
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    for name in ("mlflow", "alembic", "urllib3"):  # what goes wrong is raised, and told once
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if uri.startswith(_SQLITE):
        _make_database(Path(uri.removeprefix(_SQLITE)))
    return MlflowClient(tracking_uri=uri)


def _make_database(path: Path) -> None:
    """Make the database by one process, and under another name first: half-made tables would be
    taken for an old version for ever.
    """
    if path.exists():
        return
    from mlflow import MlflowClient

    path.parent.mkdir(parents=True, exist_ok=True)
    with turn(path.with_name(f".{path.name}.lock")):
        if path.exists():
            return
        partial = path.with_name(f".{path.name}.new")
        partial.unlink(missing_ok=True)
        MlflowClient(tracking_uri=f"{_SQLITE}{partial}").search_experiments()
        partial.rename(path)


def sync(plan: Plan, target: Target) -> int:
    """Bring everything that the ledger has; returns how many trials have results. Raises
    `TrackingError` where the store does not answer.
    """
    try:
        recorder = Recorder(plan, target)
        recorder.open()
        return recorder.close()
    except Exception as error:
        raise TrackingError(unanswered(target.uri, error)) from error


def keep_report(plan: Plan, target: Target, folder: Path) -> None:
    """Put a report's files with the parent run of the plan's grid. Raises `TrackingError` where the
    store does not answer.
    """
    try:
        recorder = Recorder(plan, target)
        recorder.keep(folder)
    except Exception as error:
        raise TrackingError(unanswered(target.uri, error)) from error


def unanswered(uri: str, error: Exception | None) -> str:
    """What to tell when a tracking store takes nothing."""
    lines = str(error or "").strip().splitlines()
    why = f" ({type(error).__name__}: {lines[0][:200] if lines else ''})" if error else ""
    return (
        f"the tracking store at {uri} does not answer{why}; every result is in the ledger: run"
        " `raxalign sync` when it does"
    )


def end_dead_runs(uri: str) -> int:
    """End the runs of drivers that died, in all experiments; returns how many there were."""
    client, ended = connect(uri), 0
    for experiment in client.search_experiments():
        found: Iterable[Any] = client.search_runs(
            [experiment.experiment_id], "attributes.status = 'RUNNING'", max_results=1000
        )
        running = [run for run in found if "raxalign.kind" in run.data.tags]
        parents = [
            client.get_run(run.data.tags.get("mlflow.parentRunId", run.info.run_id))
            for run in running
        ]
        for run, parent in zip(running, parents, strict=True):
            if not held_by_another(parent):
                client.set_terminated(run.info.run_id, "KILLED")
                ended += 1
    return ended


def serve(root: str, host: str, port: int, uri: str | None = None) -> int:
    """Run the MLflow UI on a storage's runs until it is ended; returns its exit code."""
    uri = uri or default_uri(root, Path(root))
    if uri.startswith(_SQLITE):
        if not Path(uri.removeprefix(_SQLITE)).exists():
            raise RaxalignError(
                f"{uri.removeprefix(_SQLITE)}: no runs are there yet: run a grid first, or name its"
                " storage with --storage"
            )
        end_dead_runs(uri)
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--backend-store-uri",
        uri,
        "--host",
        host,
        "--port",
        str(port),
    ]
    sys.stderr.write(f"MLflow UI: http://{host}:{port} (Ctrl-C ends it)\n")
    try:
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:
        return 0
