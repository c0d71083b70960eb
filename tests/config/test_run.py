from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from raxalign.config.run import RunConfig, effective
from raxalign.errors import RaxalignError

HERE = Path.cwd()


def test_flags_come_before_the_environment_and_that_before_the_file() -> None:
    run = RunConfig(storage="/file", workers=2, address="file:1")
    environ = {"RAXALIGN_STORAGE": "/environment"}
    assert (
        effective(run, storage="/flag", workers=3, address="flag:1", environ=environ).storage
        == "/flag"
    )
    assert effective(run, environ=environ).storage == "/environment"
    assert effective(run, environ={}).storage == "/file"
    overridden = effective(run, workers=3, address="flag:1", environ={})
    assert (overridden.workers, overridden.address) == (3, "flag:1")
    assert (effective(run).workers, effective(run).address) == (2, "file:1")


def test_the_default_storage_is_in_the_working_directory() -> None:
    assert effective(RunConfig(), environ={}).storage == str(HERE / ".raxalign")


def test_relative_storages_of_flag_and_environment_are_in_the_working_directory() -> None:
    assert effective(RunConfig(), storage="a/../b/").storage == str(HERE / "b")
    assert effective(RunConfig(), environ={"RAXALIGN_STORAGE": "c"}).storage == str(HERE / "c")


def test_urls_are_kept_and_file_urls_are_paths() -> None:
    assert effective(RunConfig(), storage="s3://bucket/raxalign/").storage == "s3://bucket/raxalign"
    assert effective(RunConfig(), storage="file:///data/store").storage == "/data/store"


def test_the_home_folder_is_expanded() -> None:
    assert effective(RunConfig(), storage="~/store").storage == str(Path.home() / "store")


def test_the_tracking_server_of_the_environment_comes_first() -> None:
    run = RunConfig(tracking_uri="http://file:5000")
    assert (
        effective(run, environ={"MLFLOW_TRACKING_URI": "http://environment:5000"}).tracking_uri
        == "http://environment:5000"
    )
    assert effective(run, environ={"MLFLOW_TRACKING_URI": ""}).tracking_uri == "http://file:5000"


def test_no_workers_are_refused() -> None:
    with pytest.raises(RaxalignError, match="--workers 0"):
        effective(RunConfig(), workers=0)


def test_the_flag_keep_comes_before_the_file() -> None:
    run = RunConfig(keep="best")
    assert effective(run, environ={}).keep == "best"
    assert effective(run, keep="none", environ={}).keep == "none"
    with pytest.raises(RaxalignError, match="--keep some: write all, best, none"):
        effective(run, keep="some", environ={})


def test_an_unknown_tracking_store_is_refused_with_those_that_there_are() -> None:
    told = r"htp://x: there is no tracking store htp://; there are http://, https://, sqlite://"
    with pytest.raises(ValidationError, match=told):
        RunConfig(tracking_uri="htp://x")
    with pytest.raises(RaxalignError, match=f"MLFLOW_TRACKING_URI: {told}"):
        effective(RunConfig(), environ={"MLFLOW_TRACKING_URI": "htp://x"})
    for uri in ("sqlite:///a.db", "postgresql+psycopg2://host/db", "databricks", "/a/folder"):
        assert RunConfig(tracking_uri=uri).tracking_uri == uri


@pytest.mark.parametrize(
    ("storage", "form"),
    [("s3://", "s3://bucket/f"), ("s3:///", "s3://bucket/f"), ("file://", "file:///f")],
)
def test_a_url_without_a_place_is_refused(storage, form) -> None:
    with pytest.raises(RaxalignError, match=f"names no place; write {form}older"):
        effective(RunConfig(), storage=storage)


@pytest.mark.parametrize(
    "storage", ["s3://ann:sec/ret@bucket/x", "s3://ann@bucket/x", "gs://ann:secret@bucket"]
)
def test_a_user_in_the_url_of_a_bucket_is_refused_and_not_shown(storage: str) -> None:
    with pytest.raises(RaxalignError, match="AWS_ACCESS_KEY_ID") as caught:
        effective(RunConfig(), storage=storage)
    assert "ann" not in str(caught.value)
    assert "sec" not in str(caught.value).replace("AWS_SECRET", "")


def test_access_points_and_containers_of_accounts_are_storages() -> None:
    for storage in (
        "s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/mine/x",
        "abfs://container@account.dfs.core.windows.net/folder",
        "s3://bucket/runs@2026",
    ):
        assert effective(RunConfig(), storage=storage).storage == storage
