"""The random streams: their numbers are part of every stored result."""

from __future__ import annotations

import numpy as np
import torch

from raxalign.encoders.training.masking import chance_of
from raxalign.train import chance
from raxalign.train._schedule import RowOrder, TrainSettings
from raxalign.train.objective import Step

MIXED = (6355185125837863469, 2530781778362038830, 8711250018134922203)
DRAWN = {
    "order": [3, 1, 0, 5, 2, 4],
    "batch": [44, 25, 35],
    "MASKING": [78, 85, 43],
    "MIXING": [51, 78, 90],
}


def test_every_stream_keeps_its_number() -> None:
    numbers = {
        name: value
        for name, value in vars(chance).items()
        if name.isupper() and isinstance(value, int) and not isinstance(value, bool)
    }
    assert numbers == {
        "ORDER": 0,
        "BATCH": 1,
        "DROPOUT": 2,
        "USES": 3,
        "DROPOUT_TWICE": 3,
        "NEW_WEIGHTS": 4,
        "ADAPTERS": 6,
        "DEV": 5,
        "MASKING": 0,
        "MIXING": 1,
    }


def test_mixed_seeds_are_those_of_stored_results() -> None:
    assert chance.mix(7, chance.NEW_WEIGHTS) == MIXED[0]
    assert chance.mix(7, 3, chance.ORDER) == MIXED[1]
    assert chance.mix(7, 3, 1, chance.DROPOUT) == MIXED[2]


def test_the_first_draws_of_each_stream_are_those_of_stored_results() -> None:
    step = Step(number=2, epoch=0, rows=np.arange(4), seed=7)
    assert RowOrder(6, TrainSettings(1.0, 6), 7).rows(0)[1].tolist() == DRAWN["order"]
    assert torch.randint(100, (3,), generator=step.generator()).tolist() == DRAWN["batch"]
    for name in ("MASKING", "MIXING"):
        drawn = chance_of(step, getattr(chance, name)).integers(100, size=3)
        assert drawn.tolist() == DRAWN[name], name


def test_generators_are_seeded_as_torch_does_but_no_call_stack_is_written(monkeypatch):
    torch.manual_seed(MIXED[0])
    expected = torch.rand(3)

    def never() -> list[str]:
        raise AssertionError("each step would pay for it")

    monkeypatch.setattr("traceback.format_stack", never)
    chance.seed_generators(MIXED[0])
    assert torch.equal(torch.rand(3), expected)
