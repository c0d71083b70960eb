"""The database of runs of an object store: one machine after the other, and nothing overwritten in
silence.
"""

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
def storage(tmp_path, monkeypatch):
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    return Storage(f"memory://{tmp_path}/root")


@pytest.fixture
def first(storage, tmp_path):
    """That of a machine with one run."""
    add(tmp_path / "one", "first")
    copy = Copy(storage, tmp_path / "one")
    copy.push(never)
    return copy


def add(local, name):
    """A run, as MLflow writes one: a row, and a file in a folder that the row names."""
    artifacts = local / "mlartifacts" / name
    artifacts.mkdir(parents=True)
    (artifacts / "grid.yaml").write_text(name)
    with closing(sqlite3.connect(local / "mlflow.db")) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS experiments (artifact_location TEXT)")
        database.execute("CREATE TABLE IF NOT EXISTS runs (name TEXT, artifact_uri TEXT)")
        database.execute("INSERT INTO runs VALUES (?, ?)", (name, str(artifacts)))


def runs(database):
    """Name -> what is in the file that the run names."""
    with closing(sqlite3.connect(database)) as opened:
        rows = opened.execute("SELECT name, artifact_uri FROM runs").fetchall()
    return {name: Path(place, "grid.yaml").read_text() for name, place in rows}


def never():
    raise AssertionError("nothing was missing")


def test_the_next_machine_goes_on_from_the_copy(first, storage, tmp_path):
    two = tmp_path / "two"
    assert Copy(storage, two).fetch()
    assert not Copy(storage, two).fetch(), "it is there"
    (tmp_path / "one" / "mlartifacts").rename(tmp_path / "gone")
    add(two, "second")
    assert runs(two / "mlflow.db") == {"first": "first", "second": "second"}
    Copy(storage, two).push(never)
    assert Copy(storage, tmp_path / "three").fetch()
    assert set(runs(tmp_path / "three" / "mlflow.db")) == {"first", "second"}


def test_who_is_second_takes_the_others_and_brings_its_runs_again(first, storage, tmp_path, capsys):
    two = tmp_path / "two"
    add(two, "second")
    with Copy(storage, two).in_use():
        with pytest.raises(StorageError, match="a grid that runs on this one"):
            Copy(storage, two).push(never)
        assert set(runs(two / "mlflow.db")) == {"second"}, "another process writes to it"
    Copy(storage, two).push(lambda: add(two, "second again"))
    assert set(runs(two / "mlflow.db")) == {"first", "second again"}
    assert set(runs(two / "mlflow-1.db")) == {"second"}
    said = capsys.readouterr().err
    assert "was written from another machine" in said
    assert "mlflow-1.db" in said
    first.fetch()
    assert set(runs(tmp_path / "one" / "mlflow.db")) == {"first", "second again"}


def test_a_grid_begins_with_the_copy_and_ends_with_one(first, storage, tmp_path):
    with carried(Target(default_uri(storage), storage, ""), never):
        add(storage.local, "second")
    first.fetch()
    assert set(runs(tmp_path / "one" / "mlflow.db")) == {"first", "second"}


@pytest.mark.parametrize("uri", ["http://server", "sqlite:////elsewhere/mlflow.db"])
def test_what_goes_elsewhere_is_not_copied(storage, tmp_path, uri):
    add(tmp_path, "first")
    with carried(Target(uri, storage, ""), never):
        pass
    assert files_of(storage.root).names("tracking") == {}


def test_a_storage_that_fails_is_a_message(storage, monkeypatch, capsys):
    def down(*arguments):
        raise StorageError("it is down")

    monkeypatch.setattr(Copy, "fetch", down)
    add(storage.local, "first")
    with carried(Target(default_uri(storage), storage, ""), never):
        pass
    said = capsys.readouterr().err
    assert "was not fetched: it is down" in said
    assert "`raxalign sync` copies it later" in said
