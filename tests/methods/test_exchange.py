from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from raxalign.errors import RaxalignError
from raxalign.methods.objectives.weam import (
    CrossHead,
    copy_transform,
    exchange,
    output_embedding,
    prediction_loss,
)
from raxalign.methods.rows.linked_words import Partners, piece_links, with_piece_links
from raxalign.methods.rows.sentences import joint_rows, read_bitexts
from tests.methods.toy import toy_encoder, write_pairs


def exchanged(
    states: torch.Tensor, links: list[tuple[int, int]]
) -> tuple[torch.Tensor, np.ndarray]:
    """H' of all pieces of one row, and which have a partner."""
    left, right = (np.array([link[i] for link in links]) for i in (0, 1))
    partners = Partners.of(np.zeros(len(links), np.int64), left, right, len(states))
    places, owners = partners.of_pieces(np.arange(len(states)))
    return exchange(
        states, torch.from_numpy(places), torch.from_numpy(owners), len(states)
    ), partners.linked(np.arange(len(states)))


def test_one_to_one_links_swap_vectors_exactly():
    states = torch.randn(7, 3, dtype=torch.float64)
    swapped, linked = exchanged(states, [(1, 5), (2, 4), (1, 5)])
    assert torch.equal(swapped[[1, 5, 2, 4]], states[[5, 1, 4, 2]])
    assert linked.tolist() == [False, True, True, False, True, True, False]
    assert not swapped[[0, 3, 6]].any()


def test_rows_of_the_exchange_matrix_sum_to_one():
    states = torch.tensor([[1.0], [2.0], [4.0], [8.0]], dtype=torch.float64)
    swapped, _ = exchanged(states, [(0, 2), (0, 3), (1, 3)])
    matrix = torch.tensor(
        [[0, 0, 0.5, 0.5], [0, 0, 0, 1], [1, 0, 0, 0], [0.5, 0.5, 0, 0]], dtype=torch.float64
    )
    assert swapped.flatten().tolist() == pytest.approx(
        (matrix @ states).flatten().tolist(), abs=1e-12
    )


@pytest.mark.parametrize(
    ("src", "tgt", "expected"),
    [
        ((1, 1), (5, 1), [(1, 5)]),
        ((1, 2), (5, 2), [(1, 5), (2, 6)]),
        ((1, 1), (5, 3), [(1, 5), (1, 6), (1, 7)]),
        ((2, 3), (6, 1), [(2, 6), (3, 6), (4, 6)]),
    ],
)
def test_a_word_link_joins_pieces_in_turn_and_the_rest_with_the_last(src, tgt, expected):
    left, right, _ = piece_links(*(np.array([value]) for value in (*src, *tgt)))
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == expected


def test_links_are_places_in_the_row_and_words_that_are_cut_have_none(tmp_path):
    columns: dict[str, list[object]] = {
        "id": [0, 1],
        "src": [["haus", "rothaus", "rot"], ["hund"]],
        "tgt": [["red", "redhouse", "old", "house"], ["dog"]],
        "src_links": [[0, 1, 2], [0]],
        "tgt_links": [[3, 1, 0], [0]],
    }
    encoder, folders = (
        toy_encoder(tmp_path / "encoder"),
        {"de": write_pairs(tmp_path / "pairs", columns)},
    )
    for max_length, linked in ((40, 3), (10, 0)):
        bitexts = read_bitexts(encoder, folders, "en", max_length)
        links = with_piece_links(bitexts, folders).links
        rows = joint_rows(bitexts.sentences, bitexts.tgt_P, bitexts.src_P)
        words = {
            (int(rows.words[s]), int(rows.words[t]))
            for s, t in ((links.src[k], links.tgt[k]) for k in range(links.offsets[1]))
        }
        assert words <= {(0, 2), (1, 1), (3, 0)}
        assert len(words) == linked
        assert links.pair(1) == {(1, 3)}
        assert (rows.segments[links.src[: links.offsets[1]]] == 0).all()
        assert (rows.segments[links.tgt[: links.offsets[1]]] == 1).all()


def test_both_losses_by_hand():
    logits = torch.tensor(
        [[0.0, math.log(3.0)], [math.log(4.0), 0.0], [0.0, 0.0]], dtype=torch.float64
    )
    cross = torch.tensor([[0.0, 0.0]], dtype=torch.float64)
    # -log 3/4, -log 1/5, -log 1/2 | -log 1/2
    targets = torch.tensor([1, 1, 0])
    loss = prediction_loss(
        logits, targets, cross, torch.tensor([0]), weight=1 / 3, cross_weight=0.5
    )
    assert float(loss) == pytest.approx(
        (math.log(4 / 3) + math.log(5) + math.log(2)) / 3 + 0.5 * math.log(2), abs=1e-12
    )
    nothing = prediction_loss(
        logits, targets, cross[:0], torch.zeros(0, dtype=torch.int64), weight=1.0, cross_weight=1.0
    )
    assert float(nothing) == pytest.approx(math.log(4 / 3) + math.log(5) + math.log(2), abs=1e-12)


def test_the_second_head_begins_as_the_first_one(tmp_path):
    encoder = toy_encoder(tmp_path / "encoder")
    states = torch.randn(3, encoder.hidden_size)
    head = CrossHead(copy_transform(encoder.model), encoder.hidden_size)
    assert torch.allclose(
        output_embedding(encoder.model)(head(states)), encoder.lm_logits(states), atol=1e-5
    )
    copied = {id(p) for p in head.parameters()}
    assert not copied & {id(p) for p in encoder.model.parameters()}


@pytest.mark.parametrize("kind", ["roberta", "distilbert", "modernbert"])
def test_heads_of_other_architectures_are_copied_too(kind, tmp_path):
    from transformers import (
        DistilBertConfig,
        DistilBertForMaskedLM,
        ModernBertConfig,
        ModernBertForMaskedLM,
        RobertaConfig,
        RobertaForMaskedLM,
    )

    encoder = toy_encoder(tmp_path / "encoder")
    size = {
        "vocab_size": 50,
        "num_hidden_layers": 1,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    made = {
        "roberta": lambda: RobertaForMaskedLM(RobertaConfig(**size)),
        "distilbert": lambda: DistilBertForMaskedLM(
            DistilBertConfig(vocab_size=50, dim=16, n_layers=1, n_heads=2, hidden_dim=16)
        ),
        "modernbert": lambda: ModernBertForMaskedLM(
            ModernBertConfig(
                **size,
                pad_token_id=0,
                cls_token_id=1,
                sep_token_id=2,
                bos_token_id=1,
                eos_token_id=2,
            )
        ),
    }
    model = made[kind]().eval()
    encoder.model, states = model, torch.randn(3, 16)
    head = CrossHead(copy_transform(model), 16)
    assert torch.allclose(
        output_embedding(model)(head(states)), encoder.lm_logits(states), atol=1e-5
    )


def test_a_head_of_unknown_shape_is_refused():
    with pytest.raises(RaxalignError, match="Linear has no masked-LM head"):
        copy_transform(torch.nn.Linear(2, 2))
