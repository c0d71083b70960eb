"""Lines of workers on what holds a step up: the driver shows them once, and they stop nothing."""

from __future__ import annotations

from raxalign.sweep import messages
from raxalign.sweep.messages import Notices, leave_notice
from raxalign.sweep.room import Room
from raxalign.sweep.running import Sweep
from raxalign.sweep.source import Whole


def test_each_line_is_read_once_and_in_order(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(messages, "EVERY", 0.0)
    found = Notices(str(tmp_path))
    assert found.new() == []
    leave_notice(str(tmp_path), "b", "first")
    leave_notice(str(tmp_path), "a", "second: ü")
    assert found.new() == [("b", "first"), ("a", "second: ü")]
    leave_notice(str(tmp_path), "b", "third")
    assert found.new() == [("b", "third")]
    assert found.new() == []


def test_the_driver_looks_now_and_then(tmp_path) -> None:
    found = Notices(str(tmp_path))
    leave_notice(str(tmp_path), "a", "left")
    assert found.new() == [], "it has just begun"


def test_a_line_that_cannot_be_written_or_read_stops_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(messages, "EVERY", 0.0)
    (tmp_path / "file").write_text("")
    leave_notice(str(tmp_path / "file"), "a", "lost")
    leave_notice("", "a", "lost")
    assert Notices(str(tmp_path / "file")).new() == []
    assert Notices("").new() == []


def test_a_sweep_passes_on_what_holds_up_its_steps_and_only_those(plan, job, heard) -> None:
    sweep = Sweep(Whole(plan), job, heard, lambda: Room(job, [{"CPU": 2.0}]))
    sweep.ask()
    trial = plan.trials[0]
    stage = next(key for key, stage in plan.stages.items() if stage.kind == "encoder")
    for key in (trial.key, stage, "ended long ago"):
        sweep.delayed(key, "its worker was lost")
    assert heard.delays == [
        (trial, "its worker was lost"),
        (plan.stages[stage], heard.delays[1][1]),
    ]
