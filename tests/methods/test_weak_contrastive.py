from __future__ import annotations

import torch

from raxalign.methods.strong_contrastive import StrongContrastive
from raxalign.methods.weak_contrastive import WeakContrastive
from raxalign.train.runtime import Runtime
from tests.methods.toy import toy_encoder, toy_inputs


def test_it_begins_with_a_smaller_loss_than_strong_contrast_since_it_has_half_the_negatives(
    tmp_path,
):
    inputs, options = (
        toy_inputs(tmp_path),
        {"dropout": False, "batch_size": 24, "learning_rate": 2e-3, "epochs": 30, "lambda": 0},
    )
    weak, strong = (
        kind(kind.Params.model_validate(options)).align(
            toy_encoder(tmp_path / "encoder"), inputs, Runtime()
        )
        for kind in (WeakContrastive, StrongContrastive)
    )
    assert weak.notes["first_loss"] < strong.notes["first_loss"]
    assert weak.notes["last_loss"] < 0.5 * weak.notes["first_loss"]
    assert weak.notes["pairs"] == strong.notes["pairs"]
    weights = [
        torch.cat([p.detach().flatten() for p in aligned.encoder.model.parameters()])
        for aligned in (weak, strong)
    ]
    assert not torch.equal(*weights)


def test_it_has_the_options_of_strong_contrast():
    assert (
        WeakContrastive(WeakContrastive.Params()).canonical()
        == StrongContrastive(StrongContrastive.Params()).canonical()
    )
