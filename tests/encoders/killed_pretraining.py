"""Run as a program: pre-trains a small encoder and kills itself, really, in the middle. Usage:
killed_pretraining.py ROOT CHECKPOINTS STEP.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import torch

from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.scratch import Scratch
from raxalign.train.runtime import Runtime
from tests.encoders.texts import write_words

SIZE = {"layers": 1, "hidden_size": 32, "heads": 2, "intermediate": 32, "positions": 32}
STEPS = {"window": 16, "batch_size": 4, "steps": 18, "learning_rate": 0.01, "seed": 5}
PARAMS = Scratch.Params.model_validate({**SIZE, **STEPS, "vocab_size": 100})
WORDS = ["dog", "cat", "house", "river", "sees", "loves", "has", "old", "red", "."]


def write_text(root: Path) -> None:
    """The text of one language in ``root/en``: 40 sentences of 3 to 9 words."""
    chance = random.Random(0)
    write_words(root / "en", [chance.choices(WORDS, k=chance.randint(3, 9)) for _ in range(40)])


def build(root: Path, name: str, runtime: Runtime, **options: float) -> dict[str, object]:
    """Pre-train into the folder ``root/name``; returns the notes."""
    (root / name).mkdir()
    return dict(
        Scratch(PARAMS.model_copy(update=options)).build(
            EncoderInputs(text={"en": root / "en"}), runtime, root / name
        )
    )


def main(root: Path, checkpoints: Path, at: int) -> None:
    def report(_: object, step: int) -> None:
        if step == at:
            os.kill(os.getpid(), signal.SIGKILL)

    torch.set_num_threads(1)
    build(root, "killed", Runtime(checkpoints=checkpoints, checkpoint_every=4, report=report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
