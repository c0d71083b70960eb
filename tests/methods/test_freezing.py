from __future__ import annotations

import pytest
from pydantic import ValidationError

from raxalign.encoders.models.trained_weights import (
    FrozenParts,
    frozen,
    frozen_parts,
    lowest_trained,
)
from raxalign.errors import RaxalignError
from tests.methods.toy import toy_encoder


def parts(blocks: str, *, embeddings: bool = False) -> FrozenParts:
    return FrozenParts(blocks=blocks, embeddings=embeddings)


HELD = [
    ("none", set()),
    ("lower", {"embeddings", "0"}),
    ("upper", {"1", "2"}),
    (parts("lower"), {"0"}),
    (parts("lower", embeddings=True), {"embeddings", "0"}),
    (parts("upper", embeddings=True), {"embeddings", "1", "2"}),
    (parts("1-2"), {"0", "1"}),
    (parts("2", embeddings=True), {"embeddings", "1"}),
    (parts("last"), {"2"}),
    (parts("none", embeddings=True), {"embeddings"}),
]


@pytest.mark.parametrize(("freeze", "held"), HELD)
def test_what_is_named_is_frozen_meanwhile_and_nothing_else(freeze, held, tmp_path):
    encoder = toy_encoder(tmp_path, layers=3)
    base = encoder.model.base_model
    named = {
        "embeddings": base.embeddings,
        **{str(i): block for i, block in enumerate(base.encoder.layer)},
    }
    with frozen(encoder, freeze):
        for name, part in named.items():
            assert {p.requires_grad for p in part.parameters()} == {name not in held}
    assert all(p.requires_grad for p in encoder.model.parameters())


@pytest.mark.parametrize(
    ("freeze", "n_blocks", "lowest"),
    [
        ("none", 4, 0),
        ("lower", 4, 3),
        ("lower", 3, 2),
        ("upper", 4, 0),
        (parts("lower"), 4, 0),
        (parts("2-3", embeddings=True), 4, 1),
        (parts("1-4", embeddings=True), 4, 5),
    ],
)
def test_the_lowest_layer_that_training_changes(freeze, n_blocks, lowest):
    assert lowest_trained(freeze, n_blocks) == lowest


def test_blocks_that_are_not_there_or_not_blocks_are_refused():
    with pytest.raises(
        RaxalignError, match=r"freeze.blocks: 3-9: this encoder has the blocks 1 to 4"
    ):
        frozen_parts(parts("3-9"), 4)
    for wrong in ("0", "0-2", "middle", "1-", ""):
        with pytest.raises(ValidationError):
            parts(wrong)
    with pytest.raises(ValidationError):
        FrozenParts.model_validate({"embeddings": True})
