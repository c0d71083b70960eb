"""Checkpoints by the clock, written by a thread."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from raxalign.train import _progress, _writer
from raxalign.train._writer import Writer
from raxalign.train.checkpoint import read_checkpoint
from raxalign.train.loop import TrainSettings, fit
from raxalign.train.runtime import Runtime
from tests.train.problems import Regression, weights

SETTINGS = TrainSettings(learning_rate=0.05, batch_size=4, steps=20)


def record(step: int) -> dict[str, object]:
    return {"fingerprint": "x", "step": step}


def test_what_is_written_is_the_state_at_the_call_whatever_changes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes, write = threading.Event(), _writer.write_checkpoint

    def slow(*given: object) -> None:
        assert goes.wait(30)
        write(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(_writer, "write_checkpoint", slow)
    writer, tensor = Writer(tmp_path, lambda: None), torch.tensor([1.0, 2.0])
    writer.begin(4, record(4), {"a": tensor}, None)
    tensor.zero_()
    assert writer.busy
    assert read_checkpoint(tmp_path, "x") is None
    goes.set()
    writer.wait()
    found = read_checkpoint(tmp_path, "x")
    assert found is not None
    assert found.tensors["a"].tolist() == [1.0, 2.0]


def test_a_death_in_the_middle_of_writing_leaves_the_checkpoint_before_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(tmp_path, lambda: None)
    writer.begin(4, record(4), {"a": torch.ones(2)}, None)
    writer.wait()

    def dies(data: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("raxalign.train.checkpoint.seal", dies)
    writer.begin(8, record(8), {"a": torch.zeros(2)}, None)
    with pytest.raises(KeyboardInterrupt):
        writer.wait()
    found = read_checkpoint(tmp_path, "x")
    assert found is not None
    assert found.record["step"] == 4
    assert found.tensors["a"].tolist() == [1.0, 1.0]


def test_what_went_wrong_in_the_thread_ends_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_writer, "write_checkpoint", full)
    with pytest.raises(OSError, match="No space left"):
        fit(Regression(), 22, SETTINGS, Runtime(checkpoints=tmp_path, checkpoint_seconds=0))


def test_it_is_a_note_on_what_else_ended_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes = threading.Event()

    def full(*_: object) -> None:
        assert goes.wait(30)
        raise OSError(28, "No space left on device")

    def report(_: object, step: int) -> None:
        if step == 7:
            goes.set()
            raise ValueError("seven")

    monkeypatch.setattr(_writer, "write_checkpoint", full)
    runtime = Runtime(checkpoints=tmp_path, checkpoint_seconds=0, report=report)
    with pytest.raises(ValueError, match="seven") as caught:
        fit(Regression(), 22, SETTINGS, runtime)
    assert caught.value.__notes__ == [
        "the last checkpoint could not be written: [Errno 28] No space left on device"
    ]


def test_checkpoints_are_due_by_the_clock_and_none_waits_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, steps, begin = [0.0], list[int](), Writer.begin

    def begun(self: Writer, step: int, *given: object) -> None:
        steps.append(step)
        begin(self, step, *given)  # type: ignore[arg-type]
        self.wait()

    def tick() -> float:
        return now[0]

    class Timed(Regression):
        def end(self, step: object) -> None:
            now[0] += 30.0

    monkeypatch.setattr(Writer, "begin", begun)
    monkeypatch.setattr(_progress.time, "monotonic", tick)
    runtime = Runtime(checkpoints=tmp_path, checkpoint_seconds=120.0)
    fit(Timed(), 22, SETTINGS, runtime)
    assert steps == [4, 8, 12, 16]
    monkeypatch.setattr(Writer, "busy", True)
    fit(Timed(), 22, replace(SETTINGS, learning_rate=0.1), runtime)
    assert steps == [4, 8, 12, 16]


def test_a_training_that_was_saved_by_the_clock_is_resumed_bit_for_bit(tmp_path: Path) -> None:
    whole = Regression(dropout=0.3)
    fit(whole, 22, SETTINGS, Runtime())

    def report(_: object, step: int) -> None:
        if step == 13:
            raise ValueError("thirteen")

    runtime = Runtime(checkpoints=tmp_path, checkpoint_seconds=0)
    with pytest.raises(ValueError, match="thirteen"):
        fit(Regression(dropout=0.3), 22, SETTINGS, replace(runtime, report=report))
    resumed = Regression(dropout=0.3)
    fit(resumed, 22, SETTINGS, runtime)
    assert 0 < resumed.seen[0][0] < 13
    assert torch.equal(weights(resumed), weights(whole))
