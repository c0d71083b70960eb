"""Saver: those that two processes write, one of which was overtaken and does not know it yet,
and those that a thread writes by the clock.
"""

import subprocess
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from raxalign.train import checkpoint
from raxalign.train.checkpoint import (
    Checkpoint,
    Saver,
    TrainProgress,
    read_checkpoint,
    write_checkpoint,
)
from raxalign.train.loop import adam, fit
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime
from tests.train.problems import Regression

SETTINGS = TrainSettings(learning_rate=0.05, batch_size=4, steps=20)


def write(folder, step, fingerprint="x", value=1.0):
    record = {"fingerprint": fingerprint, "step": step}
    write_checkpoint(folder, step, Checkpoint(record, {"a": torch.full((2,), value)}))


def there(folder):
    return sorted(path.name for path in folder.iterdir())


def test_who_is_behind_removes_nothing_that_is_further(tmp_path):
    write(tmp_path, 29)
    write(tmp_path, 10)
    found = read_checkpoint(tmp_path, "x")
    assert found.record["step"] == 29
    write(tmp_path, 39)
    assert there(tmp_path) == ["step-00000039"]


def test_what_is_further_of_another_training_goes(tmp_path):
    write(tmp_path, 29, "other")
    (tmp_path / "step-00000050").mkdir()
    write(tmp_path, 10)
    assert there(tmp_path) == ["step-00000010"]


def test_a_checkpoint_of_the_same_step_stays_and_a_damaged_one_is_replaced(tmp_path):
    write(tmp_path, 10)
    before = (tmp_path / "step-00000010").stat().st_ino
    write(tmp_path, 10)
    assert (tmp_path / "step-00000010").stat().st_ino == before
    (tmp_path / "step-00000010" / "state.safetensors").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="damaged"):
        write(tmp_path, 10, value=2.0)
    found = read_checkpoint(tmp_path, "x")
    assert found.tensors["a"].tolist() == [2.0, 2.0]
    assert there(tmp_path) == ["step-00000010"]


def test_one_that_is_removed_while_it_is_read_gives_way_to_the_one_it_was_removed_for(
    tmp_path, monkeypatch
):
    write(tmp_path, 10)
    read, late = checkpoint._tensors, [20]

    def slow(path, files):
        if late:
            write(tmp_path, late.pop())
        return read(path, files)

    monkeypatch.setattr(checkpoint, "_tensors", slow)
    with pytest.warns(UserWarning, match="is passed over"):
        found = read_checkpoint(tmp_path, "x")
    assert found.record["step"] == 20


def test_what_a_dead_process_was_writing_goes_and_what_a_living_one_writes_stays(tmp_path):
    code = "from raxalign.store.alive import temporary_name; print(temporary_name('step'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (tmp_path / done.stdout.strip()).mkdir()
    (tmp_path / ".tmp-step-0badcafe-1-1-abcdef01").mkdir()
    write(tmp_path, 10)
    assert there(tmp_path) == [".tmp-step-0badcafe-1-1-abcdef01", "step-00000010"]


def of_a_layer(folder):
    """A layer of weight 1, and what saves it."""
    objective = Regression()
    objective.module = layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(layer.weight)
    optimizer = torch.optim.SGD(layer.parameters())
    return layer, Saver(objective, optimizer, Runtime(), folder, "x")


def test_what_is_written_is_the_state_at_the_call_whatever_changes_later(tmp_path, monkeypatch):
    goes = threading.Event()

    def slow(*given):
        assert goes.wait(30)
        write_checkpoint(*given)

    monkeypatch.setattr(checkpoint, "write_checkpoint", slow)
    layer, checkpoints = of_a_layer(tmp_path)
    checkpoints.save(TrainProgress(4))
    torch.nn.init.zeros_(layer.weight)
    assert checkpoints.busy
    assert read_checkpoint(tmp_path, "x") is None
    goes.set()
    checkpoints.close()
    found = read_checkpoint(tmp_path, "x")
    assert found.tensors["module/weight"].tolist() == [[1.0]]


def test_a_death_in_the_middle_of_writing_leaves_the_checkpoint_before_whole(tmp_path, monkeypatch):
    layer, checkpoints = of_a_layer(tmp_path)
    checkpoints.save(TrainProgress(4), now=True)

    def dies(data):
        raise KeyboardInterrupt

    monkeypatch.setattr("raxalign.train.checkpoint.seal", dies)
    torch.nn.init.zeros_(layer.weight)
    checkpoints.save(TrainProgress(8))
    with pytest.raises(KeyboardInterrupt):
        checkpoints.close()
    found = read_checkpoint(tmp_path, "x")
    assert found.record["step"] == 4
    assert found.tensors["module/weight"].tolist() == [[1.0]]


def test_weights_that_are_held_are_in_no_checkpoint_and_one_that_has_them_is_read(tmp_path):
    objective = Regression()
    objective.encoder = SimpleNamespace(model=objective.body)
    held = objective.module["body"][0].weight.requires_grad_(requires_grad=False)
    saver = Saver(objective, adam([objective.body[3].weight], SETTINGS), Runtime(), tmp_path, "x")
    saver.save(TrainProgress(4), now=True)
    found = read_checkpoint(tmp_path, "x").tensors
    assert set(objective.module.state_dict()) - {name[7:] for name in found} == {"body.0.weight"}
    earlier = {**found, "module/body.0.weight": torch.zeros(8, 5)}
    write_checkpoint(tmp_path, 5, Checkpoint(TrainProgress(5).record("x"), earlier))
    assert saver.resume().step == 5
    assert held.any()


def test_what_went_wrong_in_the_thread_ends_the_training(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_checkpoint", full)
    with pytest.raises(OSError, match="No space left"):
        fit(Regression(), 22, SETTINGS, Runtime(checkpoints=tmp_path, checkpoint_seconds=0))


def test_it_is_a_note_on_what_else_ended_the_training(tmp_path, monkeypatch):
    goes = threading.Event()

    def full(*_):
        assert goes.wait(30)
        raise OSError(28, "No space left on device")

    def report(_, step):
        if step == 7:
            goes.set()
            raise ValueError("seven")

    monkeypatch.setattr(checkpoint, "write_checkpoint", full)
    runtime = Runtime(checkpoints=tmp_path, checkpoint_seconds=0, report=report)
    with pytest.raises(ValueError, match="seven") as caught:
        fit(Regression(), 22, SETTINGS, runtime)
    assert caught.value.__notes__ == [
        "the last checkpoint could not be written: [Errno 28] No space left on device"
    ]


def test_checkpoints_are_due_by_the_clock_and_none_waits_for_another(tmp_path, monkeypatch):
    now, steps, save = [0.0], list[int](), Saver.save

    def saved(self, progress):
        steps.append(progress.step)
        save(self, progress, now=True)

    def tick():
        return now[0]

    class Timed(Regression):
        def end(self, step):
            now[0] += 30.0

    monkeypatch.setattr(Saver, "save", saved)
    monkeypatch.setattr(checkpoint.time, "monotonic", tick)
    runtime = Runtime(checkpoints=tmp_path, checkpoint_seconds=120.0)
    fit(Timed(), 22, SETTINGS, runtime)
    assert steps == [4, 8, 12, 16]
    monkeypatch.setattr(Saver, "busy", True)
    fit(Timed(), 22, replace(SETTINGS, learning_rate=0.1), runtime)
    assert steps == [4, 8, 12, 16]
