"""Searches whose drivers die, and searches with several drivers, on one machine and on two."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from raxalign.grid.load import Opened, open_grid
from raxalign.grid.study import Tried
from raxalign.search import source as module
from raxalign.search.journal import SILENCE
from raxalign.search.source import SearchSource
from raxalign.store import lease
from raxalign.store.sealed import seal
from tests.aws import BUCKET
from tests.searches import (
    leave,
    measure,
    open_search,
    record_of,
    run,
    run_both,
    search_grid,
    source_of,
)

ELSEWHERE = "0badcafe-1-1"
SEARCH = "trials: 6, confirm: 1"
PRUNED = f"{SEARCH}, pruner: asha"


def forked(work: Callable[[], object], *, dies_at: int | None = None) -> int:
    """Do some work in a copy of this process that kills itself at a call of a function, if it has
    so many; returns how many calls it made (0 where it was killed).
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"
            if calls == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.setprofile(count)
            work()
            sys.setprofile(None)
            os.write(writing, str(calls).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        return int(pipe.read() or 0)


def without_times(tried: tuple[Tried, ...]) -> list[Tried]:
    """Return points without what the clock measured."""
    return [replace(one, seconds=None) for one in tried]


@pytest.mark.slow
@pytest.mark.parametrize("search", [SEARCH, PRUNED], ids=["whole", "pruned"])
def test_five_kills_end_in_the_same_trials_as_no_kill(tmp_path, search):
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    whole = search_grid(tmp_path / "whole", search)
    calls = forked(lambda: run(source_of(open_search(whole))))
    assert calls > 0
    killed = search_grid(tmp_path / "killed", search)
    chance = random.Random(20)
    for _ in range(5):
        moment = chance.randrange(calls // 10, calls // 3)
        assert forked(lambda: run(source_of(open_search(killed))), dies_at=moment) == 0
    run(source_of(open_search(killed)))
    undisturbed, opened = open_search(whole), open_search(killed)
    tried = without_times(record_of(undisturbed).tried)
    assert without_times(record_of(opened).tried) == tried
    states = {"done"} if search == SEARCH else {"done", "pruned"}
    assert {entry.state for entry in tried} == states
    assert opened.storage.ledger.keys() == undisturbed.storage.ledger.keys()


def test_two_drivers_on_one_study_make_each_trial_once(tmp_path):
    opened = open_search(search_grid(tmp_path, SEARCH))
    ran = run_both([source_of(opened), source_of(opened)])
    assert len(ran) == len(set(ran)) == 6 + 1
    assert len({str(entry.values) for entry in record_of(opened).tried}) == 6


def test_a_point_of_a_dead_driver_is_taken_over_and_no_ghost_stays(tmp_path):
    opened = open_search(search_grid(tmp_path, SEARCH))
    dead = source_of(opened)
    left = dead.more({}, 1)
    leave(dead)
    heir = source_of(open_search(tmp_path / "grid.yaml"))
    taken = heir.more({}, 1)
    assert [trial.key for trial in taken.trials] == [trial.key for trial in left.trials]
    assert [entry.state for entry in record_of(opened).tried] == ["running"]


@pytest.fixture
def opened(tmp_path, proxy, monkeypatch) -> Opened:
    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    path = search_grid(tmp_path, "trials: 3, confirm: 1")
    return open_grid(path, storage=f"s3://{BUCKET}/{tmp_path.name}")


def test_drivers_on_two_machines_make_each_trial_once(opened):
    ran = run_both([source_of(opened), source_of(opened)])
    assert len(ran) == len(set(ran)) == 3 + 1
    record = record_of(opened)
    assert [entry.state for entry in record.tried] == ["done"] * 3
    assert len({str(entry.values) for entry in record.tried}) == 3


def test_a_machine_that_is_lost_loses_no_point(opened, monkeypatch):
    lost, heir = source_of(opened), source_of(opened)
    elsewhere(lost)
    left = lost.more({}, 1)
    own = heir.more({}, 1)
    assert own.trials[0].key != left.trials[0].key, "the other machine gives signs of life"
    measure(opened.storage.ledger, own, own.trials[0])
    clock = lease._clock
    monkeypatch.setattr(lease, "_clock", lambda files: clock(files) + SILENCE + 1)
    taken = heir.more({own.trials[0].key: None}, 1)
    assert taken.trials[0].key == left.trials[0].key


def elsewhere(source: SearchSource) -> None:
    """Let the lock of a driver be one of another machine."""
    path = f"locks/{source.owner}/1"
    record = json.loads(source.opened.storage.files.read(path))
    del record["sha256"]
    source.opened.storage.files.write(path, seal({**record, "maker": ELSEWHERE}))


def test_a_driver_whose_workers_are_busy_or_that_has_just_looked_asks_the_store_nothing(
    opened, proxy, monkeypatch
):
    driver = source_of(opened)
    assert driver.more({}, 1) is not None
    before = len(proxy.requests)
    assert driver.more({}, 0) is None
    monkeypatch.setattr(module, "PAUSE", 1000.0)
    assert driver.more({}, 1) is None
    assert len(proxy.requests) == before
    assert dataclasses.replace(driver).more({}, 0) is None, "a driver that has just begun looks"
    assert len(proxy.requests) > before
