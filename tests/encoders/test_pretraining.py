"""Pre-training when something comes between: a killed process, too little memory, several
workers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.encoders.training.masked_lm import Pretraining
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime
from tests.encoders import killed_pretraining as killed
from tests.train.workers import run_workers


def goes_on(root: Path, checkpoints: Path) -> None:
    """Train again from the checkpoint of step 8, and compare with a training that was never
    stopped: notes and every byte that was saved.
    """
    assert [folder.name for folder in (checkpoints / "scratch").glob("step-*")] == ["step-00000008"]
    steps: list[int] = []
    resumed = killed.build(
        root,
        "resumed",
        Runtime(
            checkpoints=checkpoints, checkpoint_every=4, report=lambda _, step: steps.append(step)
        ),
    )
    whole = killed.build(root, "whole", Runtime())
    assert steps == list(range(9, 19))
    assert resumed == whole
    names = sorted(path.name for path in (root / "whole").iterdir())
    assert "model.safetensors" in names
    assert [
        name
        for name in names
        if (root / "resumed" / name).read_bytes() != (root / "whole" / name).read_bytes()
    ] == []


@pytest.mark.slow
def test_a_killed_pretraining_run_again_equals_an_uninterrupted_one_bit_for_bit(tmp_path):
    killed.write_text(tmp_path)
    command = [
        sys.executable,
        "-m",
        "tests.encoders.killed_pretraining",
        str(tmp_path),
        str(tmp_path / "checkpoints"),
        "11",
    ]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], env=os.environ)
    assert done.returncode == -signal.SIGKILL
    goes_on(tmp_path, tmp_path / "checkpoints")


def test_an_interrupted_pretraining_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    def report(_: object, step: int) -> None:
        if step == 11:
            raise KeyboardInterrupt

    killed.write_text(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        killed.build(
            tmp_path,
            "killed",
            Runtime(checkpoints=tmp_path / "checkpoints", checkpoint_every=4, report=report),
        )
    goes_on(tmp_path, tmp_path / "checkpoints")


def test_where_memory_runs_out_batches_are_halved_and_the_loss_stays(tmp_path, monkeypatch):
    def small(self: Pretraining, step: Step, positions: np.ndarray) -> torch.Tensor:
        if len(positions) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole_loss(self, step, positions)

    killed.write_text(tmp_path)
    expected = killed.build(tmp_path, "whole", Runtime(), dropout=0.0)
    whole_loss = Pretraining.loss
    monkeypatch.setattr(Pretraining, "loss", small)
    found = killed.build(tmp_path, "halved", Runtime(), dropout=0.0)
    assert int(str(expected["rows_per_step"])) > 2
    assert [found[name] for name in ("first_loss", "last_loss")] == pytest.approx(
        [expected[name] for name in ("first_loss", "last_loss")], rel=1e-4
    )


def work(rank: int, folder: Path) -> None:
    """One of two workers that pre-train together."""
    notes = killed.build(folder, f"worker-{rank}", Runtime(rank=rank, world_size=2), dropout=0.0)
    (folder / f"{rank}.json").write_text(json.dumps(notes))


@pytest.mark.slow
def test_two_workers_give_the_encoder_of_one(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    killed.write_text(tmp_path)
    run_workers(work, 2, tmp_path)
    expected = killed.build(tmp_path, "whole", Runtime(), dropout=0.0)
    for rank in (0, 1):
        notes = json.loads((tmp_path / f"{rank}.json").read_text())
        assert notes.pop("last_loss") == pytest.approx(expected["last_loss"], rel=1e-4)
        assert notes.pop("first_loss") == pytest.approx(expected["first_loss"], rel=1e-5)
        assert notes.items() <= expected.items()
    found, weights = (
        load_file(tmp_path / name / "model.safetensors") for name in ("worker-0", "whole")
    )
    assert max(float((found[name] - tensor).abs().max()) for name, tensor in weights.items()) < 2e-3
    assert not list((tmp_path / "worker-1").iterdir()), "the first worker saves what all have"
