from __future__ import annotations

import torch

from raxalign.methods.base import MethodInputs
from raxalign.methods.none import NoAlignment
from raxalign.train.runtime import Runtime
from tests.methods.toy import toy_encoder


def test_none_is_the_identity(tmp_path):
    encoder = toy_encoder(tmp_path)
    before = encoder.words([["haus", "hund"]], "de", layers=(1, 2), pooling="mean").vectors_NLH
    aligned = NoAlignment(NoAlignment.Params()).align(
        encoder, MethodInputs(("de",), "en"), Runtime()
    )
    assert aligned.transforms == ()
    assert not aligned.weights_changed
    assert torch.equal(
        aligned.words([["haus", "hund"]], "de", layers="1-2", pooling="mean").vectors_NLH, before
    )
