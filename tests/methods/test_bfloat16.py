"""Trainings and states in bfloat16 against those in float32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.packing import can_pack
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.transfer.model import lay_out, states_of
from raxalign.train.runtime import Runtime
from tests.methods.contract import asked_for, make, trained
from tests.methods.toy import WORDS, toy_encoder, toy_inputs, toy_rows


def aligned(kind: str, root: Path, precision: str) -> tuple[TransformerEncoder, dict[str, float]]:
    toy_inputs(root, languages=("de", "fr"))
    encoder = toy_encoder(root / "encoder")
    encoder.precision = precision  # type: ignore[assignment]
    method = make(kind, root, dropout=False)
    found = method.align(encoder, asked_for(method, root), Runtime(seed=1))
    assert isinstance(found.encoder, TransformerEncoder)
    return found.encoder, dict(found.notes)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("kind", trained())
def test_losses_in_bf16_are_near_those_in_float32_and_weights_stay_float32(kind, tmp_path):
    _, exact = aligned(kind, tmp_path / "fp32", "fp32")
    encoder, rounded = aligned(kind, tmp_path / "bf16", "bf16")
    assert rounded["steps"] == exact["steps"]
    for name in ("first_loss", "last_loss"):
        assert rounded[name] == pytest.approx(exact[name], rel=0.05)
    assert rounded["last_loss"] != exact["last_loss"]
    assert {p.dtype for p in encoder.model.parameters()} == {torch.float32}


def test_states_in_bf16_are_those_of_float32_rounded(tmp_path):
    encoder = toy_encoder(tmp_path / "encoder")
    sentences = toy_rows(6)["src"]
    exact = encoder.words(sentences, "de", layers=(0, 1, 2), pooling="mean").vectors_NLH
    encoder.precision = "bf16"
    rounded = encoder.words(sentences, "de", layers=(0, 1, 2), pooling="mean").vectors_NLH
    assert rounded.dtype == torch.float32
    gap = (rounded - exact).norm(dim=-1) / exact.norm(dim=-1)
    assert 0 < gap.max() < 0.05


def test_packed_rows_in_bf16_have_the_states_that_padded_ones_have(tmp_path):
    encoder = toy_encoder(tmp_path / "encoder")
    encoder.precision = "bf16"
    aligned = AlignedEncoder(encoder)
    rows = encoder.pieces([list(WORDS)[:n] for n in (2, 5, 3)], "de")
    assert can_pack(encoder)
    with torch.no_grad():
        packed = lay_out(aligned, rows)
        together = states_of(aligned, packed)
        encoder.packs = False
        padded = lay_out(aligned, rows)
        apart = states_of(aligned, padded)
    for s, length in enumerate(packed.lengths_S):
        one, other = (
            found[layout.starts_S[s] :][:length]
            for found, layout in ((together, packed), (apart, padded))
        )
        assert torch.allclose(one, other, atol=0.05, rtol=0.05)
