"""Clipping and weight decay, by updates computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from raxalign.train.loop import TrainSettings, fit
from raxalign.train.objective import Objective, Step
from raxalign.train.runtime import Runtime


class Plane(Objective):
    """The loss is 3 a + 4 b for a matrix (1, 1) a and a vector (1,) b: the gradient is (3, 4), of
    norm 5.
    """

    def __init__(self, slope: tuple[float, float] = (3.0, 4.0)) -> None:
        self.module = nn.Linear(1, 1)
        self.slope = slope
        with torch.no_grad():
            self.module.weight.fill_(1.0)
            self.module.bias.fill_(1.0)
        self.seen: list[tuple[float, float]] = []

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        return (self.slope[0] * self.module.weight + self.slope[1] * self.module.bias).sum()

    def end(self, step: Step) -> None:
        self.seen.append((float(self.module.weight), float(self.module.bias)))


def after_one_step(**options: object) -> tuple[float, float]:
    objective = Plane()
    fit(objective, 1, TrainSettings(batch_size=1, **options), Runtime())
    return objective.seen[0]


def test_the_gradient_is_scaled_down_to_the_largest_norm() -> None:
    # Adam's first update is g / (|g| + ε) per coordinate: with ε = 1 and g = (3, 4) 3 / 4 and 4 / 5
    assert after_one_step(learning_rate=0.1, eps=1.0) == pytest.approx((0.925, 0.92))
    # clipped to the norm 1 the gradient is (0.6, 0.8): 0.6 / 1.6 and 0.8 / 1.8
    assert after_one_step(learning_rate=0.1, eps=1.0, clip=1.0) == pytest.approx(
        (1 - 0.1 * 0.375, 1 - 0.1 * 0.8 / 1.8)
    )


def test_a_gradient_below_the_largest_norm_stays_as_it_is() -> None:
    plain = after_one_step(learning_rate=0.1, eps=1.0)
    assert after_one_step(learning_rate=0.1, eps=1.0, clip=5.1) == pytest.approx(plain)


def test_matrices_decay_by_rate_times_decay_and_vectors_do_not() -> None:
    # without ε the update is the rate; before it the matrix loses 0.1 * 0.5 of itself
    weight, bias = after_one_step(learning_rate=0.1, weight_decay=0.5)
    assert weight == pytest.approx(1 - 0.1 * 0.5 - 0.1, abs=1e-6)
    assert bias == pytest.approx(1 - 0.1, abs=1e-6)


def test_biases_and_norms_of_a_block_are_the_vectors_that_do_not_decay() -> None:
    block = nn.TransformerEncoderLayer(8, 2, 16)

    class Flat(Objective):
        module = block

        def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
            return sum((0 * p).sum() for p in block.parameters())

    before = {name: p.detach().clone() for name, p in block.named_parameters()}
    fit(Flat(), 1, TrainSettings(0.1, 1, weight_decay=0.5), Runtime())
    for name, parameter in block.named_parameters():
        decays = not (name.endswith("bias") or name.startswith("norm"))
        expected = before[name] * (0.95 if decays else 1.0)
        assert torch.allclose(parameter, expected), name


def test_the_betas_weigh_the_gradients_of_earlier_steps() -> None:
    # β1 = 0 forgets the first step: with slopes 3 then -3 the second step returns to the start,
    # but for β2 = 0 as well, where each step is the sign of its own gradient
    class Turning(Plane):
        def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
            return super().loss(step, positions) * (-1) ** step.number

    objective = Turning()
    fit(objective, 1, TrainSettings(0.1, 1, steps=2, betas=(0.0, 0.0)), Runtime())
    assert objective.seen == [pytest.approx((0.9, 0.9)), pytest.approx((1.0, 1.0))]
    # β1 = 0.5: m = 0.5 * 1.5 - 0.5 * 3 = -0.75, unbiased -0.75 / 0.75 = -1 of |g| = 3
    objective = Turning()
    fit(objective, 1, TrainSettings(0.1, 1, steps=2, betas=(0.5, 0.0)), Runtime())
    assert objective.seen[1] == pytest.approx((0.9 + 0.1 / 3, 0.9 + 0.1 / 3), abs=1e-6)
