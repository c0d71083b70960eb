from __future__ import annotations

import torch

from raxalign.methods.strong_contrastive import StrongContrastive
from raxalign.methods.weak_contrastive import WeakContrastive
from tests.methods.contract import train, weights


def test_it_begins_with_a_smaller_loss_than_strong_contrast_as_it_has_half_the_negatives(tmp_path):
    options = {"dropout": False, "batch_size": 24, "epochs": 30, "lambda": 0}
    weak, strong = (
        train(kind, tmp_path, **options) for kind in ("weak_contrastive", "strong_contrastive")
    )
    assert weak.notes["first_loss"] < strong.notes["first_loss"]
    assert weak.notes["last_loss"] < 0.5 * weak.notes["first_loss"]
    assert weak.notes["pairs"] == strong.notes["pairs"]
    assert not torch.equal(weights(weak), weights(strong))


def test_it_has_the_options_of_strong_contrast():
    assert (
        WeakContrastive(WeakContrastive.Params()).canonical()
        == StrongContrastive(StrongContrastive.Params()).canonical()
    )
