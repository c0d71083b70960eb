from pathlib import Path

import pytest
from pydantic import ValidationError

from raxalign.errors import RaxalignError
from raxalign.options.run import RunConfig, effective

HERE = Path.cwd()


def test_flags_come_before_the_environment_and_that_before_the_file():
    run = RunConfig(storage="/file", workers=2, address="file:1", keep="none")
    flags = {"storage": "/flag", "workers": 3, "address": "flag:1", "keep": "all"}
    environ = {"RAXALIGN_STORAGE": "/environment"}
    for given, found in (
        ({"environ": environ, **flags}, ("/flag", 3, "flag:1", "all")),
        ({"environ": environ}, ("/environment", 2, "file:1", "none")),
        ({"environ": {}}, ("/file", 2, "file:1", "none")),
    ):
        made = effective(run, **given)
        assert (made.storage, made.workers, made.address, made.keep) == found
    run = RunConfig(tracking_uri="http://file:5000")
    for uri in ("http://environment:5000", ""):
        made = effective(run, environ={"MLFLOW_TRACKING_URI": uri})
        assert made.tracking_uri == (uri or "http://file:5000")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"environ": {}}, f"{HERE}/.raxalign"),
        ({"environ": {"RAXALIGN_STORAGE": "c"}}, f"{HERE}/c"),
        *(
            ({"storage": storage}, found)
            for storage, found in (
                ("a/../b/", f"{HERE}/b"),
                ("s3://bucket/raxalign/", "s3://bucket/raxalign"),
                ("file:///data/store", "/data/store"),
                ("~/store", f"{Path.home()}/store"),
                ("s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/mine/x", None),
                ("abfs://container@account.dfs.core.windows.net/folder", None),
                ("s3://bucket/runs@2026", None),
            )
        ),
    ],
)
def test_a_storage_is_a_path_of_the_working_directory_or_a_url(given, found):
    assert effective(RunConfig(), **given).storage == (found or given["storage"])


def test_an_unknown_tracking_store_is_refused_with_those_that_there_are():
    told = r"htp://x: there is no tracking store htp://; there are http://, https://, sqlite://"
    with pytest.raises(ValidationError, match=told):
        RunConfig(tracking_uri="htp://x")
    with pytest.raises(RaxalignError, match=f"MLFLOW_TRACKING_URI: {told}"):
        effective(RunConfig(), environ={"MLFLOW_TRACKING_URI": "htp://x"})
    for uri in ("sqlite:///a.db", "postgresql+psycopg2://host/db", "databricks", "/a/folder"):
        assert RunConfig(tracking_uri=uri).tracking_uri == uri


@pytest.mark.parametrize("uri", ["localhost:5000", "10.0.0.1:80/x", "http:host", "http://"])
def test_an_address_without_a_scheme_is_refused_with_the_right_form(uri):
    with pytest.raises(RaxalignError, match=f"{uri}: names no server; write http://HOST:PORT"):
        effective(RunConfig(), environ={"MLFLOW_TRACKING_URI": uri})


@pytest.mark.parametrize("uri", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory"])
def test_a_database_that_ends_with_the_command_is_refused(uri):
    with pytest.raises(ValidationError, match=r"write sqlite:////PATH/mlflow\.db"):
        RunConfig(tracking_uri=uri)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"workers": 0}, "--workers 0"),
        ({"keep": "some"}, "--keep some: write all, none"),
        ({"storage": "s3://"}, "names no place; write s3://bucket/folder"),
        ({"storage": "s3:///"}, "names no place; write s3://bucket/folder"),
        ({"storage": "file://"}, "names no place; write file:///folder"),
        ({"storage": "s3://ann:sec/ret@bucket/x"}, "AWS_ACCESS_KEY_ID"),
        ({"storage": "s3://ann@bucket/x"}, "AWS_ACCESS_KEY_ID"),
        ({"storage": "gs://ann:secret@bucket"}, "AWS_ACCESS_KEY_ID"),
    ],
)
def test_flags_that_mean_nothing_and_users_in_a_url_are_refused(flags, told):
    with pytest.raises(RaxalignError, match=told) as caught:
        effective(RunConfig(), **flags)
    assert "ann" not in str(caught.value)
    assert "sec" not in str(caught.value).replace("AWS_SECRET", "")
