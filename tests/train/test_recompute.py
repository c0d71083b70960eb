"""Activations that the backward pass computes again, and when it does; the precision of products,
and what torch.compile needs on a machine.
"""

import json

import pytest
import torch
from torch import nn
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from raxalign.errors import DependencyError, RaxalignError, ResourceError
from raxalign.store.sealed import parse
from raxalign.train import checkpoint, devices
from raxalign.train.checkpoint import TrainProgress
from raxalign.train.devices import arithmetic, check_compiler, check_device, forward_as, recomputed
from raxalign.train.loop import fit
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime
from tests.train.problems import Stacked, dies_at, kept_bytes, weights

SETTINGS = TrainSettings(learning_rate=0.01, batch_size=8, epochs=2)
WHOLE = 8  # the rows of a batch, which one micro-batch holds where memory allows it


def trained(limit=None, **where):
    objective = Stacked(limit=limit)
    return objective, fit(objective, 22, SETTINGS, Runtime(**where))


def kept(rows, *, again):
    """The bytes that a forward pass of some rows keeps."""
    objective = Stacked()
    states = torch.ones(rows, 5)
    blocks = objective.blocks() if again else ()
    with recomputed(blocks), kept_bytes(objective.module, objective.blocks()) as found:
        for block in objective.parts:
            states = states + block(states)
        objective.module["head"](states).pow(2).sum()
    return found.bytes


ALL, INPUTS = kept(WHOLE, again=False), kept(WHOLE, again=True)


def test_losses_and_gradients_are_equal_under_dropout_and_less_is_kept():
    found = []
    for again in (False, True):
        objective, states = Stacked(), torch.linspace(-1, 1, 40).view(8, 5)
        torch.manual_seed(5)
        with recomputed(objective.blocks() if again else ()):
            for block in objective.parts:
                states = states + block(states)
            states.pow(2).sum().backward()
        after = torch.rand(3)
        gradients = [p.grad for p in objective.parts.parameters()]
        found.append([states.detach(), after, *gradients])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    assert INPUTS < ALL / 4


def test_afterwards_the_parts_are_as_they_were_also_after_an_error():
    part = nn.Linear(2, 2)
    part.forward = before = lambda x: x + 1
    other = nn.Linear(2, 2)
    with recomputed([part, other]):
        assert part.forward is not before
        assert "forward" in other.__dict__
    assert part.forward is before
    assert "forward" not in other.__dict__

    def fails():
        with recomputed([part, other]):
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert part.forward is before
    assert "forward" not in other.__dict__


def test_hooks_of_a_part_run_once():
    part, seen = nn.Linear(2, 2), []
    part.register_forward_hook(lambda *_: seen.append(1))
    with recomputed([part]):
        part(torch.ones(1, 2)).sum().backward()
    assert seen == [1]


def test_what_runs_again_after_the_block_has_the_kernels_of_attention_of_the_forward_pass():
    part, seen = nn.Linear(2, 2), []
    uses_cudnn = torch.backends.cuda.cudnn_sdp_enabled

    def noted(x):
        seen.append(uses_cudnn())
        return part.weight @ x.exp()

    with recomputed([part]), forward_as(part, noted), arithmetic("bf16", "cpu"):
        found = part(torch.ones(2, 2))
    assert uses_cudnn()
    found.sum().backward()
    assert seen == [False, False]


def test_another_forward_pass_of_a_part_runs_again_too():
    part, seen = nn.Linear(2, 2), []

    def doubled(x):
        seen.append(1)
        return (x * 2).exp()

    with forward_as(part, doubled):
        part(torch.ones(1, 2, requires_grad=True)).sum().backward()
    assert len(seen) == 1, "nothing is computed again"
    x = torch.ones(1, 2, requires_grad=True)
    with recomputed([part]):
        again = part.forward
        with forward_as(part, doubled):
            found = part(x)
        assert part.forward is again
        found.sum().backward()
    assert len(seen) == 3
    assert torch.equal(x.grad, 2 * torch.full((1, 2), 2.0).exp())
    assert "forward" not in part.__dict__


def pair_of_caches():
    return EncoderDecoderCache(DynamicCache(), DynamicCache())


