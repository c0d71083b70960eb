"""Starting a cluster on this machine: who may talk to it, where its own files are, and what its
machines are asked.
"""

import gc
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import ray

from raxalign.children import child_environment
from raxalign.errors import ResourceError, StorageError
from raxalign.store.alive import ScratchFolders, maker_name
from raxalign.store.lease import Holder, Locks
from raxalign.store.storage import Storage
from raxalign.sweep import cluster
from raxalign.sweep.cluster import GONE, check_shared, patience
from raxalign.sweep.job import Job
from tests.disks import mounted


def demands_token():
    """What Ray raises where a cluster refuses a token."""
    error = ConnectionError("Failed to connect to Ray cluster")
    error.__cause__ = RuntimeError("RPC error: InvalidAuthToken: Authentication token is missing")
    return error


EXPIRY = Locks.EXPIRY
HOLDER = Holder("rax2", "0badcafe-7-1")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
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


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def local(temporary):
    """A job of this machine alone, with its scratch folder."""
    job = Job(Storage("/storage"), "", scratch=cluster.scratch_folder("", None))
    yield job
    cluster.remove_scratch(job.scratch)


def test_a_home_that_cannot_be_written_does_without_the_file_of_the_token(tmp_path, monkeypatch):
    (tmp_path / "home").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    cluster.require_token()
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64


def started(job, monkeypatch):
    """What Ray is given where it is started for a job, and what lay in its working directory."""
    given = []
    monkeypatch.setattr(
        cluster.ray,
        "init",
        lambda **told: given.append(
            (told, list(Path(told["runtime_env"]["working_dir"]).iterdir()))
        ),
    )
    cluster.connect(None, job)
    return given[0]


def test_workers_have_an_empty_working_directory(local, monkeypatch):
    assert started(local, monkeypatch)[1] == []


def test_the_sockets_of_ray_have_a_short_path_in_a_folder_that_is_private_and_goes(
    tmp_path, monkeypatch
):
    long = tmp_path / ("a" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    place = cluster.scratch_folder("", None)
    told, _ = started(Job(Storage("/storage"), "", scratch=place), monkeypatch)
    folder = Path(told["_temp_dir"])
    session = folder / "session_2026-01-01_00-00-00_000000_4194304" / "sockets" / "plasma_store"
    assert len(os.fsencode(session)) <= 103
    assert folder.parent.resolve() == Path(place)
    assert Path(place).stat().st_mode & 0o777 == 0o700
    cluster.remove_scratch(place)
    assert not os.path.lexists(folder.parent)


def test_a_full_temporary_folder_is_named_before_ray_starts(tmp_path, monkeypatch):
    with mounted(tmp_path / "small", "1m") as small:
        monkeypatch.setenv("RAY_TMPDIR", str(small))
        place = cluster.scratch_folder("", None)
        with pytest.raises(ResourceError, match=rf"{small}.*MiB are free.*TMPDIR"):
            cluster.connect(None, Job(Storage("/storage"), "", scratch=place))
        cluster.remove_scratch(place)


def test_an_ended_process_of_ray_is_named(monkeypatch):
    with subprocess.Popen(["sleep", "600"]) as process:
        monkeypatch.setattr(cluster, "_daemons", {"raylet": process.pid})
        cluster.require_daemons()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        for _ in range(2):  # before and after it is waited for
            with pytest.raises(ResourceError, match=r"raylet has ended.*same command again"):
                cluster.require_daemons()
            process.wait()


@pytest.mark.parametrize("module", ["raxalign", "raxalign.encoders.models.pieces"])
def test_nothing_of_the_working_directory_is_imported(module, tmp_path):
    for name in ("statistics", "torch", "numpy"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w')")
    given = None if module == "raxalign" else child_environment({})
    command = [sys.executable, "-m", module, "doctor"]
    subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, check=False)
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (ConnectionError("Failed to connect"), "no Ray cluster answers at auto"),
        (demands_token(), "auto demands a token: set RAY_AUTH_MODE=token"),
        (RuntimeError("Version mismatch: Ray: 2.59.0"), "not joined: Version mismatch: Ray: 2.59"),
    ],
)
def test_a_cluster_that_is_not_joined_is_an_error_that_says_why(fault, told, monkeypatch):
    def init(**_):
        raise fault

    monkeypatch.setattr(cluster.ray, "init", init)
    with pytest.raises(ResourceError, match=told):
        cluster.connect("auto", Job(Storage("/storage"), ""))


