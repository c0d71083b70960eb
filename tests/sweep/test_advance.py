"""Notes on stages that are being made: from the worker to the driver, and never in the way."""

from __future__ import annotations

from raxalign.sweep import advance
from raxalign.sweep.advance import Note, Notes


def test_the_driver_reads_the_last_step_of_each_stage(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(advance, "EVERY", 0.0)
    one, _ = Note(str(tmp_path), "one"), Note(str(tmp_path), "two")
    one.report({"encoder/loss": 3.0}, 10)
    one.report({"encoder/loss": 2.0}, 20)
    found = Notes(str(tmp_path)).read(["one", "two", "not begun"])
    assert {key: (note.step, note.values) for key, note in found.items()} == {
        "one": (20, {"encoder/loss": 2.0}),
        "two": (0, {}),
    }


def test_most_steps_write_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(advance, "EVERY", 1e9)
    note = Note(str(tmp_path), "one")
    note.report({"loss": 3.0}, 10)
    assert Notes(str(tmp_path)).read(["one"])["one"].step == 0


def test_a_note_that_cannot_be_written_or_read_stops_nothing(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    Note(str(tmp_path / "file"), "one").report({}, 1)
    Note("", "one").report({}, 1)
    assert Notes(str(tmp_path / "file")).read(["one"]) == {}
    assert Notes("").read(["one"]) == {}
