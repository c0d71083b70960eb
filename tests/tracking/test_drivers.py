"""Who a driver is, and when it counts as dead."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace

from raxalign.tracking.drivers import (
    SILENCE,
    Driver,
    dead,
    lives,
    living,
    process_lives,
    this_driver,
)

HERE = this_driver()


def elsewhere(age: float) -> str:
    return json.dumps({"host": "elsewhere", "pid": 1, "started": 1, "at": time.time() - age})


def test_this_process_lives_until_another_one_has_its_id() -> None:
    assert (HERE.host, HERE.pid) == (socket.gethostname(), os.getpid())
    assert lives(HERE.sign())
    assert HERE.started is None or not lives(replace(HERE, started=HERE.started + 1).sign())


def test_a_process_that_ended_is_dead_even_before_its_parent_asked_for_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    driver = replace(HERE, pid=process.pid, started=None)
    assert lives(driver.sign())
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert HERE.started is None or not process_lives(process.pid)
    process.communicate()
    assert not lives(driver.sign())


def test_a_driver_on_another_machine_lives_as_long_as_it_gave_a_sign_lately() -> None:
    assert lives(elsewhere(SILENCE / 2))
    assert not lives(elsewhere(SILENCE + 1))


def test_signs_are_told_apart_by_tags_and_other_tags_are_no_signs() -> None:
    gone = Driver("gone/host", 1, None)
    tags = {
        "raxalign.key": "grid:x",
        HERE.tag: HERE.sign(),
        "raxalign.driver.near": elsewhere(0),
        gone.tag: elsewhere(SILENCE + 1),
    }
    assert gone.tag == "raxalign.driver.gone_host-1"
    assert living(tags) == [HERE.tag, "raxalign.driver.near"]
    assert living(tags, apart_from=HERE) == ["raxalign.driver.near"]
    assert dead(tags) == [gone.tag]
