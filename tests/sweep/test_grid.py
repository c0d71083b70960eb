"""The main job around Ray: where runs go, and what is not copied twice."""

import signal
import threading
from pathlib import Path

import pytest

from raxalign.grid.load import open_grid
from raxalign.store.alive import maker_name
from raxalign.sweep import grid
from raxalign.sweep.grid import run_whole
from raxalign.sweep.tracker import TrackedGrid
from raxalign.tracking.client import TrackingError
from raxalign.tracking.recorder import Recorder
from tests.grids import write_grid


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return open_grid(write_grid(tmp_path), storage=str(tmp_path / "storage"))


def fill(opened):
    ledger = opened.storage.ledger
    for trial in opened.plan.trials:
        for key in trial.evaluations.values():
            ledger.write(key, {"scores": [], "notes": {}}, None)


def test_runs_go_to_the_storage_or_to_the_server_of_the_environment(opened, tmp_path, monkeypatch):
    assert TrackedGrid(opened).target.uri == f"sqlite:///{tmp_path}/storage/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server")
    again = open_grid(opened.grid.path, storage=opened.root)
    found = TrackedGrid(again).target
    assert (found.uri, found.storage.root) == ("http://server", opened.root)
    assert found.grid_text == Path(opened.grid.path).read_text()


def test_a_whole_grid_is_brought_once_and_a_part_again(opened, tmp_path, monkeypatch):
    brought = []
    monkeypatch.setattr(Recorder, "sync", lambda plan, target, pruned: brought.append(target.uri))
    assert TrackedGrid(opened).finish(opened.plan) == []
    assert TrackedGrid(opened).finish(opened.plan) == []
    assert len(brought) == 2
    fill(opened)
    for _ in range(3):
        assert TrackedGrid(opened).finish(opened.plan) == []
    assert len(brought) == 3


def test_a_store_that_is_down_is_a_message_and_is_tried_again(opened, monkeypatch):
    def down(plan, target, pruned):
        raise TrackingError("it is down")

    fill(opened)
    monkeypatch.setattr(Recorder, "sync", down)
    for _ in range(2):
        assert TrackedGrid(opened).finish(opened.plan) == ["it is down"]


def test_what_a_killed_driver_left_goes_also_where_everything_is_done(opened, monkeypatch):
    fill(opened)
    monkeypatch.setattr(Recorder, "sync", lambda plan, target, pruned: 0)
    dead = maker_name().rpartition("-")[0] + "-1"  # a process with this id began at another time
    folder = Path(opened.root) / "locks" / "drivers" / f"{dead}-ab.plan.json"
    folder.mkdir(parents=True)
    (folder / f".tmp-1-{dead}-00000000").write_bytes(b"half")
    ended = run_whole(opened, opened.plan, [])
    assert (ended.done, ended.cached) == (0, len(opened.plan.trials))
    assert list(folder.iterdir()) == []


def test_a_report_of_a_grid_that_was_never_tracked_makes_no_database(opened, tmp_path):
    assert TrackedGrid(opened).keep_report(tmp_path) is None
    assert not (tmp_path / "storage" / "mlflow.db").exists()


def test_workers_hear_how_the_grid_saves_memory(tmp_path):
    path = write_grid(tmp_path, run="activation_checkpointing: always")
    opened = open_grid(path, storage=str(tmp_path / "storage"))
    job = grid._checked(opened, opened.plan)
    assert job.open_workshop(trains=False).runtime.checkpointing == "always"


def test_outside_the_main_thread_signals_are_left_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with grid._interrupt_twice():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
