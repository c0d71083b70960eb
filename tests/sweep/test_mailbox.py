"""What workers tell the driver: it stops nothing, and is shown once."""

from __future__ import annotations

from raxalign.sweep import mailbox
from raxalign.sweep.mailbox import HELD_UP, PRINTED, Inbox, Outbox


def begun(scratch: object, key: str) -> Outbox:
    outbox = Outbox(str(scratch), key)
    outbox.begin()
    return outbox


def test_the_driver_reads_the_last_step_of_each_job(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(mailbox, "EVERY", 0.0)
    one, _ = begun(tmp_path, "one"), begun(tmp_path, "two")
    one.report({"encoder/loss": 3.0}, 10)
    one.report({"encoder/loss": 2.0}, 20)
    found = Inbox(str(tmp_path)).advances(["one", "two", "not begun"])
    assert {key: (note.step, note.values) for key, note in found.items()} == {
        "one": (20, {"encoder/loss": 2.0}),
        "two": (0, {}),
    }


def test_most_steps_write_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(mailbox, "EVERY", 1e9)
    begun(tmp_path, "one").report({"loss": 3.0}, 10)
    assert Inbox(str(tmp_path)).advances(["one"])["one"].step == 0


def test_a_group_waits_until_its_first_worker_begins_and_after_a_loss_anew(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(mailbox.time, "monotonic", lambda: clock[0])
    outbox, inbox, seen = Outbox(str(tmp_path), "one"), Inbox(str(tmp_path)), []
    for waiting in (True, False, True):
        clock[0] += 5.0
        outbox.begin(waiting=waiting)
        for _ in range(2):
            seen.append(inbox.advances(["one"])["one"])
            clock[0] += 2.0
    assert [(advance.waiting, advance.seconds) for advance in seen] == [
        (waiting, seconds) for waiting in (True, False, True) for seconds in (0.0, 2.0)
    ]


def test_each_line_is_read_once_and_in_order(tmp_path) -> None:
    found = Inbox(str(tmp_path))
    assert found.lines() == []
    Outbox(str(tmp_path), "b").hold_up("first")
    Outbox(str(tmp_path), "a").print("second: ü")
    assert found.lines() == [(HELD_UP, "b", "first"), (PRINTED, "a", "second: ü")]
    Outbox(str(tmp_path), "b").hold_up("third")
    assert found.lines() == [(HELD_UP, "b", "third")]
    assert found.lines() == []


def test_what_cannot_be_written_or_read_stops_nothing(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    for scratch in (str(tmp_path / "file"), ""):
        outbox = begun(scratch, "a")
        outbox.report({}, 1)
        outbox.hold_up("lost")
        assert (Inbox(scratch).advances(["a"]), Inbox(scratch).lines()) == ({}, [])
