"""Trainings of tasks whose steps are prepared ahead have the weights of plain ones, bit for bit."""

from __future__ import annotations

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.train.loop import TrainSettings, fit
from raxalign.train.runtime import Runtime
from tests.tasks.test_row_states import TASKS, encoder, folder, turned

__all__ = ["encoder", "folder"]

SETTINGS = TrainSettings(learning_rate=0.01, batch_size=3, steps=5)


def trained(make, aligned, runtime) -> torch.Tensor:
    objective = make(aligned)
    objective.model.dropout.p = 0.3
    fit(objective, objective.batches.count, SETTINGS, runtime)
    return torch.cat([p.detach().flatten() for p in objective.module.parameters()])


@pytest.mark.parametrize("make", TASKS)
@pytest.mark.parametrize("way", ["packed", "padded"])
def test_weights_are_bit_for_bit_those_of_a_plain_training(make, way, encoder):
    inside = Transform("en", 1, "inside", (Affine(shift=torch.ones(32)),))
    transforms = (inside, *turned("en", "de")) if way == "padded" else turned("en", "de")
    aligned = AlignedEncoder(encoder, transforms)
    plain, ahead = (
        trained(make, aligned, runtime)
        for runtime in (Runtime(), Runtime(prefetch=True, checkpointing="always"))
    )
    assert torch.equal(ahead, plain)
