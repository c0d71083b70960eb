"""Storages for the tests: a folder, fsspec's memory, and a bucket."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.fake_bucket  # noqa: F401 registers the file system
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
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"mounting a small disk was refused: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
