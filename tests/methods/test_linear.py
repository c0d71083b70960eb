from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from raxalign.methods.linear import Linear, least_squares
from raxalign.methods.statistics.moments import Moments
from raxalign.train.runtime import Runtime
from tests.methods.planted import TableEncoder, applied, normal, planted_inputs


def fitted(source: torch.Tensor, target: torch.Tensor, *, center: bool) -> torch.Tensor:
    """The source as a map fitted on sums of parts maps it."""
    inner, pairs = Moments.empty(1, source.shape[1]), Moments.empty(1, source.shape[1])
    for start in range(0, len(source), 7):
        part = slice(start, start + 7)
        inner.add(source[part, None], source[part, None])
        pairs.add(source[part, None], target[part, None])
    weight = least_squares(inner.cross(0, center=center), pairs.cross(0, center=center))
    (from_mean,), (to_mean,) = pairs.means()
    return (source - from_mean) @ weight + to_mean if center else source @ weight


def test_a_planted_linear_map_is_recovered_and_with_centring_an_affine_one():
    source, matrix, shift = normal(40, 5) + 1, normal(5, 5, seed=1), normal(5, seed=2) * 5
    assert (fitted(source, source @ matrix, center=False) - source @ matrix).abs().max() < 1e-9
    affine = source @ matrix + shift
    assert (fitted(source, affine, center=True) - affine).abs().max() < 1e-9
    assert (fitted(source, affine, center=False) - affine).abs().max() > 0.1


def test_ridge_is_the_value_that_is_computed_by_hand():
    inner, cross = (
        torch.tensor([[2.5]], dtype=torch.float64),
        torch.tensor([[5.0]], dtype=torch.float64),
    )
    assert abs(float(least_squares(inner, cross, 0.5)) - 5 / 3) < 1e-12


@given(st.integers(1, 12), st.one_of(st.just(0.0), st.floats(1e-3, 2)), st.integers(0, 9))
def test_no_other_matrix_is_better(n, ridge, seed):
    """The gradient X^T (X W - Y) + ridge W vanishes, with fewer pairs than dimensions too; then W
    is the shortest solution.
    """
    source, target = normal(n, 6, seed=seed), normal(n, 6, seed=seed + 50)
    weight = least_squares(source.T @ source, source.T @ target, ridge)
    assert (source.T @ (source @ weight - target) + ridge * weight).abs().max() < 1e-7
    if ridge == 0 and n < 6:
        assert (weight - torch.linalg.pinv(source) @ target).abs().max() < 1e-6


@pytest.mark.parametrize("direction", ["to-pivot", "to-other"])
def test_the_language_that_moves_arrives_where_the_other_one_is(tmp_path, direction):
    other = normal(30, 4)
    tables = {"de": other.float(), "en": (other @ normal(4, 4, seed=1) + 2).float()}
    params = Linear.Params(center=True, direction=direction)
    aligned = Linear(params).align(TableEncoder(tables), planted_inputs(tmp_path, 30), Runtime())
    moving, held = ("de", "en") if direction == "to-pivot" else ("en", "de")
    assert [(t.lang, t.toward) for t in aligned.transforms] == [
        (moving, None if moving == "de" else "de")
    ]
    assert torch.allclose(
        applied(aligned.transforms, moving, tables[moving]), tables[held], atol=1e-4
    )
    assert aligned.notes == {"de": {"pairs": 30, "dimensions": 4, "rank": [4]}}
