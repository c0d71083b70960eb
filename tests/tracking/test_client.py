"""Whose error it is that keeps runs from a tracking store."""

import sqlite3

import pytest
from sqlalchemy.exc import OperationalError

from raxalign.errors import StorageError
from raxalign.store.storage import Storage
from raxalign.tracking.client import Target

SERVER = Target("http://server", Storage("here"))
AT = "the tracking store at http://server"
LOCKED = OperationalError("SELECT", {}, Exception("database is locked"))


def of_mlflow(code):
    from mlflow.exceptions import MlflowException
    from mlflow.protos import databricks_pb2

    return MlflowException("so it is", error_code=getattr(databricks_pb2, code))


@pytest.mark.parametrize(
    ("error", "said", "more"),
    [
        (ConnectionError("nobody is there"), f"{AT} does not answer (", "raxalign sync"),
        (TimeoutError("too late"), f"{AT} does not answer (", "raxalign sync"),
        (sqlite3.OperationalError("locked"), f"{AT} does not answer (", "raxalign sync"),
        (ModuleNotFoundError("No module named 'psycopg2'"), f"{AT} does not answer (", ""),
        (LOCKED, f"{AT} does not answer (", "raxalign sync"),
        (of_mlflow("INTERNAL_ERROR"), f"{AT} does not answer (", "raxalign sync"),
        (of_mlflow("TEMPORARILY_UNAVAILABLE"), f"{AT} does not answer (", "raxalign sync"),
        (of_mlflow("INVALID_PARAMETER_VALUE"), f"{AT} refuses the runs (", ": so it is)"),
        (KeyError("a key"), "a bug in raxalign (", "every result is in the ledger"),
        (TypeError("x"), "a bug in raxalign (", "every result is in the ledger"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_that_of_the_store_or_of_raxalign(error, said, more):
    found = SERVER.not_copied(error)
    assert f"{said}{type(error).__name__}: " in found
    assert more in found
    assert SERVER.has_caused(error) == ("a bug" not in found)


def test_an_error_of_the_storage_is_told_as_it_is():
    said = SERVER.not_copied(StorageError("/x: cannot be read"))
    assert said.startswith(f"runs were not copied to {AT}: /x: cannot be")
    assert "a bug" not in said
