"""The machine's copies of an object store: within the limit, and never taken from who uses them."""

import gc
import os

import pytest

from raxalign.store._cache import LIMIT, Cache, limit_bytes
from raxalign.store.artifacts import ArtifactStore

KIB = 1024


def build(folder):
    (folder / "weights").write_bytes(os.urandom(10 * KIB))
    return {}


def key(number):
    return f"{number:064x}"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A bucket, and a cache that has room for two artifacts and a half."""
    monkeypatch.setenv(LIMIT, str(27 * KIB / 2**30))
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


def test_the_uses_of_a_dead_process_do_not_count(root, tmp_path):
    from raxalign.store.alive import maker_name

    folder = ArtifactStore(root).make("pairs", key(0), build)
    gc.collect()
    cache = Cache(next((tmp_path / "cache").iterdir()))
    machine = maker_name().split("-")[0]
    users = cache.folder / "users" / f"use-{machine}-999999999-1-00000000"
    users.parent.mkdir(exist_ok=True)
    users.write_text(f"{folder.relative_to(cache.folder)}\n")
    for number in (1, 2):
        ArtifactStore(root).make("pairs", key(number), build)
        gc.collect()
    assert not folder.exists()
    assert not users.exists()


def test_a_small_copy_that_was_changed_is_not_used(tmp_path):
    cache = Cache(tmp_path)
    cache.remember({"ledger/one": "etag"}, {"ledger/one": b"record"})
    assert cache.remembered({"ledger/one": "etag"}) == {"ledger/one": b"record"}
    assert cache.remembered({"ledger/one": "another"}) == {}
    (file,) = (tmp_path / "small").rglob("*/*")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert cache.remembered({"ledger/one": "etag"}) == {}


def test_the_limit_is_fifty_gibibytes(monkeypatch):
    monkeypatch.delenv(LIMIT, raising=False)
    assert limit_bytes() == 50 * 2**30
