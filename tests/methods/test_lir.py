from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from raxalign.errors import RaxalignError
from raxalign.methods.lir import Lir, without_directions
from raxalign.train.runtime import Runtime
from tests.methods.planted import TableEncoder, applied, normal, planted_inputs, rotation


def test_the_first_direction_is_taken_out_as_by_hand():
    x = torch.tensor([[3.0, 0], [0, 1]], dtype=torch.float64)
    assert torch.allclose(
        without_directions(x.T @ x, 1),
        torch.tensor([[0.0, 0], [0, 1]], dtype=torch.float64),
        atol=1e-12,
    )


@given(st.integers(1, 4), st.integers(0, 9))
def test_it_is_the_projection_that_the_singular_vectors_give(rank, seed):
    x = normal(12, 5, seed=seed) + 1
    weight = without_directions(x.T @ x, rank)
    directions = torch.linalg.svd(x).Vh[:rank].T
    assert (weight - (torch.eye(5) - directions @ directions.T)).abs().max() < 1e-9
    assert (weight @ weight - weight).abs().max() < 1e-9


def test_a_planted_direction_is_removed_and_all_else_stays(tmp_path):
    basis, signs = rotation(4), torch.tensor([1.0, -1, 1, -1], dtype=torch.float64)
    content = (
        torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 2, 0]], dtype=torch.float64)
        @ basis[1:]
    )
    tables = {
        "de": (content + 50 * signs[:, None] * basis[:1]).float(),
        "en": (content - 20 * signs[:, None] * basis[:1]).float(),
    }
    aligned = Lir(Lir.Params()).align(TableEncoder(tables), planted_inputs(tmp_path, 4), Runtime())
    for lang, table in tables.items():
        assert (applied(aligned.transforms, lang, table) - content).abs().max() < 2e-5


def test_a_rank_that_leaves_nothing_is_refused(tmp_path):
    tables = dict.fromkeys(("de", "en"), torch.ones(2, 3))
    with pytest.raises(RaxalignError, match="rank 3"):
        Lir(Lir.Params(rank=3)).align(TableEncoder(tables), planted_inputs(tmp_path, 2), Runtime())
