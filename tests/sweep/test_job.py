"""What travels to workers."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from raxalign.errors import StorageError
from raxalign.store.storage import Storage
from raxalign.sweep.job import Job, open_workshop, read_plan, thread_limits, write_plan


def test_a_plan_comes_back_from_the_storage_as_it_was(plan, tmp_path) -> None:
    place = write_plan(plan, Storage(str(tmp_path)))
    assert read_plan(place).to_json() == plan.to_json()
    assert write_plan(plan, Storage(str(tmp_path))) == place
    assert [path.suffix for path in (tmp_path / "plans").iterdir()] == [".json"]


def test_a_storage_that_takes_no_plan_is_an_error_that_says_what_to_do(plan, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write.*--storage"):
        write_plan(plan, Storage(str(tmp_path / "file")))


def test_the_local_folder_is_the_storage_or_a_cache_for_each_object_store(monkeypatch) -> None:
    monkeypatch.setenv("RAXALIGN_CACHE", "/cache")
    data, one, other = (Storage(root).local for root in ("/data", "s3://one", "s3://other"))
    assert (data, one.parent, other.parent) == (Path("/data"), Path("/cache"), Path("/cache"))
    assert one != other


def test_a_worker_is_held_to_its_threads(plan, job, monkeypatch) -> None:
    for name in thread_limits(3):
        monkeypatch.setenv(name, "")
    reports = []
    workshop = open_workshop(
        Job(job.storage, job.plan, threads=3),
        report=lambda metrics, step: reports.append((metrics, step)),
        trains=False,
        rank=1,
        world_size=2,
    )
    assert os.environ["OMP_NUM_THREADS"] == "3"
    runtime = workshop.runtime
    assert (runtime.threads, runtime.rank, runtime.world_size, runtime.device) == (3, 1, 2, "cpu")
    runtime.report({"loss": 1.0}, 7)
    assert reports == [({"loss": 1.0}, 7)]
    assert workshop.plan.to_json() == plan.to_json()


def test_a_machine_that_joins_without_the_storage_is_named_and_does_nothing(job, tmp_path) -> None:
    sign = tmp_path / "sign"
    sign.write_bytes(b"")
    open_workshop(replace(job, sign=str(sign)), trains=False)
    sign.unlink()
    with pytest.raises(StorageError, match=f"{socket.gethostname()} does not see what the driver"):
        open_workshop(replace(job, sign=str(sign)), trains=False)