def test_a_local_cluster_begins_without_the_signal_that_its_terminal_ends(local, monkeypatch):
    blocked = []

    def init(**_):
        status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
        blocked.append(int(re.search(r"SigBlk:\s*(\w+)", status)[1], 16))
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setattr(cluster.ray, "init", init)
    with pytest.raises(ResourceError):
        cluster.connect(None, local)
    assert blocked[0] & 1 << signal.SIGHUP - 1
    assert signal.SIGHUP not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.parametrize(
    "error",
    [
        Exception("The current node timed out during startup. This could happen\nbecause"),
        RuntimeError("Failed to start GCS"),
        OSError(28, "No space left on device"),
        ValueError("After taking into account object store and redis memory usage"),
    ],
)
def test_ray_that_does_not_start_is_an_error_that_says_what_to_do(error, local, monkeypatch):
    def init(**_):
        raise error

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setattr(cluster.ray, "init", init)
    with pytest.raises(ResourceError) as told:
        cluster.connect(None, local)
    assert str(told.value).startswith(
        f"Ray did not start on this machine ({str(error).splitlines()[0]}). The machine may be"
    )
    assert "run the same command again; what is done is kept" in str(told.value)
    other = replace(local, scratch=cluster.scratch_folder("", None))
    monkeypatch.setattr(cluster.ray, "init", lambda **_: {}["missing"])
    with pytest.raises(KeyError):  # another error stays what it is
        cluster.connect(None, other)
    cluster.remove_scratch(other.scratch)


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
    joined = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = address.format(host="127.0.0.1", port=server.getsockname()[1])
        monkeypatch.setattr(cluster.ray, "init", lambda **given: joined.append(given["address"]))
        cluster.connect(place, Job(Storage("/storage"), ""))
    assert joined == [place]


@pytest.mark.parametrize("fault", [None, RuntimeError("the raylet is gone")])
def test_nothing_is_collected_while_ray_shuts_down_and_afterwards_it_is_again(monkeypatch, fault):
    collected = []

    def shutdown():
        collected.append(gc.isenabled())
        if fault is not None:
            raise fault

    monkeypatch.setattr(ray, "shutdown", shutdown)
    with nullcontext() if fault is None else pytest.raises(RuntimeError):
        cluster.disconnect()
    assert collected == [False]
    assert gc.isenabled()


@pytest.fixture
def ended(monkeypatch, tmp_path):
    """How often Ray was ended here; neither it nor a machine is asked anything."""
    found = []
    monkeypatch.setattr(cluster, "scratch_folder", lambda root, address: str(tmp_path / "scratch"))
    monkeypatch.setattr(cluster, "connect", lambda address, job: None)
    monkeypatch.setattr(cluster, "disconnect", lambda: found.append("ended"))
    monkeypatch.setattr(cluster.Nodes, "find", lambda address: cluster.Nodes(()))
    monkeypatch.setattr(cluster.Nodes, "with_gpus", lambda self, job, hear: (job, self))
    return found


@pytest.mark.parametrize("there", [True, False])
def test_a_ray_that_a_notebook_has_is_used_and_stays(monkeypatch, ended, there):
    monkeypatch.setattr(ray, "is_initialized", lambda: there)
    with cluster.joined(Job(Storage("/storage"), ""), None, print):
        assert not ended
    assert ended == ([] if there else ["ended"])


