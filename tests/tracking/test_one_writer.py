"""Of several drivers of a grid one writes its runs; what others have made it copies at its end, or
`sync` does. MLflow and its database are real.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace

import pytest

from raxalign.store.files import files_of
from raxalign.tracking import client
from raxalign.tracking.client import TrackingHeld
from raxalign.tracking.recorder import Recorder, SeenTrial
from tests.forks import forks
from tests.test_tracking import WHOLE, counts, fill, small, target

pytestmark = pytest.mark.slow


def test_a_second_driver_leaves_the_runs_to_the_first_until_that_has_ended(tmp_path, plan):
    where = target(tmp_path)
    one, other = Recorder(plan, where), Recorder(plan, where)
    one.open()
    one.follow([SeenTrial(plan.trials[0])])
    with pytest.raises(TrackingHeld, match=r"another driver, on .* copies the runs of small"):
        other.open()
    with pytest.raises(TrackingHeld):
        Recorder.sync(plan, where)
    fill(tmp_path, plan)  # by the other
    assert one.close() == 2
    assert counts(where.uri) == WHOLE
    other.open()
    assert other.close() == 2
    assert counts(where.uri) == WHOLE


def test_a_driver_of_another_grid_of_the_same_name_is_told_so(tmp_path, plan):
    where = target(tmp_path)
    other = Recorder(small(tmp_path, methods=("znorm: {}",)), where)
    one = Recorder(plan, where)
    one.open()
    with pytest.raises(TrackingHeld, match="copies the runs of another grid that is called small"):
        other.open()
    one.close()


def test_other_grids_of_the_storage_have_writers_of_their_own(tmp_path):
    where = target(tmp_path)
    with where.only_writer("one"), where.only_writer("two"):
        pass


def test_what_another_driver_adds_while_the_writer_ends_is_copied_too(tmp_path, plan):
    class Late(Recorder):
        def _compared(self, found):
            fill(tmp_path, plan)
            return super()._compared(found)

    where = target(tmp_path)
    recorder = Late(plan, where)
    recorder.open()
    assert recorder.close() == 2
    assert counts(where.uri) == WHOLE


def _open_and_die(plan, where) -> None:
    recorder = Recorder(plan, where)
    recorder.open()
    recorder.follow([SeenTrial(plan.trials[0])])
    os._exit(9)


def test_a_writer_that_died_is_followed_at_once(tmp_path, plan):
    where = target(tmp_path)
    process = forks().Process(target=_open_and_die, args=(plan, where))
    process.start()
    process.join()
    assert ("trial", "RUNNING") in counts(where.uri)
    copy = f"sqlite:///{shutil.copy(tmp_path / 'mlflow.db', tmp_path / 'copy.db')}"
    assert Recorder.end_dead(replace(where, uri=copy)) == 3
    assert counts(copy) == {(kind, "KILLED"): 1 for kind in ("grid", "cell", "trial")}
    recorder = Recorder(plan, where)
    recorder.open()
    kinds = {("grid", "RUNNING"): 1, ("trial", "KILLED"): 1, ("cell", "KILLED"): 1}
    assert counts(where.uri) == kinds


@pytest.mark.parametrize("silent", [True, False])
def test_a_writer_on_another_machine_counts_while_it_gives_signs(tmp_path, monkeypatch, silent):
    where = target(tmp_path)
    record = {"maker": "0badcafe-1-1", "host": "rax2", "pid": 1, "nonce": "x", "beat": 0}
    lock = f"locks/{where.writer_lock('small')}/1"
    files_of(str(tmp_path)).write(lock, json.dumps({**record, "done": False}).encode())
    clock = iter(range(1_000_000))
    monkeypatch.setattr(client.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(time, "sleep", lambda seconds: None if silent else beat())

    def beat() -> None:
        record["beat"] += 1
        files_of(str(tmp_path)).write(lock, json.dumps({**record, "done": False}).encode())

    def take() -> str:
        with where.only_writer("small"):
            return "taken"

    if silent:
        assert take() == "taken"
    else:
        with pytest.raises(TrackingHeld, match="on rax2"):
            take()
