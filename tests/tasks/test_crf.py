"""Conditional random fields against sums over all sequences of tags."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from raxalign.tasks.tagging.crf import ConditionedCrf, StaticCrf

N, WIDTH, LENGTHS = 3, 4, (4, 1, 3)


@pytest.fixture(params=[StaticCrf, ConditionedCrf])
def crf(request):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        made = request.param(WIDTH, N).double()
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter)
    return made


@pytest.fixture
def states():
    return torch.randn(
        len(LENGTHS),
        max(LENGTHS),
        WIDTH,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(5),
    )


MASK = torch.tensor([[t < length for t in range(max(LENGTHS))] for length in LENGTHS])


def score(crf, states_TH, tags):
    """The unnormalised log-probability of one sequence, term by term."""
    total = 0.0
    for t, (state, tag) in enumerate(zip(states_TH, tags, strict=True)):
        total += float(crf.tags.weight[tag] @ state + crf.tags.bias[tag])
        if isinstance(crf, ConditionedCrf):
            row = (tags[t - 1] if t else N) * N + tag
            total += float(crf.transitions.weight[row] @ state + crf.transitions.bias[row])
        elif t:
            total += float(crf.crf.transitions[tags[t - 1], tag])
    if isinstance(crf, StaticCrf):
        total += float(crf.crf.start_transitions[tags[0]] + crf.crf.end_transitions[tags[-1]])
    return total


def every(crf, states_TH):
    return {tags: score(crf, states_TH, tags) for tags in product(range(N), repeat=len(states_TH))}


def test_losses_are_those_of_the_sum_over_all_sequences(crf, states):
    tags_BT = torch.tensor([[0, 2, 1, 1], [2, 0, 0, 0], [1, 1, 0, 2]])
    losses = crf.losses(states, tags_BT, MASK)
    for b, length in enumerate(LENGTHS):
        scores = every(crf, states[b, :length])
        whole = torch.logsumexp(torch.tensor(list(scores.values()), dtype=torch.float64), 0)
        assert float(losses[b]) == pytest.approx(
            float(whole) - scores[tuple(tags_BT[b, :length].tolist())], abs=1e-9
        )


def test_losses_gradients_and_tags_are_those_of_pytorch_crf():
    """The figures are those that pytorch-crf 0.7.2 found, with the same weights by the same seed.
    They were equal in every bit on the processor that made them; others may round differently.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        crf = StaticCrf(WIDTH, N)
    states = torch.randn(3, 4, WIDTH, generator=torch.Generator().manual_seed(5))
    losses = crf.losses(states, torch.tensor([[0, 2, 1, 1], [2, 0, 0, 0], [1, 1, 0, 2]]), MASK)
    losses.sum().backward()
    assert losses.tolist() == pytest.approx([4.7064977, 0.3940978, 2.3057585], abs=1e-6)
    gradients = {name: p.grad.flatten().tolist() for name, p in crf.crf.named_parameters()}
    assert list(gradients) == ["start_transitions", "end_transitions", "transitions"]
    flat = [value for part in gradients.values() for value in part]
    assert flat == pytest.approx(
        [
            *[-0.1614078, -0.0552038, 0.2166115],
            *[0.0272111, -0.1628971, 0.1356859],
            *[0.8231058, 0.6961511, -0.5381963],
            *[-0.243649, -1.4848937, 0.4426392],
            *[0.5902225, -0.604854, 0.319474],
        ],
        abs=1e-6,
    )
    assert crf.decode(states, MASK) == [[0, 1, 0, 1], [2], [1, 0, 0]]


def test_decoding_finds_the_best_of_all_sequences(crf, states):
    found = crf.decode(states, MASK)
    for b, length in enumerate(LENGTHS):
        scores = every(crf, states[b, :length])
        assert tuple(found[b]) == max(scores, key=scores.get)


def test_what_is_beyond_a_sentence_changes_nothing(crf, states):
    tags_BT = torch.tensor([[0, 2, 1, 1], [2, 0, 0, 0], [1, 1, 0, 2]])
    losses = crf.losses(states, tags_BT, MASK)
    other = torch.where(MASK[..., None], states, states + 7)
    assert torch.allclose(crf.losses(other, tags_BT, MASK), losses, atol=1e-12)
    assert crf.decode(other, MASK) == crf.decode(states, MASK)
    (losses.sum()).backward()
    assert all(
        parameter.grad is not None and bool(parameter.grad.isfinite().all())
        for parameter in crf.parameters()
    )
