"""Locks in a storage: one holder, whatever dies; and who lives."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pytest

from raxalign.errors import LeaseLost
from raxalign.store import lease as module
from raxalign.store.alive import maker_name
from raxalign.store.files import files_of
from raxalign.store.lease import Held, Holder, Locks
from raxalign.store.sealed import seal
from raxalign.store.storage import Storage


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.01)


def holder(root, number=1):
    return json.loads(files_of(root).read(f"locks/training/{number}"))


RECORD = {"maker": "0badcafe-1-1", "host": "other", "pid": 1}
RECORD |= {"nonce": "x", "beat": 0, "done": False}


def held_by(root, number=1, **changes):
    """The lock of another machine, which gives no sign of life."""
    files_of(root).write(f"locks/training/{number}", seal({**RECORD, **changes}))


def test_one_after_the_other_holds_it(root):
    inside = []

    def work(number):
        with Storage(root).locks.hold("training"):
            inside.append(number)
            most = len(inside)
            inside.remove(number)
        return most

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [1, 1, 1, 1]


def test_who_waits_is_told_once_who_holds_it(root):
    told = SimpleQueue()

    def wait():
        with Storage(root).locks.hold("training", told.put):
            pass

    held_by(root)
    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    assert told.get(timeout=60) == "other (process 1)"
    held_by(root, done=True)
    waiter.join()
    assert told.empty()
    assert holder(root, 2)["done"] is True, "a number is not used again"
    assert list(files_of(root).names("locks/training")) == ["2"]


@pytest.mark.parametrize(
    "lock", [seal(RECORD), "dead here", b"{"], ids=["silent elsewhere", "dead here", "damaged"]
)
def test_a_silent_dead_or_damaged_holder_loses_it(root, monkeypatch, lock):
    if lock == "dead here":  # a process of this machine is asked for at once
        machine = maker_name().partition("-")[0]
        lock = seal({**RECORD, "maker": f"{machine}-999999999-1"})
    else:
        monkeypatch.setattr(Locks, "EXPIRY", 0.05)
    files_of(root).write("locks/training/1", lock)
    with Storage(root).locks.hold("training"):
        assert holder(root, 2)["done"] is False


def test_a_holder_that_is_known_to_be_dead_loses_it_at_once(root):
    asked = []

    def patience(holder):
        asked.append(holder)
        return 0.0

    held_by(root)
    with Storage(root).locks.hold("training", patience=patience):
        assert asked == [Holder("other", "0badcafe-1-1")]


def test_who_waits_asks_again_whether_the_holder_lives(root, monkeypatch):
    monkeypatch.setattr(Locks, "ASK", 0.02)
    answers = iter([100.0, 100.0, 0.0])
    held_by(root)
    with Storage(root).locks.hold("training", patience=lambda holder: next(answers)):
        assert list(answers) == []


def test_a_process_is_known_on_its_own_machine_alone():
    machine, pid, started = maker_name().split("-")
    assert Holder("here", f"{machine}-{pid}-{started}").lives() is True
    assert Holder("here", f"{machine}-{pid}-1").lives() is False
    assert Holder("other", f"0badcafe-{pid}-{started}").lives() is None


def test_a_holder_that_gives_signs_of_life_keeps_it(root, monkeypatch):
    looks = iter(range(1, 100))
    monkeypatch.setattr(Locks, "EXPIRY", 10.0)
    clock = iter(range(0, 1000, 9))  # nine seconds pass with each look at the clock
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))

    def sleep(seconds):
        beat = next(looks)
        held_by(root, beat=beat, done=beat > 5)

    held_by(root)
    monkeypatch.setattr(module.time, "sleep", sleep)
    with Storage(root).locks.hold("training"):
        assert next(looks) == 7, "the lock was free when the holder gave it back, not before"


def test_what_is_raised_inside_frees_it(root):
    with pytest.raises(KeyError), Storage(root).locks.hold("training"):
        raise KeyError
    with Storage(root).locks.hold("training"):
        pass
    assert Storage(root).locks.living() == {}


def test_a_holder_that_lost_it_leaves_the_next_one_alone(root, tmp_path):
    with Storage(root).locks.hold("training"):
        files_of(root).write("locks/training/2", b"another's")
    assert files_of(root).read("locks/training/2") == b"another's"


class Slow:
    """A storage whose process is stopped before its first creation, while other things happen."""

    def __init__(self, storage, meanwhile):
        self.storage, self.meanwhile = storage, [meanwhile]

    def __getattr__(self, name):
        return getattr(self.storage, name)

    def create(self, path, data):
        if self.meanwhile:
            self.meanwhile.pop()()
        return self.storage.create(path, data)


def take_after(root, meanwhile):
    """Have a process look, stop, and go on; returns those that it then had to wait for."""
    waited = []

    def wait(holder):
        waited.append(holder)
        held_by(root, 3, done=True)

    slow = Held(Slow(files_of(root), meanwhile), "training")
    slow.take(wait)
    return waited


def test_who_was_stopped_between_its_look_and_its_creation_waits_for_the_holder(root):
    """The number that it creates was another one's, which the holder of the next one removed."""

    def others():
        held_by(root, 3, done=False)
        files_of(root).delete("locks/training/1")

    held_by(root, 1, done=True)
    assert take_after(root, others) == ["other (process 1)"]
    assert sorted(files_of(root).names("locks/training")) == ["4"]


