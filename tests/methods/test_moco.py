from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from raxalign.methods.objectives.ppa import EMPTY, Moco, contrast_logits, info_nce, move_average
from tests.methods.contract import resolved
from tests.methods.toy import toy_encoder


def moco(folder: Path, **options: object) -> Moco:
    encoder = toy_encoder(folder / "encoder")
    small = {"queue_size": 7, "momentum": 0.9, "queue_start": "random", "projection": 3}
    return Moco(encoder.model, encoder.hidden_size, resolved("ppa", **small | options), seed=5)


def keys(first: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys that tell their number, and pivot sentences ten times that."""
    numbers = torch.arange(first, first + n)
    return numbers[:, None].float().expand(n, 3), 10 * numbers


def test_the_loss_is_that_of_the_formula_by_hand():
    query = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
    positive = torch.tensor([[0.8, 0.6], [0.0, 1.0]], dtype=torch.float64)
    queue = torch.tensor([[0.0, 1.0], [-1.0, 0.0], [0.6, -0.8]], dtype=torch.float64)
    same = torch.tensor([[False, False, False], [True, False, False]])
    logits = contrast_logits(query, positive, queue, same, 0.5)
    # Row 0: 0.8 | 0, -1, 0.6; row 1: 0.8 | (0.8 is not a negative), -0.6, 0.36 - 0.64; all over
    # 0.5.
    hand = [[1.6, 0.0, -2.0, 1.2], [1.6, float("-inf"), -1.2, -0.56]]
    assert torch.allclose(logits, torch.tensor(hand, dtype=torch.float64), rtol=0, atol=1e-12)
    losses = info_nce(query, positive, queue, same, 0.5)
    by_hand = [
        math.log(1 + math.exp(-1.6) + math.exp(-3.6) + math.exp(-0.4)),
        math.log(1 + math.exp(-2.8) + math.exp(-2.16)),
    ]
    assert losses.tolist() == pytest.approx(by_hand, abs=1e-12)


def test_the_slow_copy_goes_a_share_of_the_way():
    slow, fast = (
        [torch.tensor([1.0, 2.0], dtype=torch.float64)],
        [torch.tensor([3.0, -2.0], dtype=torch.float64)],
    )
    move_average(slow, fast, 0.75)
    assert slow[0].tolist() == pytest.approx([1.5, 1.0], abs=1e-12)
    assert fast[0].tolist() == [3.0, -2.0]


def test_the_copies_follow_encoder_and_head_and_have_no_gradients(tmp_path):
    contrast = moco(tmp_path)
    before = {name: p.clone() for name, p in contrast.named_parameters()}
    with torch.no_grad():
        for part in (contrast.query, contrast.head):
            for parameter in part.parameters():
                parameter.add_(1.0)
    contrast.follow()
    slow = dict(contrast.key.named_parameters())
    assert slow.keys() == dict(contrast.query.base_model.named_parameters()).keys()
    for name, parameter in [
        *((f"key.{n}", p) for n, p in slow.items()),
        *((f"key_head.{n}", p) for n, p in contrast.key_head.named_parameters()),
    ]:
        assert torch.allclose(parameter, before[name] + 0.1, atol=1e-6), name
        assert not parameter.requires_grad


def test_keys_stand_in_their_order_and_push_out_the_oldest_also_across_the_end(tmp_path):
    contrast = moco(tmp_path, queue_size=7)
    for first in (1, 4, 7):
        contrast.enqueue(*keys(first, 3))
    assert contrast.queue_KD[:, 0].tolist() == [8, 9, 3, 4, 5, 6, 7]
    assert contrast.pivots_K.tolist() == [80, 90, 30, 40, 50, 60, 70]
    contrast.enqueue(*keys(10, 1))
    assert contrast.queue_KD[:, 0].tolist() == [8, 9, 10, 4, 5, 6, 7]
    contrast.enqueue(*keys(20, 9))
    assert sorted(contrast.queue_KD[:, 0].tolist()) == list(range(22, 29))
    assert contrast.queue_KD[int(contrast.count - 1) % 7, 0] == 28


def test_a_queue_that_starts_empty_is_ready_when_it_is_full(tmp_path):
    contrast = moco(tmp_path, queue_size=4, queue_start="full")
    contrast.enqueue(*keys(1, 3))
    assert not contrast.is_ready()
    contrast.enqueue(*keys(4, 1))
    assert contrast.is_ready()


def test_a_random_queue_has_unit_vectors_of_no_sentence(tmp_path):
    contrast = moco(tmp_path)
    assert contrast.is_ready()
    assert torch.allclose(contrast.queue_KD.norm(dim=-1), torch.ones(7), atol=1e-6)
    assert (contrast.pivots_K == EMPTY).all()


def test_what_is_compared_is_the_projection_of_the_unit_vector(tmp_path):
    plain, unit = moco(tmp_path, normalize_z=False), moco(tmp_path)
    states = torch.randn(4, 32)
    h = states / states.norm(dim=-1, keepdim=True)
    w1, b1, w2, b2 = (p.detach() for p in plain.head.parameters())
    z = torch.relu(h @ w1.T + b1) @ w2.T + b2
    assert torch.allclose(plain.embed(states), z, atol=1e-6)
    assert torch.allclose(plain.embed(3 * states, slow=True), z, atol=1e-6)
    assert torch.allclose(unit.embed(states), z / z.norm(dim=-1, keepdim=True), atol=1e-6)


def test_keys_of_the_rows_own_pivot_sentence_are_no_negatives(tmp_path):
    contrast = moco(tmp_path, queue_size=3)
    z, pivots = torch.nn.functional.normalize(torch.randn(3, 3), dim=-1), torch.tensor([4, 5, 6])
    contrast.enqueue(z, pivots)
    query, positive = z[1:2], torch.nn.functional.normalize(z[1:2] + z[:1], dim=-1)
    masked, free = (
        contrast.losses(query, positive, torch.tensor([5])),
        contrast.losses(query, positive, torch.tensor([9])),
    )
    left = info_nce(query, positive, z[[0, 2]], torch.zeros(1, 2, dtype=torch.bool), 0.05)
    assert torch.allclose(masked, left, atol=1e-6)
    assert (free > masked).all()