@pytest.mark.parametrize(
    ("name", "make"), [("past_key_values", DynamicCache), ("cache", pair_of_caches)]
)
def test_each_run_of_a_part_has_an_empty_cache_of_keys_and_values(name, make):
    lengths = []

    class Block(nn.Module):
        def forward(self, x, **given):
            own = getattr(given[name], "self_attention_cache", given[name])
            keys, _ = own.update(x.view(1, 1, 2, 1), x.view(1, 1, 2, 1), 0)
            lengths.append(keys.shape[-2])
            return keys * keys

    block, x, whole = Block(), torch.ones(2, requires_grad=True), make()
    with recomputed([block]):
        block(x, **{name: whole}).sum().backward()
    assert lengths == [2, 2]
    assert whole.get_seq_length() == 0
    assert x.grad.tolist() == [2, 2]


def test_where_memory_runs_out_activations_are_computed_again_before_batches_become_smaller():
    (whole, plain), (small, fitted) = trained(), trained(limit=ALL - 1)
    assert (fitted.micro, fitted.recomputed, small.ran_out) == (WHOLE, True, 1)
    assert (plain.micro, plain.recomputed) == (WHOLE, False)
    assert fitted.losses == plain.losses
    assert torch.equal(weights(small), weights(whole))


def test_where_that_is_not_enough_micro_batches_are_halved_too():
    small, fitted = trained(limit=INPUTS - 1)
    assert (fitted.micro, fitted.recomputed, small.ran_out) == (WHOLE // 2, True, 2)


def test_never_halves_and_always_begins_with_it():
    whole, _ = trained()
    halved, by_halves = trained(limit=ALL - 1, checkpointing="never")
    always, again = trained(limit=ALL - 1, checkpointing="always")
    assert (by_halves.micro, by_halves.recomputed, halved.ran_out) == (WHOLE // 2, False, 1)
    assert (again.micro, again.recomputed, always.ran_out) == (WHOLE, True, 0)
    assert torch.equal(weights(always), weights(whole))


def test_a_row_that_does_not_fit_in_either_way_is_an_error():
    with pytest.raises(RaxalignError, match="step 1 with a single row"):
        trained(limit=0)


def test_a_training_that_goes_on_knows_what_fitted(tmp_path):
    whole, _ = trained()

    runtime = Runtime(checkpoints=tmp_path, checkpoint_every=2)
    with pytest.raises(KeyboardInterrupt):
        fit(dies_at(3, Stacked(limit=ALL - 1)), 22, SETTINGS, runtime)
    (record,) = tmp_path.glob("train/step-*/state.json")
    assert '"recomputes":true' in record.read_text().replace(" ", "")
    goes_on = Stacked(limit=ALL - 1)
    fitted = fit(goes_on, 22, SETTINGS, runtime)
    assert (fitted.recomputed, goes_on.ran_out, goes_on.made[0][0]) == (True, 0, 2)
    assert torch.equal(weights(goes_on), weights(whole))


def test_a_checkpoint_of_an_earlier_version_is_read():
    record = json.loads(json.dumps(TrainProgress(step=3, micro=2, losses=[1.0]).record("x")))
    del record["recomputes"]
    read = parse(json.dumps(record), checkpoint._Record)
    assert TrainProgress.of(vars(read), None) == TrainProgress(step=3, micro=2, losses=[1.0])


def test_bf16_rounds_products_and_leaves_the_weights_alone():
    weight = torch.randn(8, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    with arithmetic("bf16", "cpu"):
        product = weight @ weight
    assert product.dtype == torch.bfloat16
    product.float().sum().backward()
    assert weight.dtype == torch.float32
    assert weight.grad.dtype == torch.float32


def test_tf32_holds_within_its_block_alone():
    before = torch.get_float32_matmul_precision()
    with arithmetic("tf32", "cpu"):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


def test_tf32_is_refused_where_nothing_computes_in_it():
    with pytest.raises(ResourceError, match=r"run\.precision: tf32 requires an NVIDIA GPU"):
        check_device("cpu", "tf32")
    check_device("cpu", "bf16")
    check_device("cpu", "fp32")


def test_a_missing_compiler_is_named_and_a_card_requires_triton(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(DependencyError, match=r"C\+\+ compiler \(no-such-compiler\)"):
        check_compiler("cpu")
    monkeypatch.setenv("CXX", "sh")
    check_compiler("cpu")
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    with pytest.raises(DependencyError, match="package triton"):
        check_compiler("cuda:0")


def test_a_base_in_bfloat16_is_refused_on_a_card_that_does_not_compute_in_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (7, 5))
    told = r"run\.base_precision: bf16 requires a GPU of .* 7\.5"
    with pytest.raises(ResourceError, match=told):
        check_device("cuda:0", base="bf16")
    check_device("cuda:0", base="fp32")
    check_device("cpu", base="bf16")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (8, 0))
    check_device("cuda:0", base="bf16")
