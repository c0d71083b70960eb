"""The database of runs of an object store: one machine after the other, and nothing overwritten in
silence.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from raxalign.errors import StorageError
from raxalign.store.files import files_of
from raxalign.store.storage import Storage
from raxalign.tracking.client import Target, default_uri
from raxalign.tracking.database_sync import Copy, carried


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    return f"memory://{tmp_path}/root"


def add(local: Path, name: str) -> None:
    """A run, as MLflow writes one: a row, and a file in a folder that the row names."""
    artifacts = local / "mlartifacts" / name
    artifacts.mkdir(parents=True)
    (artifacts / "grid.yaml").write_text(name)
    with closing(sqlite3.connect(local / "mlflow.db")) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS experiments (artifact_location TEXT)")
        database.execute("CREATE TABLE IF NOT EXISTS runs (name TEXT, artifact_uri TEXT)")
        database.execute("INSERT INTO runs VALUES (?, ?)", (name, str(artifacts)))


def runs(database: Path) -> dict[str, str]:
    """Name -> what is in the file that the run names."""
    with closing(sqlite3.connect(database)) as opened:
        rows = opened.execute("SELECT name, artifact_uri FROM runs").fetchall()
    return {name: Path(place, "grid.yaml").read_text() for name, place in rows}


def never() -> None:
    raise AssertionError("nothing was missing")


def test_the_next_machine_goes_on_from_the_copy(root: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    add(one, "first")
    Copy(Storage(root), one).push(never)
    assert Copy(Storage(root), two).fetch()
    assert not Copy(Storage(root), two).fetch(), "it is there"
    (one / "mlartifacts").rename(tmp_path / "gone")
    add(two, "second")
    assert runs(two / "mlflow.db") == {"first": "first", "second": "second"}
    Copy(Storage(root), two).push(never)
    assert Copy(Storage(root), tmp_path / "three").fetch()
    assert set(runs(tmp_path / "three" / "mlflow.db")) == {"first", "second"}


def test_who_is_second_takes_the_others_and_brings_its_runs_again(root, tmp_path, capsys) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    add(one, "first")
    add(two, "second")
    Copy(Storage(root), one).push(never)
    Copy(Storage(root), two).push(lambda: add(two, "second again"))
    assert set(runs(two / "mlflow.db")) == {"first", "second again"}
    assert set(runs(two / "mlflow-1.db")) == {"second"}
    said = capsys.readouterr().err
    assert "was written from another machine" in said
    assert "mlflow-1.db" in said
    Copy(Storage(root), one).fetch()
    assert set(runs(one / "mlflow.db")) == {"first", "second again"}


def test_a_database_that_another_process_writes_to_is_not_replaced(root, tmp_path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    add(one, "first")
    add(two, "second")
    Copy(Storage(root), one).push(never)
    with Copy(Storage(root), two).in_use():
        with pytest.raises(StorageError, match="a grid that runs on this one"):
            Copy(Storage(root), two).push(never)
        assert set(runs(two / "mlflow.db")) == {"second"}


def test_a_grid_begins_with_the_copy_and_ends_with_one(root: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one", Storage(root).local
    add(one, "first")
    Copy(Storage(root), one).push(never)
    with carried(Target(default_uri(Storage(root)), Storage(root), ""), never):
        add(two, "second")
    Copy(Storage(root), one).fetch()
    assert set(runs(one / "mlflow.db")) == {"first", "second"}


@pytest.mark.parametrize("uri", ["http://server", "sqlite:////elsewhere/mlflow.db"])
def test_what_goes_elsewhere_is_not_copied(root: str, tmp_path: Path, uri: str) -> None:
    add(tmp_path, "first")
    with carried(Target(uri, Storage(root), ""), never):
        pass
    assert files_of(root).names("tracking") == {}


def test_a_storage_that_fails_is_a_message(root, tmp_path, monkeypatch, capsys) -> None:
    def down(*arguments: object) -> None:
        raise StorageError("it is down")

    monkeypatch.setattr(Copy, "fetch", down)
    add(Storage(root).local, "first")
    with carried(Target(default_uri(Storage(root)), Storage(root), ""), never):
        pass
    said = capsys.readouterr().err
    assert "was not fetched: it is down" in said
    assert "`raxalign sync` copies it later" in said
