from __future__ import annotations

import numpy as np
import pytest
import torch

from raxalign.encoders.training.masking import MaskRule, chance_of, choose_masks, masked_logits
from raxalign.methods.families.masked_lm import MaskedLM
from raxalign.methods.rows.sentences import joint_rows, read_bitexts, single_rows
from raxalign.methods.rows.states import lay_out_rows
from raxalign.train.objective import Step
from tests.methods.toy import toy_encoder, toy_inputs

STEP = Step(5, 0, np.array([3, 17, 0, 9, 22, 11, 4]), seed=2, micro=7)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    encoder = toy_encoder(tmp_path_factory.mktemp("masked") / "encoder")
    encoder.model.eval()
    return encoder


@pytest.fixture(scope="module")
def bitexts(tmp_path_factory, encoder):
    inputs = toy_inputs(tmp_path_factory.mktemp("masked-data"))
    return read_bitexts(encoder, inputs.bitext, "en", 40)


def joint(bitexts, step):
    return joint_rows(bitexts.sentences, bitexts.src_P[step.rows], bitexts.tgt_P[step.rows])


def objective(encoder, bitexts):
    return MaskedLM(encoder, bitexts, joint, 0.15)


def by_hand(encoder, rows, step):
    """The loss from Hugging Face's own forward of each row alone, and its labels."""
    masks = choose_masks(rows, MaskRule.of(encoder, 0.15), chance_of(step, 0))
    changed, flat = masks.applied(rows), masks.flat(rows.offsets)
    labels = np.full(len(rows.ids), -100)
    labels[flat] = rows.ids[flat]
    total = 0.0
    for r in range(len(rows)):
        part = slice(rows.offsets[r], rows.offsets[r + 1])
        ids, types, wanted = (
            torch.from_numpy(values[part].astype(np.int64))[None]
            for values in (changed, rows.segments, labels)
        )
        logits = encoder.model(input_ids=ids, token_type_ids=types).logits[0]
        total += float(
            torch.nn.functional.cross_entropy(logits, wanted[0], ignore_index=-100, reduction="sum")
        )
    assert masks.total == round(0.15 * int((rows.ids > 4).sum()))
    return total / masks.total


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_equals_the_models_own_forward_on_pairs(encoder, bitexts, dtype):
    training = objective(encoder, bitexts)
    encoder.model.to(dtype)
    try:
        training.begin(STEP)
        with torch.no_grad():
            found, expected = (
                float(training.loss(STEP, np.arange(7))),
                by_hand(encoder, training.host.rows, STEP),
            )
    finally:
        encoder.model.float()
    assert abs(found - expected) < (1e-9 if dtype == torch.float64 else 1e-5) * expected


def test_rows_without_a_masked_place_add_nothing(encoder, bitexts):
    nothing = MaskedLM(encoder, bitexts, joint, 1e-6)  # one place in the whole batch
    nothing.begin(STEP)
    (place,) = np.flatnonzero(np.diff(nothing.host.masks.offsets))
    empty = nothing.loss(STEP, np.delete(np.arange(7), place))
    assert (float(empty), empty.requires_grad) == (0.0, False)
    with torch.no_grad():
        assert float(nothing.loss(STEP, np.array([place]))) > 0


def test_logits_are_in_the_order_of_the_masks_whatever_the_packing(encoder, bitexts, monkeypatch):
    rows = single_rows(bitexts.sentences, np.concatenate([bitexts.src_P[:9], bitexts.tgt_P[:9]]))
    masks = choose_masks(rows, MaskRule.of(encoder, 0.3), np.random.default_rng(0))

    def logits():
        packed = lay_out_rows(encoder, [(rows, masks.applied(rows))])
        return masked_logits(encoder, packed, masks.flat(packed.starts_S))

    with torch.no_grad():
        packed = logits()
        monkeypatch.setattr("raxalign.methods.rows.states.can_pack", lambda _: False)
        assert torch.allclose(logits(), packed, atol=1e-4)
