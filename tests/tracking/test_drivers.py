"""Who a driver is, and when it counts as dead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from raxalign.store import drivers as store
from raxalign.store.alive import maker_name
from raxalign.store.storage import Storage
from raxalign.tracking.drivers import SILENCE, Driver, this_driver

HERE = Driver(maker_name())


def elsewhere(age: float) -> str:
    return json.dumps({"name": "0badcafe-1-1", "at": time.time() - age})


def test_this_process_lives_until_another_one_has_its_id(tmp_path: Path) -> None:
    here = this_driver(Storage(str(tmp_path)))
    machine, pid, started = here.name.split("-")
    assert pid == str(os.getpid())
    assert here.finds_alive(here.sign())
    assert not here.finds_alive(Driver(f"{machine}-{pid}-{int(started) + 1}").sign())


def test_a_process_that_ended_is_dead_even_before_its_parent_asked_for_it() -> None:
    code = "from raxalign.store.alive import maker_name; print(maker_name(), flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    sign = Driver(process.stdout.readline().strip()).sign()
    assert HERE.finds_alive(sign)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not HERE.finds_alive(sign)
    process.communicate()
    assert not HERE.finds_alive(sign)


def test_a_driver_on_another_machine_lives_as_long_as_it_gave_a_sign_lately() -> None:
    assert HERE.finds_alive(elsewhere(SILENCE / 2))
    assert not HERE.finds_alive(elsewhere(SILENCE + 1))


@pytest.mark.parametrize(
    "sign",
    ['{"name": "0badcafe-1-1", "at": 1e12}', "[" * 9_999, "{}", '{"at": null}', "1"],
    ids=len,
)
def test_a_sign_from_the_far_future_and_one_that_cannot_be_read_are_no_signs_of_life(
    sign: str,
) -> None:
    assert not HERE.finds_alive(sign)


@pytest.mark.parametrize("off", [-3600.0, 0.0, 3600.0])
@pytest.mark.parametrize("kind", ["", "memory://"])
def test_a_driver_whose_clock_is_wrong_lives_and_dies_as_others_do(
    off: float, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"{kind}{tmp_path}/root"
    with monkeypatch.context() as patch:
        clock = time.time
        patch.setattr(store.time, "time", lambda: clock() + off)
        wrong = Driver("0badcafe-1-1", this_driver(Storage(root)).lead)
        sign = wrong.sign()
    here = this_driver(Storage(root))
    assert here.finds_alive(sign)
    later = Driver(here.name, here.lead + SILENCE + 5)
    assert not later.finds_alive(sign)


def test_a_storage_that_cannot_be_written_has_no_clock(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert this_driver(Storage(str(tmp_path / "file"))).lead == 0.0
