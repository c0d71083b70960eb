"""A storage that is not shared is refused by the names of the machines without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import ray

from raxalign.errors import StorageError
from raxalign.store.storage import Storage
from raxalign.sweep import shared
from raxalign.sweep.shared import check_shared, describe_faults, leave_sign


def test_the_message_names_each_machine_with_what_it_found_and_what_to_do() -> None:
    message = describe_faults(
        Storage("/data"),
        {"n1": "b (10.0.0.2)", "n2": "a"},
        {"n1": "does not see it", "n2": "cannot write"},
    )
    assert message == (
        "/data: not every machine of the cluster has this storage: a cannot write; b (10.0.0.2)"
        " does not see it. Mount one shared file system at that path on all of them, or give an"
        " object store (--storage s3://...)"
    )


def test_a_sign_has_a_name_of_its_own(job) -> None:
    one, other = leave_sign(job), leave_sign(job)
    assert one != other
    assert Path(one).parent == Path(other).parent == Path(job.scratch)


@pytest.mark.slow
def test_a_machine_without_the_sign_is_refused_and_one_with_it_answers(job, local_ray) -> None:
    job = replace(job, sign=leave_sign(job))
    check_shared(job)
    (node,) = (node["NodeID"] for node in ray.nodes())
    assert Path(f"{job.sign}.{node}").exists()
    Path(job.sign).unlink()
    with pytest.raises(StorageError, match="does not see what the driver wrote there"):
        check_shared(job)


@pytest.mark.slow
def test_a_machine_that_writes_elsewhere_is_refused(job, local_ray, monkeypatch) -> None:
    job = replace(job, sign=leave_sign(job))
    monkeypatch.setattr(shared, "sees", lambda place: False)
    with pytest.raises(StorageError, match="writes to another place of that name"):
        check_shared(job)
