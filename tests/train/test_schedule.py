"""Rates, rows, chance and updates of the optimiser, by numbers computed by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from raxalign.train import chance
from raxalign.train.loop import fit
from raxalign.train.objective import Objective, RowOrder, Step
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime

ROOT = 2**0.5 / 2


def rates(total, **options):
    settings = TrainSettings(learning_rate=2.0, batch_size=1, **options)
    return [settings.rate_at(step, total) for step in range(total)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [2.0, 2.0, 2.0]),
        ({"warmup": 0.4}, [0.5, 1.0, 1.5, 2.0] + [2.0] * 6),
        ({"warmup": 2}, [1.0] + [2.0] * 9),
        ({"warmup": 0.2, "schedule": "linear"}, [1.0, 2.0, *(0.25 * k for k in range(8, 0, -1))]),
        # 2 (1 + cos(π k / 4)) / 2 for k = 0 ... 3 after the warm-up, and 0 would come next
        ({"warmup": 2, "schedule": "cosine"}, [1.0, 2.0, 2.0, 1 + ROOT, 1.0, 1 - ROOT]),
        # 2 sqrt(2 / t) for the steps t from 3 on, counted from 1
        ({"warmup": 0.5, "schedule": "inverse-sqrt"}, [1.0, 2.0, 2 * (2 / 3) ** 0.5, 2 * ROOT]),
        ({"schedule": "inverse-sqrt"}, [2.0, 2 / 2**0.5, 2 / 3**0.5, 1.0]),
        *[
            ({"warmup": 8, "schedule": name}, [0.25, 0.5, 0.75, 1.0])
            for name in ("constant", "linear", "cosine", "inverse-sqrt")
        ],
    ],
)
def test_the_rate_rises_over_the_warmup_and_then_goes_as_the_schedule_says(options, expected):
    assert rates(len(expected), **options) == pytest.approx(expected)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "inverse-sqrt"])
def test_a_fraction_of_the_steps_warms_up_as_that_number_of_steps(schedule):
    parts = rates(10, warmup=0.5, schedule=schedule)
    assert parts == pytest.approx(rates(10, warmup=5.0, schedule=schedule))


def test_the_last_batch_of_an_epoch_may_be_smaller_and_steps_replace_epochs():
    order = RowOrder(10, TrainSettings(1.0, 4, shuffle=False), 0)
    found = [(epoch, rows.tolist()) for epoch, rows in map(order.rows, range(4))]
    assert found == [(0, [0, 1, 2, 3]), (0, [4, 5, 6, 7]), (0, [8, 9]), (1, [0, 1, 2, 3])]
    assert TrainSettings(1.0, 4, epochs=3, steps=5).total(10) == 5


MIXED = (6355185125837863469, 2530781778362038830, 8711250018134922203)
DRAWN = {"order": [3, 1, 0, 5, 2, 4], "MASKING": [78, 85, 43], "MIXING": [51, 78, 90]}


def test_every_stream_keeps_its_number():
    numbers = {
        name: v for name, v in vars(chance.Stream).items() if name.isupper() and type(v) is int
    }
    weights = {"ORDER": 0, "DROPOUT": 2, "DROPOUT_TWICE": 3, "NEW_WEIGHTS": 4, "ADAPTERS": 6}
    assert numbers == {**weights, "USES": 3, "DEV": 5, "MASKING": 0, "MIXING": 1}


def test_mixed_seeds_are_those_of_stored_results():
    assert chance.mix(7, chance.Stream.NEW_WEIGHTS) == MIXED[0]
    assert chance.mix(7, 3, chance.Stream.ORDER) == MIXED[1]
    assert chance.mix(7, 3, 1, chance.Stream.DROPOUT) == MIXED[2]


def test_the_first_draws_of_each_stream_are_those_of_stored_results():
    step = Step(number=2, epoch=0, rows=np.arange(4), seed=7)
    assert RowOrder(6, TrainSettings(1.0, 6), 7).rows(0)[1].tolist() == DRAWN["order"]
    for name in ("MASKING", "MIXING"):
        drawn = step.generator(getattr(chance.Stream, name)).integers(100, size=3)
        assert drawn.tolist() == DRAWN[name], name


class Plane(Objective):
    """The loss is 3 a + 4 b for a matrix (1, 1) a and a vector (1,) b: the gradient is (3, 4), of
    norm 5.
    """

    def __init__(self, slope=(3.0, 4.0)):
        self.module = nn.Linear(1, 1)
        self.slope = slope
        with torch.no_grad():
            self.module.weight.fill_(1.0)
            self.module.bias.fill_(1.0)
        self.seen: list[tuple[float, float]] = []

    def loss(self, step, positions):
        return (self.slope[0] * self.module.weight + self.slope[1] * self.module.bias).sum()

    def end(self, step):
        self.seen.append((float(self.module.weight), float(self.module.bias)))


def after_one_step(**options):
    objective = Plane()
    fit(objective, 1, TrainSettings(batch_size=1, **options), Runtime())
    return objective.seen[0]


def test_the_gradient_is_scaled_down_to_the_largest_norm():
    # Adam's first update is g / (|g| + ε) per coordinate: with ε = 1 and g = (3, 4) 3 / 4 and 4 / 5
    assert after_one_step(learning_rate=0.1, eps=1.0) == pytest.approx((0.925, 0.92))
    # clipped to the norm 1 the gradient is (0.6, 0.8): 0.6 / 1.6 and 0.8 / 1.8
    clipped = after_one_step(learning_rate=0.1, eps=1.0, clip=1.0)
    assert clipped == pytest.approx((1 - 0.1 * 0.375, 1 - 0.1 * 0.8 / 1.8))


def test_matrices_decay_by_rate_times_decay_and_vectors_do_not():
    # without ε the update is the rate; before it the matrix loses 0.1 * 0.5 of itself
    weight, bias = after_one_step(learning_rate=0.1, weight_decay=0.5)
    assert weight == pytest.approx(1 - 0.1 * 0.5 - 0.1, abs=1e-6)
    assert bias == pytest.approx(1 - 0.1, abs=1e-6)


def test_the_betas_weigh_the_gradients_of_earlier_steps():
    # β1 = 0 forgets the first step: with slopes 3 then -3 the second step returns to the start,
    # but for β2 = 0 as well, where each step is the sign of its own gradient
    class Turning(Plane):
        def loss(self, step, positions):
            return super().loss(step, positions) * (-1) ** step.number

    objective = Turning()
    fit(objective, 1, TrainSettings(0.1, 1, steps=2, betas=(0.0, 0.0)), Runtime())
    assert objective.seen == [pytest.approx((0.9, 0.9)), pytest.approx((1.0, 1.0))]
    # β1 = 0.5: m = 0.5 * 1.5 - 0.5 * 3 = -0.75, unbiased -0.75 / 0.75 = -1 of |g| = 3
    objective = Turning()
    fit(objective, 1, TrainSettings(0.1, 1, steps=2, betas=(0.5, 0.0)), Runtime())
    assert objective.seen[1] == pytest.approx((0.9 + 0.1 / 3, 0.9 + 0.1 / 3), abs=1e-6)
