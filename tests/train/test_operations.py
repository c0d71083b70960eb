"""What a step gives a device to do. The host of a GPU needs as long for a small operation as for a
large one, and in a step of fine-tuning the GPU waits for it.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from raxalign.encoders.models.trained_weights import Lora, frozen_copy
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.methods import finetune
from raxalign.train import devices
from raxalign.train.devices import copied_at_once, on_device
from raxalign.train.loop import _Loop
from raxalign.train.runtime import Runtime
from tests.methods.contract import LANGUAGES, losses_of, make
from tests.methods.toy import toy_encoder, toy_inputs


class Operations(TorchDispatchMode):
    """Counts the casts and copies within it."""

    def __init__(self):
        super().__init__()
        self.casts, self.copies = Counter(), 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if function is torch.ops.aten._to_copy.default:
            self.casts[made.dtype] += made.dtype != args[0].dtype
            self.copies += made.device != args[0].device
        return made


@pytest.fixture
def casts(tmp_path, monkeypatch):
    """Of a step of fine-tuning in bf16, by the number of blocks."""
    toy_inputs(tmp_path, 8, LANGUAGES)
    advance = _Loop.advance

    def of(blocks):
        def counted(loop):
            with Operations() as found:
                advance(loop)
            steps.append(found.casts.total())

        steps = []
        monkeypatch.setattr(_Loop, "advance", counted)
        encoder = toy_encoder(tmp_path / f"{blocks}", layers=blocks)
        encoder.precision = "bf16"
        method = make("finetune", tmp_path, steps=2, batch_size=8)
        losses_of(method, tmp_path, Runtime(precision="bf16"), encoder)
        assert steps[0] == steps[1]
        return steps[0]

    return of


def test_a_block_of_the_encoder_and_its_twin_casts_what_goes_through_it_and_no_weight(casts):
    assert casts(3) - casts(2) <= 23  # 36 more with those of six weights and biases


@pytest.mark.parametrize("checkpointing", ["auto", "always"])
@pytest.mark.parametrize("options", [{}, {"lora": Lora(rank=2)}], ids=["all weights", "adapters"])
def test_losses_and_weights_are_those_of_autocast_in_every_bit(
    tmp_path, monkeypatch, options, checkpointing
):
    def train():
        encoder = toy_encoder(tmp_path / "encoder")
        encoder.precision = "bf16"
        method = make("finetune", tmp_path, steps=4, batch_size=4, **options)
        runtime = Runtime(seed=1, precision="bf16", checkpointing=checkpointing)
        losses, aligned = losses_of(method, tmp_path, runtime, encoder)
        return losses, [weight.detach() for weight in aligned.encoder.model.parameters()]

    toy_inputs(tmp_path, 8, LANGUAGES)
    losses, weights = train()
    monkeypatch.setattr(
        TransformerEncoder, "run", lambda self, inputs: self.model.base_model(**inputs)
    )
    monkeypatch.setattr(finetune, "frozen_copy", lambda model, rounded: frozen_copy(model))
    plain_losses, plain_weights = train()
    assert losses == plain_losses
    assert all(map(torch.equal, weights, plain_weights))


@dataclass
class Inner:
    bools: np.ndarray
    none: tuple[np.ndarray, str]


PARTS = (
    np.arange(6).reshape(2, 3),
    Inner(np.array([True, False, True]), (np.zeros((0, 2), np.int64), "no array")),
    np.linspace(0, 1, 5, dtype=np.float32)[::2],
)


def test_all_arrays_of_a_part_go_to_a_device_by_one_copy():
    first, inner, last = PARTS
    arrays = (first, inner.bools, inner.none[0], last)
    with Operations() as found, copied_at_once(PARTS, "meta"):
        copies = [on_device(array, "meta") for array in arrays]
        alone = on_device(np.arange(3), "meta")
    assert found.copies == 2
    assert [copy.shape for copy in (*copies, alone)] == [(2, 3), (3,), (0, 2), (3,), (3,)]


def test_copies_have_the_values_and_types_of_their_arrays():
    arrays = [*devices._arrays(PARTS)]
    copies = devices._views(arrays, torch.from_numpy(devices._end_to_end(arrays)))
    for array in arrays:
        assert copies[id(array)].numpy().dtype == array.dtype
        assert np.array_equal(copies[id(array)].numpy(), array)
