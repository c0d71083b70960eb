"""The blocks of real architectures, run again in the backward pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from raxalign.encoders.models.model_inputs import make_bidirectional
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.train.recompute import recomputed
from tests.encoders.architectures import CONFIGS, encoder_of
from tests.encoders.test_architectures import batch
from tests.tiny import tiny_bert
from tests.train.problems import kept_bytes


def passed(encoder: TransformerEncoder, *, again: bool) -> tuple[list[torch.Tensor], int]:
    """The states of a batch under dropout with a change within the stream, the gradients of the
    blocks' weights, and the bytes that were kept.
    """
    edits = {1: lambda states, _: states * 1.5}
    blocks = encoder.blocks()
    encoder.model.zero_grad()
    torch.manual_seed(7)
    with recomputed(blocks if again else ()):
        with kept_bytes(encoder.model, blocks) as kept:
            states = encoder.hidden(batch(), edits=edits)
        torch.stack(states).pow(2).sum().backward()
    after = torch.rand(3)
    gradients = [
        p.grad.clone() for p in encoder.model.base_model.parameters() if p.grad is not None
    ]
    return [state.detach() for state in (*states, after)] + gradients, kept.bytes


@pytest.mark.parametrize("name", CONFIGS)
def test_states_and_gradients_are_those_of_the_plain_pass_and_less_is_kept(name, tmp_path):
    encoder = encoder_of(name, tmp_path)
    encoder.model.train()
    (plain, all_bytes), (again, fewer) = (passed(encoder, again=way) for way in (False, True))
    assert len(plain) == len(again) > 8
    assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))
    assert fewer < 0.6 * all_bytes


def test_a_decoders_states_and_gradients_are_too(tmp_path: Path) -> None:
    from transformers import AutoTokenizer, Qwen3Config, Qwen3Model

    sizes = {"vocab_size": 80, "hidden_size": 32, "intermediate_size": 64, "head_dim": 16}
    shape = {"num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = Qwen3Config(**sizes, **shape, attention_dropout=0.2, use_cache=True)
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert(tmp_path, ["a"]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen3Model(config)
    make_bidirectional(model)
    encoder = TransformerEncoder(model.train(), tokenizer)
    (plain, all_bytes), (again, fewer) = (passed(encoder, again=way) for way in (False, True))
    assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))
    assert fewer < all_bytes
    inputs = {"input_ids": batch().ids_BT, "use_cache": True}
    model.eval()
    cached = model(**inputs).last_hidden_state
    with recomputed(encoder.blocks()):
        found = model(**inputs).last_hidden_state
        found.sum().backward()
    assert torch.equal(found, cached)


def test_a_model_whose_blocks_are_not_found_keeps_all(tmp_path: Path) -> None:
    encoder = encoder_of("bert", tmp_path)
    assert len(encoder.blocks()) == 3
    encoder.model.config.num_hidden_layers = 5
    assert encoder.blocks() == ()
