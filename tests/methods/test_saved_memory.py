"""What a training computes again, prepares ahead and waits for changes no weight; trainings and
states in bfloat16 are near those in float32.
"""

import threading

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.trained_weights import Lora
from raxalign.tasks.transfer.head import lay_out
from raxalign.train import loop
from raxalign.train.loop import fit
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime
from tests.host_reads import host_reads
from tests.methods.contract import asked_for, losses_of, make, trained
from tests.methods.contract import weights as weights_of
from tests.methods.toy import WORDS, toy_encoder, toy_rows
from tests.train.problems import Regression

AHEAD = ["awesome_align", "code_switching", "finetune", "mlm", "ppa", "tlm"]
"""The methods whose host's side is apart from the device's."""


def weights(kind, root, *, lora=None, **where):
    """The weights after a training with dropout."""
    method = make(kind, root, **({} if lora is None else {"lora": lora}))
    return weights_of(losses_of(method, root, Runtime(seed=1, **where))[1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", trained())
def test_weights_are_bit_for_bit_those_of_a_plain_training(kind, root, monkeypatch):
    threads, init = [], loop.Ahead.__init__

    def noted(self, objective, *, works):
        prepare = objective.prepare

        def seen(step):
            made = prepare(step)
            threads.append((threading.current_thread().name, made is not None))
            return made

        objective.prepare = seen
        init(self, objective, works=works)

    plain = weights(kind, root)
    monkeypatch.setattr(loop.Ahead, "__init__", noted)
    assert torch.equal(weights(kind, root, prefetch=True, checkpointing="always"), plain)
    assert threads[0][0] == threading.current_thread().name
    assert {name for name, _ in threads[1:]} == {"raxalign-ahead_0"}
    assert {there for _, there in threads} == {kind in AHEAD}


def test_adapters_in_blocks_that_run_again_are_trained_as_ever(root):
    pytest.importorskip("peft")
    plain, again = (
        weights("finetune", root, lora=Lora(rank=4), checkpointing=way)
        for way in ("never", "always")
    )
    assert torch.equal(again, plain)


def test_a_read_within_a_step_is_found():
    objective = Regression()  # asks which rows are rare, by the value of a tensor
    with host_reads() as steps:
        fit(objective, len(objective.x), TrainSettings(0.1, 4), Runtime())
    assert "__bool__" in steps[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", trained())
def test_losses_in_bf16_are_near_those_in_float32_and_weights_stay_float32(kind, root):
    method, notes = make(kind, root, dropout=False), {}
    for precision in ("fp32", "bf16"):
        encoder = toy_encoder(root / "encoder")
        encoder.precision = precision
        aligned = method.align(encoder, asked_for(method, root), Runtime(seed=1))
        notes[precision] = aligned.notes
    exact, rounded = notes.values()
    assert rounded["steps"] == exact["steps"]
    for name in ("first_loss", "last_loss"):
        assert rounded[name] == pytest.approx(exact[name], rel=0.05)
    assert rounded["last_loss"] != exact["last_loss"]
    assert {p.dtype for p in aligned.encoder.model.parameters()} == {torch.float32}


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
    assert encoder.can_pack()
    ways = []
    for encoder.packs in (True, False):
        laid_out = lay_out(aligned, rows.take())
        with torch.no_grad():
            states = aligned.packed_hidden(laid_out)
        sentences = zip(laid_out.starts_S, laid_out.lengths_S, strict=True)
        ways.append([states[start : start + length] for start, length in sentences])
    for packed, padded in zip(*ways, strict=True):
        assert torch.allclose(packed, padded, atol=0.05, rtol=0.05)
