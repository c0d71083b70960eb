from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from raxalign.encoders.models.aligned import Affine, Unit
from raxalign.methods.statistics.moments import TextMoments, WordReading, text_moments
from tests.methods.planted import TableEncoder, normal, planted_inputs


def test_means_deviations_and_second_moments_are_those_of_the_whole_matrix(tmp_path):
    tables = {"de": normal(11, 3) * 5 + 2, "en": normal(11, 3, seed=1)}
    moments = text_moments(
        WordReading(TableEncoder(tables), (0,), "last"),
        planted_inputs(tmp_path, 11),
        "de",
        gram=True,
    )
    x = tables["de"]
    assert moments.count == 11
    assert (moments.means()[0] - x.mean(0)).abs().max() < 1e-9
    assert (moments.deviations()[0] - x.std(0, correction=0)).abs().max() < 1e-9
    assert (moments.gram_LHH[0] - x.T @ x).abs().max() < 1e-9


def test_steps_come_before_the_sums_each_layer_having_its_own(tmp_path):
    tables = {"de": torch.tensor([[3.0, 4], [0, 2]], dtype=torch.float64), "en": torch.zeros(2, 2)}
    shift = Affine(torch.tensor([1.0, 0], dtype=torch.float64))
    steps = [(Unit(), shift), ()]
    moments = text_moments(
        WordReading(TableEncoder(tables), (0, 0), "last"),
        planted_inputs(tmp_path, 2),
        "de",
        before=steps,
    )
    assert torch.allclose(
        moments.means(), torch.tensor([[-0.7, 0.9], [1.5, 3.0]], dtype=torch.float64), atol=1e-12
    )


@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 5))
def test_sums_do_not_depend_on_how_the_vectors_are_divided(n, cut, seed):
    x = normal(n, 2, 3, seed=seed)
    whole, parts = TextMoments.empty(2, 3, gram=True), TextMoments.empty(2, 3, gram=True)
    whole.add(x)
    parts.add(x[cut:])
    parts.add(x[:cut])
    assert whole.count == parts.count
    for name in ("sum_LH", "square_LH", "gram_LHH"):
        assert torch.allclose(getattr(whole, name), getattr(parts, name), atol=1e-9)


def test_a_coordinate_that_never_changes_has_the_deviation_one():
    moments = TextMoments.empty(1, 2)
    moments.add(torch.tensor([[[0.1, 1.0]]] * 3 + [[[0.1, 2.0]]]))
    assert moments.deviations()[0, 0] == 1
    assert abs(float(moments.deviations()[0, 1]) - 3**0.5 / 4) < 1e-12
