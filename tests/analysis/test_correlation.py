"""Correlations over languages, against scipy's."""

import numpy as np
import pytest

from raxalign.analysis.correlation import correlate


def test_both_correlations_are_scipys_ties_included():
    from scipy.stats import pearsonr, spearmanr

    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, 12).tolist()
    y = (rng.integers(0, 4, 12) + np.array(x)).tolist()
    found = correlate(x, y)
    assert (found.pearson, found.spearman) == (
        pytest.approx(pearsonr(x, y)[0]),
        pytest.approx(spearmanr(x, y)[0]),
    )
    assert found.n == 12


def test_too_few_points_have_no_correlation():
    assert correlate([1, 2], [3, 4]).pearson is None
    assert correlate([1, 1, 1], [3, 4, 5]).spearman is None
    assert correlate([1, 2], [3, 4]).n == 2
