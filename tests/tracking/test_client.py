"""Whose error it is that keeps runs from a tracking store."""

from __future__ import annotations

import sqlite3

import pytest

from raxalign.errors import StorageError
from raxalign.tracking.client import is_of_store, not_copied

URI = "http://server"


def of_mlflow(code: str) -> Exception:
    from mlflow.exceptions import MlflowException
    from mlflow.protos import databricks_pb2

    return MlflowException("so it is", error_code=getattr(databricks_pb2, code))


def of_a_driver() -> Exception:
    from sqlalchemy.exc import OperationalError

    return OperationalError("SELECT", {}, Exception("database is locked"))


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("nobody is there"),
        TimeoutError("too late"),
        sqlite3.OperationalError("database is locked"),
        ModuleNotFoundError("No module named 'psycopg2'"),
        of_a_driver(),
        of_mlflow("INTERNAL_ERROR"),
        of_mlflow("TEMPORARILY_UNAVAILABLE"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_store_or_the_way_there_raises_is_the_store_s(error: Exception) -> None:
    assert is_of_store(error)
    said = not_copied(URI, error)
    assert f"the tracking store at {URI} does not answer ({type(error).__name__}: " in said
    assert "raxalign sync" in said


def test_a_store_that_answers_and_refuses_is_not_called_down() -> None:
    said = not_copied(URI, of_mlflow("INVALID_PARAMETER_VALUE"))
    assert f"the tracking store at {URI} refuses the runs (MlflowException: so it is)" in said


@pytest.mark.parametrize("error", [KeyError("a key"), TypeError("x"), AssertionError("so")])
def test_an_error_of_raxalign_is_never_told_as_the_store_s(error: Exception) -> None:
    assert not is_of_store(error)
    said = not_copied(URI, error)
    assert f"a bug in raxalign ({type(error).__name__}: " in said
    assert "does not answer" not in said
    assert "every result is in the ledger" in said


def test_an_error_of_the_storage_is_told_as_it_is() -> None:
    said = not_copied(URI, StorageError("/x: cannot be read"))
    assert said.startswith(f"runs were not copied to the tracking store at {URI}: /x: cannot be")
    assert "a bug" not in said