def test_who_was_stopped_while_the_lock_was_removed_does_not_take_it_beside_its_holder(root):
    waited = []

    def others():
        files_of(root).remove("locks/training")
        holder.take(waited.append)

    def wait(process):
        waited.append(process)
        holder.give_back()

    holder = Held(files_of(root), "training")
    held_by(root, 4, done=True)
    slow = Held(Slow(files_of(root), others), "training")
    slow.take(wait)
    assert len(waited) == 1
    assert not holder.is_held()
    assert slow.is_held()


HOLDER = """
import sys, time
import tests.fake_bucket
from raxalign.errors import LeaseLost
from raxalign.store import lease as module
from raxalign.store.storage import Storage

module.BEAT, module.LOOK = 0.05, 0.01
with Storage(sys.argv[1]).locks.hold("training") as held:
    print("held", flush=True)
    try:
        while True:
            held.check()
            time.sleep(0.01)
    except LeaseLost as lost:
        print(lost, flush=True)
"""


def test_a_holder_that_was_stopped_for_too_long_learns_that_it_lost_the_lock(shared, monkeypatch):
    monkeypatch.setattr(Locks, "EXPIRY", 0.25)
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    command = [sys.executable, "-c", HOLDER, shared]
    environment = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        os.kill(process.pid, signal.SIGSTOP)
        with Storage(shared).locks.hold("training") as held:
            os.kill(process.pid, signal.SIGCONT)
            assert "another process has taken this lock" in process.stdout.readline()
            assert process.wait() == 0, "it gave back nothing that is not its own"
            held.check()
            assert held.is_held()
        with pytest.raises(LeaseLost):
            lose(shared, held)


def lose(root, held):
    """Have another process take the lock, and the former holder give a sign of life."""
    Held(files_of(root), "training").take()
    held.beat()
    held.check()


def test_a_driver_is_seen_while_it_works_and_leaves_nothing(root):
    name = Locks.own_name("drivers", "plan.json")
    with Storage(root).locks.hold(name), Storage(root).locks.hold("making/mine"):
        who = f"{socket.gethostname()} (process {os.getpid()})"
        assert Storage(root).locks.living("drivers") == {name: who}
        assert Storage(root).locks.living().keys() == {name, "making/mine"}
    assert Storage(root).locks.living() == {}
    assert list(files_of(root).names("locks")) == ["making/mine/1"], "its number is not used again"


def test_a_driver_whose_lock_was_removed_while_it_slept_is_seen_again(root):
    name = Locks.own_name("drivers", "plan.json")
    with Storage(root).locks.hold(name) as held:
        files_of(root).remove(f"locks/{name}")
        held.beat()
        assert Storage(root).locks.living().keys() == {name}


def test_a_killed_holder_of_this_machine_is_dead_at_once(shared):
    code = (
        "import os, tests.fake_bucket; from raxalign.store.storage import Storage\n"
        f"with Storage({shared!r}).locks.hold('drivers/x'): print(os.getpid(), flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes) as process:
        pid = int(process.stdout.readline())
        assert Storage(shared).locks.living()["drivers/x"].endswith(f"(process {pid})")
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert Storage(shared).locks.living() == {}, "even before its parent asked for it"
    assert Storage(shared).locks.living() == {}


@pytest.mark.parametrize("off", [-1e9, -3600.0, 3600.0, 1e9])
@pytest.mark.parametrize("kind", ["", "bucket://", "memory://"])
def test_one_of_another_machine_lives_while_it_gave_a_sign_lately_whatever_the_clocks_here(
    kind, off, tmp_path, monkeypatch
):
    """The storage dates signs, and says what time it is."""
    root = f"{kind}{tmp_path}/root"
    held_by(root)
    clock = time.time
    monkeypatch.setattr(module.time, "time", lambda: clock() + off)
    assert Storage(root).locks.living() == {"training": "other (process 1)"}
    now = module._clock(files_of(root))
    for later, lives in ((299.0, True), (301.0, False), (-301.0, False)):
        monkeypatch.setattr(module, "_clock", lambda files, later=later: now + later)
        assert bool(Storage(root).locks.living("training", 300.0)) is lives
        assert Storage(root).locks.living(), "for a day, where nothing else is said"
    assert files_of(root).names("").keys() == {"locks/training/1"}, "asking leaves nothing"


@pytest.mark.parametrize("lock", [b"{", b'{"maker": null}', seal({"at": 1.0})], ids=len)
def test_a_damaged_lock_counts_as_held_for_a_day(root, lock, monkeypatch):
    files_of(root).write("locks/training/1", lock)
    assert Storage(root).locks.living() == {"training": "another machine (process None)"}
    now = time.time()
    monkeypatch.setattr(module, "_clock", lambda files: now + 2 * module.DAY_SECONDS)
    assert Storage(root).locks.living() == {}


def test_a_storage_that_cannot_be_written_has_the_clock_of_this_machine(tmp_path):
    (tmp_path / "file").touch()
    before = time.time()
    assert before <= module._clock(files_of(str(tmp_path / "file"))) <= time.time()
