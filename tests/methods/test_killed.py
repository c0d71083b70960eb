from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from raxalign.methods.finetune import Finetune
from raxalign.train.runtime import Runtime
from tests.methods import killed_training as killed
from tests.methods.toy import toy_encoder, toy_inputs


def weights(encoder: object) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in encoder.model.parameters()])  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_killed_training_run_again_equals_an_uninterrupted_one_bit_for_bit(tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    encoder, inputs, checkpoints = (
        toy_encoder(tmp_path / "encoder"),
        toy_inputs(tmp_path),
        tmp_path / "checkpoints",
    )
    command = [
        sys.executable,
        "-m",
        "tests.methods.killed_training",
        str(tmp_path),
        str(checkpoints),
        "11",
    ]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], env=os.environ)
    assert done.returncode == -signal.SIGKILL
    assert [folder.name for folder in (checkpoints / "finetune").glob("step-*")] == [
        "step-00000008"
    ]
    steps: list[int] = []
    runtime = Runtime(
        seed=5,
        checkpoints=checkpoints,
        checkpoint_every=4,
        report=lambda _, step: steps.append(step),
    )
    resumed = Finetune(killed.PARAMS).align(encoder, inputs, runtime)
    whole = Finetune(killed.PARAMS).align(
        toy_encoder(tmp_path / "encoder"), inputs, Runtime(seed=5)
    )
    torch.set_num_threads(threads)
    assert steps == list(range(9, 19))
    assert resumed.notes == whole.notes
    assert torch.equal(weights(resumed.encoder), weights(whole.encoder))
