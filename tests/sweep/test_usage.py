"""What a worker uses while a trial runs is sampled, and the hours of its cards are counted."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from raxalign.sweep import usage
from raxalign.sweep.job import Job
from raxalign.sweep.usage import used


class Heard(Spool):
    """A spool that says when something was reported."""

    def __init__(self, root: Path) -> None:
        super().__init__(Storage(str(root)), "trial")
        self.reported = threading.Event()

    def report(self, metrics: Mapping[str, float], step: int) -> None:
        super().report(metrics, step)
        self.reported.set()


def test_a_worker_is_sampled_while_it_works_and_not_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "EVERY", 0.01)
    spool = Heard(tmp_path)
    with used(spool, Job(Storage(str(tmp_path)), ""), 0):
        assert spool.reported.wait(60)
    spool.flush()
    names = {name for name, *_ in spool.read()}
    assert names == {"system/cpu_utilization_percentage", "system/process_memory_megabytes"}
    assert {thread.name for thread in threading.enumerate()}.isdisjoint({"raxalign-usage"})


def test_the_hours_of_cards_are_those_of_each_worker_of_an_attempt(tmp_path: Path) -> None:
    spool = Heard(tmp_path)
    for rank in (0, 1):
        with used(spool, Job(Storage(str(tmp_path)), "", gpus=0.5), rank):
            pass
    spool.flush()
    found = {name: value for name, value, *_ in spool.read()}
    assert found.keys() == {"gpu_hours/0", "gpu_hours/1"}
    assert all(0 < value < 1 for value in found.values())


def test_short_work_has_no_samples(tmp_path: Path) -> None:
    spool = Heard(tmp_path)
    with used(spool, Job(Storage(str(tmp_path)), ""), 0):
        pass
    spool.flush()
    assert spool.read() == []
