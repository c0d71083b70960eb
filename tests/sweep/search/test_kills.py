"""Searches whose drivers die, and searches with several drivers."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from raxalign.plan.load import Opened
from raxalign.plan.tried import Tried, read_record
from raxalign.store.ledger import Ledger
from tests.searches import open_search, run, run_both, search_grid, source_of

SEARCH = "trials: 6, confirm: 1"
PRUNED = f"{SEARCH}, pruner: {{name: asha, startup: 1, reduction: 2}}"


def tried_in(opened: Opened) -> tuple[Tried, ...]:
    (study,) = opened.plan.studies
    return read_record(opened.storage, study).tried


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
    return [
        replace(
            entry,
            seconds=None,
            stopped=replace(entry.stopped, saved=0.0) if entry.stopped else None,
        )
        for entry in tried
    ]


@pytest.mark.slow
@pytest.mark.parametrize("search", [SEARCH, PRUNED], ids=["whole", "pruned"])
def test_five_kills_end_in_the_same_trials_as_no_kill(tmp_path: Path, search: str) -> None:
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
    tried = without_times(tried_in(open_search(whole)))
    assert without_times(tried_in(open_search(killed))) == tried
    assert {entry.state for entry in tried} == (
        {"done"} if search == SEARCH else {"done", "pruned"}
    )
    assert (
        Ledger(str(tmp_path / "killed" / "storage")).keys()
        == Ledger(str(tmp_path / "whole" / "storage")).keys()
    )


def test_a_half_written_line_of_the_journal_is_left_out(tmp_path: Path) -> None:
    path = search_grid(tmp_path, SEARCH)
    source = source_of(open_search(path))
    run(source, most=3)
    before = source.journal.path.read_bytes()
    source.journal.path.write_bytes(before + b'{"op_code":4,"worker')
    run(source_of(open_search(path)))
    assert len(tried_in(open_search(path))) == 6


def test_two_drivers_on_one_study_make_each_trial_once(tmp_path: Path) -> None:
    opened = open_search(search_grid(tmp_path, SEARCH))
    ran = run_both([source_of(opened), source_of(opened)])
    assert len(ran) == len(set(ran)) == 6 + 1
    assert len({str(entry.values) for entry in tried_in(opened)}) == 6


def test_a_point_of_a_dead_driver_is_taken_over_and_no_ghost_stays(tmp_path: Path) -> None:
    opened = open_search(search_grid(tmp_path, SEARCH))
    dead = source_of(opened)
    left = dead.more({}, 1)
    assert left is not None
    dead.owner.leave()
    heir = source_of(open_search(tmp_path / "grid.yaml"))
    taken = heir.more({}, 1)
    assert taken is not None
    assert [trial.key for trial in taken.trials] == [trial.key for trial in left.trials]
    assert [entry.state for entry in tried_in(opened)] == ["running"]


def test_a_point_of_a_living_driver_is_left_to_it(tmp_path: Path) -> None:
    opened = open_search(search_grid(tmp_path, SEARCH))
    first, second = source_of(opened).more({}, 1), source_of(opened).more({}, 1)
    assert first is not None
    assert second is not None
    assert {t.key for t in first.trials}.isdisjoint({t.key for t in second.trials})
