from __future__ import annotations

import torch

from raxalign.methods.znorm import Znorm
from raxalign.train.runtime import Runtime
from tests.methods.planted import TableEncoder, applied, normal, planted_inputs


def test_each_coordinate_has_mean_zero_and_deviation_one(tmp_path):
    scales = torch.tensor([0.01, 1, 30, 1])
    tables = {
        "de": normal(50, 4, dtype=torch.float32) * scales + 3,
        "en": normal(50, 4, seed=1, dtype=torch.float32) - 2,
    }
    found = Znorm(Znorm.Params()).align(
        TableEncoder(tables), planted_inputs(tmp_path, 50), Runtime()
    )
    for lang, table in tables.items():
        moved = applied(found.transforms, lang, table).double()
        assert moved.mean(0).abs().max() < 1e-4  # 3 in a coordinate that varies by 0.01
        assert (moved.std(0, correction=0) - 1).abs().max() < 1e-4


def test_the_values_are_those_computed_by_hand_and_a_constant_coordinate_is_only_shifted(tmp_path):
    tables = {"de": torch.tensor([[1.0, 7], [5, 7]]), "en": torch.tensor([[0.0, 0], [0, 8]])}
    found = Znorm(Znorm.Params()).align(
        TableEncoder(tables), planted_inputs(tmp_path, 2), Runtime()
    )
    assert applied(found.transforms, "de", torch.tensor([[9.0, 8]])).tolist() == [[3.0, 1.0]]
    assert applied(found.transforms, "en", torch.tensor([[2.0, 8]])).tolist() == [[2.0, 1.0]]
