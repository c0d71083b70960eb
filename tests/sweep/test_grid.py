"""The main job around Ray: where runs go, and what is not copied twice."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from raxalign.plan.load import open_grid
from raxalign.store.ledger import Ledger
from raxalign.sweep import grid
from raxalign.sweep.grid import finish_tracking, keep_report, local_folder, target_of
from raxalign.tracking.client import TrackingError
from tests.grids import write_grid


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return open_grid(write_grid(tmp_path), storage=str(tmp_path / "storage"))


def fill(opened) -> None:
    ledger = Ledger(opened.root)
    for trial in opened.plan.trials:
        for key in trial.evaluations.values():
            ledger.write(key, {"scores": [], "notes": {}}, None)


def test_runs_go_to_the_storage_or_to_the_server_of_the_environment(
    opened, tmp_path, monkeypatch
) -> None:
    assert target_of(opened, tmp_path).uri == f"sqlite:///{tmp_path}/storage/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server")
    again = open_grid(opened.grid.path, storage=opened.root)
    found = target_of(again, tmp_path)
    assert (found.uri, found.root) == ("http://server", opened.root)
    assert found.grid_text == Path(opened.grid.path).read_text()


def test_a_whole_grid_is_brought_once_and_a_part_again(opened, tmp_path, monkeypatch) -> None:
    brought = []
    monkeypatch.setattr(grid, "sync", lambda plan, target: brought.append(target.uri))
    local = local_folder(opened.root)
    assert finish_tracking(opened, opened.plan, local) == []
    assert finish_tracking(opened, opened.plan, local) == []
    assert len(brought) == 2
    fill(opened)
    for _ in range(3):
        assert finish_tracking(opened, opened.plan, local) == []
    assert len(brought) == 3


def test_a_store_that_is_down_is_a_message_and_is_tried_again(opened, monkeypatch) -> None:
    def down(plan: object, target: object) -> None:
        raise TrackingError("it is down")

    fill(opened)
    monkeypatch.setattr(grid, "sync", down)
    for _ in range(2):
        assert finish_tracking(opened, opened.plan, local_folder(opened.root)) == ["it is down"]


def test_a_report_of_a_grid_that_was_never_tracked_makes_no_database(opened, tmp_path) -> None:
    assert keep_report(opened, tmp_path, local_folder(opened.root)) is None
    assert not (tmp_path / "storage" / "mlflow.db").exists()


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with grid._interrupt_twice():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
