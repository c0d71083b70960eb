"""Who a driver of a search is, and when it counts as dead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from raxalign.store import drivers
from raxalign.store.alive import maker_name
from raxalign.store.drivers import SILENCE, clock_lead, dated_sign, is_alive
from raxalign.store.storage import Storage

ELSEWHERE = "0badcafe-1-1"


def sign(name: str, lead: float = 0.0) -> str:
    return json.dumps(dated_sign(name, lead))


def test_this_process_lives_until_another_one_has_its_id() -> None:
    machine, pid, started = maker_name().split("-")
    assert pid == str(os.getpid())
    assert is_alive(sign(maker_name()), 0.0)
    assert not is_alive(sign(f"{machine}-{pid}-{int(started) + 1}"), 0.0)


def test_a_process_that_ended_is_dead_even_before_its_parent_asked_for_it() -> None:
    code = "from raxalign.store.alive import maker_name; print(maker_name(), flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    left = sign(process.stdout.readline().strip())
    assert is_alive(left, 0.0)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(left, 0.0)
    process.communicate()
    assert not is_alive(left, 0.0)


@pytest.mark.parametrize(
    "text",
    ['{"name": "0badcafe-1-1", "at": 1e12}', "[" * 9_999, "{}", '{"at": null}', "1"],
    ids=len,
)
def test_a_sign_from_the_far_future_and_one_that_cannot_be_read_are_no_signs_of_life(text) -> None:
    assert not is_alive(text, 0.0)


@pytest.mark.parametrize("off", [-3600.0, 0.0, 3600.0])
@pytest.mark.parametrize("kind", ["", "memory://"])
def test_a_driver_on_another_machine_lives_while_it_gave_a_sign_lately_also_with_a_wrong_clock(
    off: float, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(f"{kind}{tmp_path}/root")
    with monkeypatch.context() as patch:
        clock = time.time
        patch.setattr(drivers.time, "time", lambda: clock() + off)
        left = sign(ELSEWHERE, clock_lead(storage))
    here = clock_lead(storage)
    assert is_alive(left, here)
    assert is_alive(left, here + SILENCE / 2)
    assert not is_alive(left, here + SILENCE + 5)


def test_a_storage_that_cannot_be_written_has_no_clock(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert clock_lead(Storage(str(tmp_path / "file"))) == 0.0
