from __future__ import annotations

import pytest
import torch

from raxalign.methods.iterative_normalization import IterativeNormalization
from raxalign.train.runtime import Runtime
from tests.methods.planted import TableEncoder, applied, normal, planted_inputs, rotation


def tables() -> dict[str, torch.Tensor]:
    return {
        "de": normal(40, 5, dtype=torch.float32) + 2,
        "en": normal(40, 5, seed=1, dtype=torch.float32) - 1,
    }


def test_the_steps_are_those_of_rounds_over_the_whole_matrix(tmp_path):
    found = IterativeNormalization(IterativeNormalization.Params(rounds=3)).align(
        TableEncoder(tables()), planted_inputs(tmp_path, 40), Runtime()
    )
    for lang, table in tables().items():
        x = table.double()
        for _ in range(3):
            x = x / x.norm(dim=1, keepdim=True)
            x = x - x.mean(0)
        assert (
            applied(found.transforms, lang, table) - x / x.norm(dim=1, keepdim=True)
        ).abs().max() < 1e-6


def test_the_lengths_of_the_vectors_do_not_matter(tmp_path):
    stretched = {
        lang: table * (1 + normal(40, 1, seed=5, dtype=torch.float32).abs() * 9)
        for lang, table in tables().items()
    }
    method, inputs = (
        IterativeNormalization(IterativeNormalization.Params()),
        planted_inputs(tmp_path, 40),
    )
    one, other = (
        applied(method.align(TableEncoder(t), inputs, Runtime()).transforms, "de", t["de"])
        for t in (tables(), stretched)
    )
    assert torch.allclose(one, other, atol=1e-5)


def test_more_rounds_bring_the_mean_nearer_to_zero_at_length_one(tmp_path):
    inputs, offsets = planted_inputs(tmp_path, 40), []
    for rounds in (1, 5, 20):
        method = IterativeNormalization(IterativeNormalization.Params(rounds=rounds))
        found = applied(
            method.align(TableEncoder(tables()), inputs, Runtime()).transforms, "de", tables()["de"]
        )
        assert torch.allclose(found.norm(dim=1), torch.ones(40), atol=1e-6)
        offsets.append(float(found.mean(0).norm()))
    assert offsets[0] > offsets[1] > offsets[2]
    assert offsets[2] < 1e-5


@pytest.mark.parametrize("direction", ["to-pivot", "to-other"])
def test_with_rotation_pairs_that_were_only_turned_shifted_nowhere_and_stretched_coincide(
    tmp_path, direction
):
    other = normal(40, 5) + 1
    vectors = {
        "de": other.float(),
        "en": (other @ rotation(5) * (1 + normal(40, 1, seed=3).abs())).float(),
    }
    method = IterativeNormalization(IterativeNormalization.Params(rotate=True, direction=direction))
    assert (method.needs().text, method.needs().links) == (True, True)
    found = method.align(TableEncoder(vectors), planted_inputs(tmp_path, 40), Runtime())
    assert torch.allclose(
        applied(found.transforms, "de", vectors["de"]),
        applied(found.transforms, "en", vectors["en"]),
        atol=1e-5,
    )
    assert 1 < found.notes["de"].pop("effective_rank")[0] < 5
    assert found.notes["de"] == {"words": 40, "pairs": 40, "dimensions": 5, "rank": [5]}


def test_the_direction_of_no_rotation_is_idle():
    plain = [
        IterativeNormalization(IterativeNormalization.Params(direction=way))
        for way in ("to-pivot", "to-other")
    ]
    assert plain[0].canonical() == plain[1].canonical()
    assert not plain[0].needs().links
    turned = [
        IterativeNormalization(IterativeNormalization.Params(rotate=True, direction=way))
        for way in ("to-pivot", "to-other")
    ]
    assert turned[0].canonical() != turned[1].canonical()
