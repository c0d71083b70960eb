"""The machine's copies of an object store: within the limit, and never taken from who uses them."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from raxalign.store import disk
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.disk import Cache
from raxalign.store.files import files_of
from raxalign.store.ledger import Ledger
from tests.fake_bucket import Bucket

KIB = 1024


def build(folder):
    (folder / "weights").write_bytes(os.urandom(10 * KIB))
    return {}


def key(number):
    return f"{number:064x}"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A bucket, and a cache that has room for two artifacts and a half."""
    monkeypatch.setenv(Cache.GIB, str(27 * KIB / 2**30))
    return f"bucket://{tmp_path}/root"


def test_what_was_used_longest_ago_gives_way(root):
    folders = [ArtifactStore(root).make("pairs", key(number), build) for number in range(2)]
    gc.collect()
    os.utime(folders[0], (2, 2))
    os.utime(folders[1], (1, 1))
    third = ArtifactStore(root).make("pairs", key(2), build)
    assert [folder.exists() for folder in (*folders, third)] == [True, False, True]
    again = ArtifactStore(root).open("pairs", key(1))
    assert (again / "weights").stat().st_size == 10 * KIB, "it is copied again"


def test_what_a_living_store_uses_stays(root):
    store = ArtifactStore(root)
    folders = [store.make("pairs", key(number), build) for number in range(4)]
    assert all(folder.exists() for folder in folders)
    del store
    gc.collect()
    ArtifactStore(root).make("pairs", key(4), build)
    assert sum(folder.exists() for folder in folders) == 1


USER = """
import sys, tests.fake_bucket
from raxalign.store.artifacts import ArtifactStore
store = ArtifactStore(sys.argv[1])
print(store.open("pairs", sys.argv[2]), flush=True)
input()
"""


def test_what_another_process_has_open_stays_until_it_is_killed(root):
    folder = ArtifactStore(root).make("pairs", key(0), build)
    gc.collect()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", USER, root, key(0)]
    with subprocess.Popen(command, env=environment, **pipes) as process:
        assert process.stdout.readline().strip() == str(folder)
        for number in range(1, 6):
            ArtifactStore(root).make("pairs", key(number), build)
            gc.collect()
        assert folder.exists()
        process.kill()
        process.wait()
    ArtifactStore(root).make("pairs", key(6), build)
    assert not folder.exists()


def test_a_process_holds_open_as_many_copies_as_it_may_and_no_more(root, monkeypatch):
    monkeypatch.setattr(disk, "_MOST", 3)
    store, before = ArtifactStore(root), len(list(Path("/proc/self/fd").iterdir()))
    for number in range(6):
        store.make("pairs", key(number), build)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 3
    assert all((store.open("pairs", key(n)) / "weights").exists() for n in range(6))


def test_many_results_are_asked_for_once_per_machine_and_again_when_they_change(
    root, monkeypatch, tmp_path
):
    ledger, asked = Ledger(root), list[str]()
    keys = [key(number) for number in range(10)]
    for number, name in enumerate(keys):
        ledger.write(name, {"scores": [], "number": number}, None)

    def counted(files, path, *given, **options):
        asked.append(path)
        return read(files, path, *given, **options)

    read = Bucket.cat_file
    monkeypatch.setattr(Bucket, "cat_file", counted)

    def numbers():
        return [record["number"] for record in Ledger(root).read_many(keys).values()]

    assert numbers() == list(range(10))
    assert len(asked) == 10
    assert numbers() == list(range(10))
    assert len(asked) == 10
    files_of(root).delete(f"ledger/{keys[3]}/evaluation.json")
    ledger.write(keys[3], {"scores": [], "number": 333}, None)
    assert numbers() == [0, 1, 2, 333, 4, *range(5, 10)]
    assert len(asked) == 11


def test_a_small_copy_that_was_changed_is_not_used(tmp_path):
    cache = Cache(tmp_path)
    cache.remember({"ledger/one": "etag"}, {"ledger/one": b"record"})
    assert cache.remembered({"ledger/one": "etag"}) == {"ledger/one": b"record"}
    assert cache.remembered({"ledger/one": "another"}) == {}
    (file,) = (tmp_path / "small").rglob("*/*")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert cache.remembered({"ledger/one": "etag"}) == {}


def test_the_limit_is_fifty_gibibytes(monkeypatch):
    monkeypatch.delenv(Cache.GIB, raising=False)
    assert Cache.limit_bytes() == 50 * 2**30
