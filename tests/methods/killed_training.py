"""Run as a program: fine-tunes a toy encoder and kills itself, really, in the middle. Usage:
killed_training.py ROOT CHECKPOINTS STEP.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch

from raxalign.methods.finetune import Finetune
from raxalign.train.runtime import Runtime
from tests.methods.toy import toy_encoder, toy_inputs

PARAMS = Finetune.Params(learning_rate=1e-3, batch_size=4, epochs=3)


def main(root: Path, checkpoints: Path, at: int) -> None:
    def report(_: object, step: int) -> None:
        if step == at:
            os.kill(os.getpid(), signal.SIGKILL)

    torch.set_num_threads(1)
    runtime = Runtime(seed=5, checkpoints=checkpoints, checkpoint_every=4, report=report)
    Finetune(PARAMS).align(toy_encoder(root / "encoder"), toy_inputs(root), runtime)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
