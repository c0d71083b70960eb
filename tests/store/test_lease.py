"""Locks in a storage: one holder, whatever dies."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from raxalign.store import lease as module
from raxalign.store._temporary import maker_name
from raxalign.store.files import files_of
from raxalign.store.lease import Holder, clear, lease


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK", 0.01)


def holder(root: str, number: int = 1) -> dict[str, object]:
    record: dict[str, object] = json.loads(files_of(root).read(f"locks/training/{number}"))
    return record


def held_by(root: str, **changes: object) -> None:
    """The lock of another machine, which gives no sign of life."""
    record = {"maker": "0badcafe-1-1", "host": "other", "pid": 1, "beat": 0, "done": False}
    files_of(root).write("locks/training/1", json.dumps({**record, **changes}).encode())


def test_one_after_the_other_holds_it(root: str) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        with lease(root, "training"):
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1, 1]


def test_who_waits_is_told_once_who_holds_it(root: str) -> None:
    told: list[str] = []
    held_by(root)
    waiter = threading.Thread(target=lambda: wait(root, told))
    waiter.start()
    while not told:
        pass
    held_by(root, done=True)
    waiter.join()
    assert told == ["other (process 1)"]
    assert holder(root, 2)["done"] is True, "a number is not used again"
    assert list(files_of(root).names("locks/training")) == ["2"]


def wait(root: str, told: list[str]) -> None:
    with lease(root, "training", told.append):
        pass


def test_a_silent_holder_of_another_machine_loses_it(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXPIRY", 0.05)
    held_by(root)
    with lease(root, "training"):
        assert holder(root, 2)["done"] is False


def test_a_holder_that_is_known_to_be_dead_loses_it_at_once(root: str) -> None:
    asked: list[Holder] = []

    def patience(holder: Holder) -> float:
        asked.append(holder)
        return 0.0

    held_by(root)
    with lease(root, "training", patience=patience):
        assert asked == [Holder("other", "0badcafe-1-1")]


def test_who_waits_asks_again_whether_the_holder_lives(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ASK", 0.02)
    answers = iter([100.0, 100.0, 0.0])
    held_by(root)
    with lease(root, "training", patience=lambda holder: next(answers)):
        assert list(answers) == []


def test_a_process_is_known_on_its_own_machine_alone() -> None:
    machine, pid, started = maker_name().split("-")
    assert Holder("here", f"{machine}-{pid}-{started}").lives() is True
    assert Holder("here", f"{machine}-{pid}-1").lives() is False
    assert Holder("other", f"0badcafe-{pid}-{started}").lives() is None


def test_a_holder_that_gives_signs_of_life_keeps_it(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter(range(1, 100))
    monkeypatch.setattr(module, "EXPIRY", 10.0)
    clock = iter(range(0, 1000, 9))  # nine seconds pass with each look at the clock
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))

    def sleep(seconds: float) -> None:
        beat = next(looks)
        held_by(root, beat=beat, done=beat > 5)

    held_by(root)
    monkeypatch.setattr(module.time, "sleep", sleep)
    with lease(root, "training"):
        assert next(looks) == 7, "the lock was free when the holder gave it back, not before"


def test_a_dead_process_of_this_machine_holds_nothing(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = maker_name().split("-")[0]
    held_by(root, maker=f"{machine}-999999999-1")
    with lease(root, "training"):
        pass


def test_a_damaged_lock_is_waited_for_until_it_expires(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXPIRY", 0.05)
    files_of(root).write("locks/training/1", b"{")
    with lease(root, "training"):
        pass


def test_what_is_raised_inside_frees_it(root: str) -> None:
    with pytest.raises(KeyError), lease(root, "training"):
        raise KeyError
    with lease(root, "training"):
        pass
    clear(root, "training")
    assert files_of(root).names("locks") == {}


def test_a_holder_that_lost_it_leaves_the_next_one_alone(root: str, tmp_path: Path) -> None:
    with lease(root, "training"):
        files_of(root).write("locks/training/2", b"another's")
    assert files_of(root).read("locks/training/2") == b"another's"
