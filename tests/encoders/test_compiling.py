"""Blocks that torch.compile has made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raxalign.encoders.models import packing
from raxalign.encoders.models.packing import compiled_blocks, flat_states, pack
from raxalign.train.recompute import recomputed
from tests.encoders.architectures import encoder_of

_SECONDS = 300


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_blocks_have_the_same_states_and_gradients_with_few_graphs(tmp_path: Path) -> None:
    """In a process of its own, without inductor's processes, ended after some minutes."""
    made = subprocess.run(
        [sys.executable, "-m", "tests.encoders.compiled_states", str(tmp_path / "encoder")],
        env={
            **os.environ,
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    found = json.loads(made.stdout.splitlines()[-1])
    assert found["values"] > 100
    assert found["gap"] <= 1e-5
    assert found["graphs"] <= 2
    assert found["breaks"] == 0
    assert found["left"] == []


def test_what_is_not_compiled_is_left_as_it_is() -> None:
    encoder = encoder_of("bert")
    with compiled_blocks(encoder):
        assert not any("forward" in vars(part) for part in encoder.model.modules())


def test_blocks_are_compiled_for_a_while_also_where_they_run_again(monkeypatch):
    encoder = encoder_of("bert")
    encoder.compiled, calls = True, []

    def compiled(kind: Any) -> Any:
        return lambda block, *given, **named: (
            calls.append(block) or kind.forward(block, *given, **named)
        )

    monkeypatch.setattr(packing, "_compiled", compiled)
    blocks = list(encoder.model.encoder.layer)
    packed = pack(np.arange(5, 12), np.array([3, 4]), 0, 7)
    flat_states(encoder, packed, (1, 3))
    assert calls == blocks
    assert not any("forward" in vars(block) for block in blocks)
    encoder.hidden(encoder.collate(encoder.pieces([["w1"]], "de")))
    assert len(calls) == 3
    calls.clear()
    with recomputed(blocks):
        wrappers = [block.forward for block in blocks]
        (states,) = flat_states(encoder, packed, (3,))
        assert [block.forward for block in blocks] == wrappers
        states.sum().backward()
    assert calls == [*blocks, *reversed(blocks)]


def test_a_frozen_copy_is_compiled_too() -> None:
    encoder = encoder_of("bert")
    encoder.compiled = True
    assert encoder.with_model(encoder.model).compiled
