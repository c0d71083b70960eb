"""Starting a cluster on this machine: who may talk to it, and where its own files are."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest
import ray

from raxalign.errors import ResourceError
from raxalign.store.alive import maker_name
from raxalign.store.storage import Storage
from raxalign.sweep import cluster
from raxalign.sweep.job import Job


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())


def test_a_local_cluster_has_a_token_that_only_its_user_can_read(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    cluster.require_token()
    file = tmp_path / ".ray" / "auth_token"
    token = file.read_text()
    assert len(token) == 64
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    cluster.require_token()
    assert (file.read_text(), file.stat().st_mode & 0o777) == (token, 0o600)


def test_who_turns_the_token_off_is_obeyed(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    cluster.require_token()
    assert not (tmp_path / ".ray").exists()


@pytest.mark.parametrize(
    "error",
    [
        Exception("The current node timed out during startup. This could happen\nbecause"),
        RuntimeError("Failed to start GCS"),
        OSError(28, "No space left on device"),
    ],
)
def test_ray_that_does_not_start_is_an_error_that_says_what_to_do(error, monkeypatch):
    def init(**_: object) -> None:
        raise error

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setattr(cluster.ray, "init", init)
    with pytest.raises(ResourceError) as told:
        cluster.connect(None, Job(Storage("/storage"), ""))
    assert str(told.value).startswith(
        f"Ray did not start on this machine ({str(error).splitlines()[0]}). The machine may be"
    )
    assert "run the same command again; what is done is kept" in str(told.value)
    monkeypatch.setattr(cluster.ray, "init", lambda **_: {}["missing"])
    with pytest.raises(KeyError):  # another error stays what it is
        cluster.connect(None, Job(Storage("/storage"), ""))


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_at_which_nothing_listens_is_refused_before_ray_waits_for_it(
    scheme, monkeypatch
):
    with socket.socket() as taken:  # bound, and not listening: nobody else can take the port
        taken.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(cluster, "_PATIENCE", 0.01)
        monkeypatch.setattr(cluster, "_PAUSE", 0.0)
        monkeypatch.setattr(cluster.ray, "init", lambda **_: pytest.fail("Ray was asked"))
        with pytest.raises(ResourceError, match=rf"answers at {address}: .*refused.*Start one"):
            cluster.connect(address, Job(Storage("/storage"), ""))


@pytest.mark.parametrize("address", ["auto", "{host}:{port}", "ray://{host}:{port}"])
def test_a_cluster_that_listens_is_joined(address, monkeypatch):
    joined: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = address.format(host="127.0.0.1", port=server.getsockname()[1])
        monkeypatch.setattr(cluster.ray, "init", lambda **given: joined.append(given["address"]))
        cluster.connect(place, Job(Storage("/storage"), ""))
    assert joined == [place]


@pytest.mark.parametrize("fault", [None, RuntimeError("the raylet is gone")])
def test_nothing_is_collected_while_ray_shuts_down_and_afterwards_it_is_again(monkeypatch, fault):
    collected: list[bool] = []

    def shutdown() -> None:
        collected.append(gc.isenabled())
        if fault is not None:
            raise fault

    monkeypatch.setattr(ray, "shutdown", shutdown)
    with nullcontext() if fault is None else pytest.raises(RuntimeError):
        cluster.disconnect()
    assert collected == [False]
    assert gc.isenabled()


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def ended_process() -> str:
    """The name of a process that has ended."""
    code = "from raxalign.store.alive import maker_name; print(maker_name())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_scratch_folder_is_temporary_or_in_the_storage_of_a_cluster_and_names_its_process(
    temporary,
):
    place = Path(cluster.scratch_folder("s3://bucket", None))
    assert place.is_dir()
    assert place.parent == temporary
    assert place.name.startswith(f"raxalign-ray-{maker_name()}-")
    shared = cluster.scratch_folder("s3://bucket/x", "auto")
    assert shared == f"s3://bucket/x/ray/{maker_name()}"
    (place / "trial" / "deep").mkdir(parents=True)
    for _ in range(2):
        cluster.remove_scratch(str(place))
        assert not place.exists()


def test_what_dead_processes_left_is_removed_and_a_living_ones_folder_is_kept(temporary):
    left = temporary / f"raxalign-ray-{ended_process()}-abc"
    left.mkdir()
    other = temporary / f"raxalign-ray-{maker_name()}-abc"
    other.mkdir()
    strange = temporary / "raxalign-ray-notes"
    strange.mkdir()
    cluster.scratch_folder("root", None)
    assert (left.exists(), other.exists(), strange.exists()) == (False, True, True)
