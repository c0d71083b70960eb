"""Trainings whose steps are prepared ahead, and whose activations are computed again, have the
weights of plain ones, bit for bit.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from raxalign.encoders.models.trained_weights import Lora
from raxalign.train import prefetch
from raxalign.train.runtime import Runtime
from tests.methods.contract import asked_for, make, trained
from tests.methods.toy import toy_encoder, toy_inputs

AHEAD = ["code_switching", "finetune", "mlm", "ppa", "tlm"]
"""The methods whose host's side is apart from the device's."""


@pytest.fixture
def root(tmp_path):
    toy_inputs(tmp_path, languages=("de", "fr"))
    return tmp_path


def weights(kind: str, root: Path, *, lora: Lora | None = None, **where: Any) -> torch.Tensor:
    """The weights after a training with dropout."""
    method = make(kind, root, **({} if lora is None else {"lora": lora}))
    encoder = toy_encoder(root / "encoder")
    method.align(encoder, asked_for(method, root), Runtime(seed=1, **where))
    return torch.cat([p.detach().flatten() for p in encoder.model.parameters()])


@pytest.mark.slow
@pytest.mark.parametrize("kind", trained())
def test_weights_are_bit_for_bit_those_of_a_plain_training(kind, root, monkeypatch):
    threads = []
    prepare = prefetch.Ahead._make

    def seen(self: Any, step: Any) -> Any:
        made = prepare(self, step)
        threads.append((threading.current_thread().name, made[0] is not None))
        return made

    monkeypatch.setattr(prefetch.Ahead, "_make", seen)
    plain = weights(kind, root)
    assert threads == []
    assert torch.equal(weights(kind, root, prefetch=True, checkpointing="always"), plain)
    assert threads[0][0] == threading.current_thread().name
    assert {name for name, _ in threads[1:]} == {"raxalign-ahead_0"}
    assert {there for _, there in threads} == {kind in AHEAD}


def test_adapters_in_blocks_that_run_again_are_trained_as_ever(root):
    pytest.importorskip("peft")
    plain, again = (
        weights("finetune", root, lora=Lora(rank=4, dropout=0.2), checkpointing=way)
        for way in ("never", "always")
    )
    assert torch.equal(again, plain)
