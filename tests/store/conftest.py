"""Storages for the tests: a folder, fsspec's memory, and a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.fake_bucket  # noqa: F401 registers the file system
from tests.disks import mounted
from tests.every import EVERY


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(params=["folder", "bucket", *(["file", "memory"] if EVERY else [])])
def root(request, tmp_path) -> str:
    """A storage of files and one of objects; of others of these two tests of round trips ask."""
    return {
        "folder": str(tmp_path / "root"),
        "file": f"file://{tmp_path}/root",
        "bucket": f"bucket://{tmp_path}/root",
        "memory": f"memory://{tmp_path}/root",
    }[request.param]


@pytest.fixture(params=["", "bucket://"])
def shared(request, tmp_path) -> str:
    """A root that several processes reach."""
    return f"{request.param}{tmp_path}/root"


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of one megabyte."""
    with mounted(tmp_path / "disk", "1m") as place:
        yield place
