from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from raxalign.methods.objectives.whole_batch import WholeBatch
from raxalign.train.objective import Step

ROWS = np.array([5, 0, 3, 6, 1, 2])
COUNTS = np.array([2, 0, 1, 3, 1, 2, 1])
"""Items of the rows 0 to 6: some have none."""


class Toy(WholeBatch):
    """Items are inputs through two layers with dropout between; the loss joins all of them, and
    weights are regularised.
    """

    shape = (2, 3)

    def __init__(self, *, regularised=True):
        torch.manual_seed(0)
        self.module = nn.Sequential(
            nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 6)
        ).double()
        self.offsets = np.concatenate([[0], np.cumsum(COUNTS)])
        self.inputs = torch.randn(int(self.offsets[-1]), 4, dtype=torch.float64)
        self.regularised = regularised

    def counts(self, rows):
        return COUNTS[rows]

    def vectors(self, rows):
        items = [i for row in rows for i in range(self.offsets[row], self.offsets[row + 1])]
        return self.module(self.inputs[items]).view(-1, 2, 3)

    def batch_loss(self, rows, vectors):
        assert len(vectors) == COUNTS[rows].sum()
        left, right = vectors.unbind(1)
        return nn.functional.cross_entropy(left @ right.T, torch.arange(len(left)))

    def extra(self):
        return (
            sum((p.pow(2).sum() for p in self.module.parameters()), torch.zeros(()))
            if self.regularised
            else None
        )


def run(objective, step):
    """The loss and the gradients of a step as the loop adds them up."""
    objective.module.zero_grad()
    torch.manual_seed(7)
    objective.begin(step)
    total = 0.0
    for positions in step.micro_batches():
        loss = objective.loss(step, positions)
        loss.backward()
        total += loss.item()
    objective.end(step)
    return total, [p.grad.clone() for p in objective.module.parameters() if p.grad is not None]


@pytest.fixture
def objective():
    toy = Toy()
    toy.module.eval()
    return toy


def test_dropout_is_the_same_in_both_passes(objective):
    objective.module.train()
    step = Step(3, 0, ROWS, seed=1, micro=2)
    objective.begin(step)
    assert objective._begun is not None
    gathered = objective._begun[1].clone()
    seen: list[torch.Tensor] = []
    plain = objective.vectors
    objective.vectors = lambda rows: seen.append(plain(rows)) or seen[-1]
    for start in (0, 2, 4):
        torch.manual_seed(start)  # whatever state the generator is in
        objective.loss(step, np.arange(6)[start : start + 2])
    assert torch.equal(torch.cat(seen), gathered)
    objective.module.eval()
    assert not torch.allclose(plain(ROWS), gathered)


def test_a_batch_in_which_memory_ran_out_is_begun_anew_with_smaller_micro_batches(objective):
    whole, gradients = run(objective, Step(3, 0, ROWS, micro=6))
    objective.begin(Step(3, 0, ROWS, micro=4))
    parts, same = run(objective, Step(3, 0, ROWS, micro=2))
    assert parts == pytest.approx(whole, rel=1e-12)
    assert all(
        torch.allclose(left, right, rtol=1e-12, atol=1e-14)
        for left, right in zip(gradients, same, strict=True)
    )
