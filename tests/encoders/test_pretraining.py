"""Pre-training when it is interrupted, when memory runs out, and by several workers."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.scratch import Scratch
from raxalign.encoders.training.masked_lm import Pretraining
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime
from tests.encoders.texts import write_words
from tests.train.workers import run_workers

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
    kind, inputs = (
        Scratch(PARAMS.model_copy(update=options)),
        EncoderInputs(text={"en": root / "en"}),
    )
    return dict(kind.build(inputs, runtime, root / name))


def test_an_interrupted_pretraining_goes_on_from_its_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    steps: list[int] = []

    def report(_: object, step: int) -> None:
        steps.append(step)
        if steps == list(range(1, 12)):
            raise KeyboardInterrupt

    write_text(tmp_path)
    options = {"checkpoints": tmp_path / "checkpoints", "checkpoint_every": 4}
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, "killed", Runtime(**options, report=report))
    (kept,) = (tmp_path / "checkpoints" / "scratch").glob("step-*")
    assert kept.name == "step-00000008"
    resumed = build(tmp_path, "resumed", Runtime(**options, report=report))
    assert steps == [*range(1, 12), *range(9, 19)]
    assert resumed == build(tmp_path, "whole", Runtime())
    files = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    assert "model.safetensors" in files
    assert all((tmp_path / "resumed" / n).read_bytes() == held for n, held in files.items())


def test_where_memory_runs_out_batches_are_halved_and_the_loss_stays(tmp_path, monkeypatch):
    def small(self: Pretraining, step: Step, positions: np.ndarray) -> torch.Tensor:
        if len(positions) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole_loss(self, step, positions)

    write_text(tmp_path)
    expected = build(tmp_path, "whole", Runtime(), dropout=0.0)
    whole_loss = Pretraining.loss
    monkeypatch.setattr(Pretraining, "loss", small)
    found = build(tmp_path, "halved", Runtime(), dropout=0.0)
    assert int(str(expected["rows_per_step"])) > 2
    assert [found[name] for name in ("first_loss", "last_loss")] == pytest.approx(
        [expected[name] for name in ("first_loss", "last_loss")], rel=1e-4
    )


def work(rank: int, folder: Path) -> None:
    """One of two workers that pre-train together."""
    notes = build(folder, f"worker-{rank}", Runtime(rank=rank, world_size=2), dropout=0.0)
    (folder / f"{rank}.json").write_text(json.dumps(notes))


@pytest.mark.slow
def test_two_workers_give_the_encoder_of_one(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    write_text(tmp_path)
    run_workers(work, 2, tmp_path)
    expected = build(tmp_path, "whole", Runtime(), dropout=0.0)
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
