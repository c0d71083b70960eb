"""Checkpoints that two processes write: one that was overtaken, and does not know it yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from raxalign.train.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


def write(folder: Path, step: int, fingerprint: str = "x", value: float = 1.0) -> None:
    record = {"fingerprint": fingerprint, "step": step}
    write_checkpoint(folder, step, Checkpoint(record, {"a": torch.full((2,), value)}))


def there(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_who_is_behind_removes_nothing_that_is_further(tmp_path: Path) -> None:
    write(tmp_path, 29)
    write(tmp_path, 10)
    found = read_checkpoint(tmp_path, "x")
    assert found is not None
    assert found.record["step"] == 29
    write(tmp_path, 39)
    assert there(tmp_path) == ["step-00000039"]


def test_what_is_further_of_another_training_goes(tmp_path: Path) -> None:
    write(tmp_path, 29, "other")
    (tmp_path / "step-00000050").mkdir()
    write(tmp_path, 10)
    assert there(tmp_path) == ["step-00000010"]


def test_a_checkpoint_of_the_same_step_stays_and_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, 10)
    before = (tmp_path / "step-00000010").stat().st_ino
    write(tmp_path, 10)
    assert (tmp_path / "step-00000010").stat().st_ino == before
    (tmp_path / "step-00000010" / "state.safetensors").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="damaged"):
        write(tmp_path, 10, value=2.0)
    found = read_checkpoint(tmp_path, "x")
    assert found is not None
    assert found.tensors["a"].tolist() == [2.0, 2.0]
    assert there(tmp_path) == ["step-00000010"]


def test_one_that_is_removed_while_it_is_read_gives_way_to_the_one_it_was_removed_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from raxalign.train import checkpoint

    write(tmp_path, 10)
    read, late = checkpoint._tensors, [20]

    def slow(path: Path, files: dict[str, str]) -> object:
        if late:
            write(tmp_path, late.pop())
        return read(path, files)

    monkeypatch.setattr(checkpoint, "_tensors", slow)
    with pytest.warns(UserWarning, match="is passed over"):
        found = read_checkpoint(tmp_path, "x")
    assert found is not None
    assert found.record["step"] == 20


def test_what_a_dead_process_was_writing_goes_and_what_a_living_one_writes_stays(
    tmp_path: Path,
) -> None:
    code = "from raxalign.store.alive import maker_name; print(maker_name())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (tmp_path / f".{done.stdout.strip()}.part").mkdir()
    (tmp_path / ".0badcafe-1-1.part").mkdir()
    write(tmp_path, 10)
    assert there(tmp_path) == [".0badcafe-1-1.part", "step-00000010"]