@pytest.mark.usefixtures("ended")
def test_a_process_has_one_grid_at_a_time(job):
    with cluster.joined(job, None, print):
        second, told = cluster.joined(job, None, print), "another grid is running in this process"
        with pytest.raises(ResourceError, match=told), second:
            pass
    with cluster.joined(job, None, print):
        pass


def ended_process():
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
    loop = temporary / "raxalign-ray-loop"
    loop.symlink_to(loop)
    cluster.scratch_folder("root", None)
    assert (left.exists(), other.exists(), strange.exists()) == (False, True, True)


def test_short_names_of_dead_processes_go_also_where_their_folders_are_gone(temporary, monkeypatch):
    monkeypatch.setattr(ScratchFolders, "SHORT", short := temporary / "short")
    short.mkdir()
    dangling, other = short / "raxalign-ray-a", short / "raxalign-ray-b"
    dangling.symlink_to(temporary / "gone" / f"raxalign-ray-{ended_process()}-abc")
    other.symlink_to(temporary / "gone" / f"raxalign-ray-{maker_name()}-abc")
    cluster.scratch_folder("root", None)
    assert (dangling.is_symlink(), other.is_symlink()) == (False, True)


def node(identity, *, host="rax2", alive=True):
    return {"NodeID": identity, "NodeManagerHostname": host, "Alive": alive}


@pytest.mark.parametrize(
    ("nodes", "answers", "expected"),
    [
        pytest.param([node("a", host="rax1")], [], EXPIRY, id="a host outside of the cluster"),
        pytest.param([node("a", alive=False)], [], 0.0, id="a host that has left"),
        pytest.param(
            [node("a", alive=False), node("b")], [None], 0.0, id="a host that left and came back"
        ),
        pytest.param([node("a")], [True], EXPIRY, id="alive"),
        pytest.param([node("a")], [False], 0.0, id="dead"),
        pytest.param([node("a")], [None], GONE, id="a process that its host does not know"),
        pytest.param([node("a"), node("b")], [None, True], EXPIRY, id="one of two containers"),
        pytest.param([node("a"), node("b")], [None, False], 0.0, id="dead in one of two"),
        pytest.param([node("a"), node("b")], [None], EXPIRY, id="one does not answer"),
        pytest.param([node("a")], [ray.exceptions.RayError()], EXPIRY, id="it cannot be asked"),
    ],
)
def test_a_holder_is_waited_for_as_long_as_its_machine_demands(
    nodes, answers, expected, monkeypatch
):
    def ask(remote, living, holder, seconds):
        assert living == [n["NodeID"] for n in nodes if n["Alive"] and n != node("a", host="rax1")]
        return dict(zip(living, answers, strict=False))

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    monkeypatch.setattr(cluster, "ask", ask)
    assert patience(HOLDER) == expected


def test_without_a_cluster_nobody_is_asked():
    assert patience(HOLDER) == EXPIRY


def test_the_message_names_each_machine_with_what_it_found_and_what_to_do(job, monkeypatch):
    found = {"n1": "does not see it", "n2": "cannot write", "n3": "has left"}
    listed = [
        {**node(key, host=name), "NodeManagerAddress": address}
        for key, name, address in (("n1", "b", "10.0.0.2"), ("n2", "a", "a"), ("n3", "c", "c"))
    ]
    living = iter([listed, listed[:2]])
    monkeypatch.setattr(ray, "nodes", lambda: next(living))
    monkeypatch.setattr(cluster, "ask", lambda remote, nodes, sign: found)
    with pytest.raises(StorageError) as raised:
        check_shared(job)
    assert str(raised.value) == (
        f"{job.storage}: not every machine of the cluster has this storage: a cannot write; b"
        " (10.0.0.2) does not see it. Mount one shared file system at that path on all of them, or"
        " give an object store (--storage s3://...)"
    )
