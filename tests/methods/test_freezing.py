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


def test_blocks_without_embeddings_leave_as_many_parameters_to_train_as_there_are_by_hand(tmp_path):
    """A toy BERT: a block has 4 (32² + 32) + 2 (2 · 32) of attention and norms, and 2 · 32 · 64 +
    64 + 32 of its middle.
    """
    encoder = toy_encoder(tmp_path, layers=4)
    config = encoder.model.config
    hidden, middle = config.hidden_size, config.intermediate_size
    block = 4 * (hidden**2 + hidden) + 2 * 2 * hidden + 2 * hidden * middle + middle + hidden
    embeddings = (
        config.vocab_size + config.max_position_embeddings + config.type_vocab_size + 2
    ) * hidden

    def trained(freeze: object) -> int:
        with frozen(encoder, freeze):
            return sum(p.numel() for p in encoder.model.base_model.parameters() if p.requires_grad)

    assert trained("none") == embeddings + 4 * block
    assert trained("lower") == 2 * block
    assert trained("upper") == embeddings + 2 * block
    assert trained(parts("lower")) == trained(parts("1-2")) == embeddings + 2 * block
    assert trained(parts("1-3", embeddings=True)) == block


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
