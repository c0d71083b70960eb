"""MLflow on real databases and servers: once, whatever dies."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections import Counter
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.grid.load import open_grid
from raxalign.grid.trial import Trial
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from raxalign.tracking import recorder as recorder_module
from raxalign.tracking.client import Target, TrackingError
from raxalign.tracking.recorder import Recorder, SeenTrial
from raxalign.tracking.ui import register
from tests.aws import Proxy
from tests.e2e.runs import tracked, wait_for
from tests.grids import write_grid
from tests.tiny import tiny_bert

pytestmark = pytest.mark.slow


WHOLE = {("grid", "FINISHED"): 1, ("trial", "FINISHED"): 2, ("cell", "FINISHED"): 1}
WHOLE[("comparison", "FINISHED")] = 3  # of a method in two languages and in the mean
SCORES = ("", "_pairs", "_stderr", "_to_pivot")


@pytest.fixture
def plan(tmp_path, no_runs):
    """A plan; its tracking database is there, without a run."""
    shutil.copy(no_runs, tmp_path / "mlflow.db")
    return small(tmp_path, methods=("none: {}",))


def small(folder: Path, **parts):
    grid = write_grid(folder, size=300, sentences="[100]", **parts)
    return open_grid(grid, storage=str(folder)).plan


@pytest.fixture
def where(tmp_path) -> Target:
    return target(tmp_path)


@pytest.fixture
def recorder(plan, where) -> Recorder:
    """A writer that the first trial has begun with."""
    recorder = Recorder(plan, where)
    recorder.open()
    recorder.follow([SeenTrial(plan.trials[0], attempts=1)])
    return recorder


@pytest.fixture
def spool(tmp_path, plan) -> Spool:
    """The measurements of that trial."""
    return Spool(Storage(str(tmp_path)), plan.trials[0].key, plan.trials[0].parts)


def fill(root: Path, plan) -> None:
    """Results for every trial, as a grid leaves them."""
    for trial in plan.trials:
        for task, key in trial.evaluations.items():
            same = {"lang": f"{trial.languages[0]}-en", "split": "test", "value": 0.5}
            scores = [{**same, "metric": f"contextual_accuracy{name}"} for name in SCORES]
            record = {"key": key, "task": task, "kind": task, "scores": scores, "device": "cpu"}
            record |= {"params": {}, "notes": {}, "versions": {}}
            Ledger(str(root)).write(key, record, None)
        spool = Spool(Storage(str(root)), trial.key, trial.parts)
        for step in range(1, 4):
            spool.report({"loss": 1.0 / step}, step)
        spool.flush()


def counts(uri: str) -> Counter[tuple[str, str]]:
    return Counter((run["tags"]["raxalign.kind"], run["status"]) for run in tracked(uri, "small"))


def target(root: Path, uri: str | None = None) -> Target:
    return Target(uri or f"sqlite:///{root}/mlflow.db", Storage(str(root)), "name: small")


def trial_run(uri: str, trial: Trial):
    (run,) = (r for r in tracked(uri, "small") if r["tags"].get("raxalign.trial_key") == trial.key)
    return run


def history(uri: str, trial: Trial, metric: str) -> int:
    from mlflow import MlflowClient

    return len(MlflowClient(uri).get_metric_history(trial_run(uri, trial)["id"], metric))


def test_bringing_twice_changes_nothing(tmp_path, plan, where):
    fill(tmp_path, plan)
    assert Recorder.sync(plan, where) == 2
    first = tracked(where.uri, "small")
    assert Recorder.sync(plan, where) == 2
    assert counts(where.uri) == WHOLE
    assert history(where.uri, plan.trials[0], "train/loss") == 3
    assert history(where.uri, plan.trials[0], "retrieval/de-en/contextual_accuracy") == 1
    assert {run["id"] for run in tracked(where.uri, "small")} == {run["id"] for run in first}


def test_a_grid_of_maps_that_are_fitted_after_a_training_alone_is_tracked(tmp_path, no_runs, where):
    shutil.copy(no_runs, tmp_path / "mlflow.db")
    tasks = ("slots: {data: phrasebook, readout: refit}",)
    methods = ("none: {}", "rotation: {}")
    plan = small(tmp_path, languages="{each: [de]}", methods=methods, tasks=tasks)
    fill(tmp_path, plan)
    assert Recorder.sync(plan, where) == 2
    assert counts(where.uri) == {
        **dict.fromkeys(WHOLE, 2),
        ("grid", "FINISHED"): 1,
    }


def test_an_error_of_raxalign_is_not_told_as_the_store_s_and_leaves_nothing_running(
    tmp_path, plan, where, monkeypatch
):
    fill(tmp_path, plan)
    with monkeypatch.context() as patch:
        patch.setattr(recorder_module, "comparisons", lambda *given: {}["gone"])
        with pytest.raises(TrackingError, match=r"a bug in raxalign \(KeyError: ") as raised:
            Recorder.sync(plan, where)
    assert "does not answer" not in str(raised.value)
    assert "RUNNING" not in {status for _, status in counts(where.uri)}
    assert Recorder.sync(plan, where) == 2
    assert {status for _, status in counts(where.uri)} == {"FINISHED"}


def test_a_cell_has_axes_and_main_metrics_alone_and_the_report_lies_with_its_grid(
    tmp_path, plan, where
):
    from mlflow import MlflowClient

    fill(tmp_path, plan)
    page = tmp_path / "report"
    page.mkdir()
    (page / "report.html").write_text("<p>so</p>")
    Recorder.sync(plan, where)
    Recorder(plan, where).keep(page)
    client = MlflowClient(where.uri)
    found = {run["tags"]["raxalign.kind"]: run["id"] for run in tracked(where.uri, "small")}
    cell = client.get_run(found["cell"]).data
    assert cell.params == {"method": "none"}
    assert set(cell.metrics) == {
        f"retrieval/{lang}/contextual_accuracy" for lang in ("de-en", "fr-en", "avg")
    }
    (entry,) = client.list_artifacts(found["grid"], "report")
    assert entry.path == "report/report.html"


def test_no_secret_of_the_grid_file_or_of_an_error_reaches_the_store(tmp_path, plan):
    secret = "run: {tracking_uri: 'http://ann:secret@host'}"
    where = Target(target(tmp_path).uri, Storage(str(tmp_path)), secret)
    failure = {"message": "http://ann:secret@host is down"}
    Ledger(str(tmp_path)).fail(plan.trials[0].run, failure)
    Recorder.sync(plan, where)
    assert trial_run(where.uri, plan.trials[0])["tags"]["raxalign.error"] == (
        "http://***@host is down"
    )
    (kept,) = tmp_path.glob("mlartifacts/**/grid.yaml")
    assert kept.read_text() == secret.replace("ann:secret", "***")


def test_a_stretch_that_a_resumed_training_repeats_is_brought_once(plan, where, recorder, spool):
    for steps in (range(1, 4), range(2, 6)):
        for step in steps:
            spool.report({"loss": 1.0 / step}, step)
        spool.flush()
        recorder.follow([SeenTrial(plan.trials[0])])
    assert history(where.uri, plan.trials[0], "train/loss") == 5


def test_samples_of_the_machine_and_hours_of_cards_are_with_the_run(plan, where, recorder, spool):
    for moment, hours in ((100, 0.25), (200, 0.5)):  # two attempts of two workers
        spool.report({f"{Spool.SYSTEM}cpu_utilization_percentage": 80.0}, moment)
        spool.report({f"{Spool.GPU_HOURS}/0": hours, f"{Spool.GPU_HOURS}/1": hours}, moment)
        spool.flush()
        recorder.follow([SeenTrial(plan.trials[0])])
    run = trial_run(where.uri, plan.trials[0])
    assert run["metrics"] == {"system/cpu_utilization_percentage": 80.0, "gpu_hours": 1.5}
    assert history(where.uri, plan.trials[0], "system/cpu_utilization_percentage") == 2


def test_a_pruned_trial_has_its_curve_and_a_tag_until_it_is_made_whole(
    tmp_path, plan, where, recorder, spool
):
    trial, reason = plan.trials[0], "pruned at step 5 of 15"
    pruned = SeenTrial(trial, pruned=reason)

    def check_pruned():
        run = trial_run(where.uri, trial)
        assert (run["status"], run["tags"]["raxalign.pruned"]) == ("FINISHED", reason)

    spool.report({"xnli/selection": 0.5}, 5)
    spool.flush()
    recorder.take([pruned])
    check_pruned()
    assert history(where.uri, trial, "train/xnli/selection") == 1
    recorder.close()
    Recorder.sync(plan.only(iter(plan.trials[1:])), where, [pruned])
    check_pruned()
    recorder.open()
    fill(tmp_path, plan)
    recorder.take([SeenTrial(trial)])
    assert "raxalign.pruned" not in trial_run(where.uri, trial)["tags"]


def free_port() -> int:
    """A free port below those that the system gives to programs which leave the choice to it: a
    server binds its port seconds later, when such a program would have it.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextmanager
def server(folder: Path, port: int):
    """An MLflow server on this machine, on the database `server.db`; ready when the block begins,
    gone when it ends.
    """
    log, command = folder / "server.log", [sys.executable, "-m", "mlflow", "server"]
    options = {"backend-store-uri": f"sqlite:///{folder}/server.db", "host": "127.0.0.1"}
    options |= {"port": port, "workers": 1, "artifacts-destination": folder / "artifacts"}
    # no processes for jobs that nobody asks for: to start them takes ten seconds of a core
    environ = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with log.open("a") as file:
        process = subprocess.Popen(
            [*command, *(f"--{name}={value}" for name, value in options.items())],
            stderr=file,
            stdout=file,
            start_new_session=True,
            env=environ,
        )
    try:
        wait_for(lambda: answers(port), process, log)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_server_that_is_down_is_told_and_served_later_exactly_once(tmp_path, plan, no_runs):
    shutil.copy(no_runs, tmp_path / "server.db")
    fill(tmp_path, plan)
    port = free_port()
    where = target(tmp_path, f"http://127.0.0.1:{port}")
    with pytest.raises(TrackingError, match="raxalign sync"):
        Recorder.sync(plan, where)
    proxy = Proxy(where.uri)
    # the answer to everything that makes something is lost
    proxy.fault = lambda method, path: -1 if path.endswith("/create") else None
    with server(tmp_path, port), closing(proxy):
        assert Recorder.sync(plan, target(tmp_path, proxy.endpoint)) == 2
        assert counts(where.uri) == WHOLE
        assert Recorder.sync(plan, where) == 2
        assert counts(where.uri) == WHOLE
        assert history(where.uri, plan.trials[0], "retrieval/de-en/contextual_accuracy") == 1
        assert registered_at(where.uri, plan.trials[0], tmp_path).shape == (1, 8)


def registered_at(uri: str, trial: Trial, folder: Path) -> np.ndarray:
    """A vector by an encoder that was registered at a server, as MLflow loads it."""
    import mlflow

    encoder = TransformerEncoder.from_folder(tiny_bert(folder / "tiny", ["a"], hidden=8))
    AlignedEncoder(encoder).export(folder / "export")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID"):  # which MLflow sets itself
            patch.setenv(name, "")
        version = register(folder / "export", trial.key, "mine", Storage(str(folder)), uri)
        return mlflow.sentence_transformers.load_model(f"models:/mine/{version}").encode(["a"])
