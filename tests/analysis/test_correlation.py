"""Correlations over languages, against scipy's."""

import numpy as np
import pytest

from raxalign.analysis.correlation import Correlation, GroupedCorrelation


def test_both_correlations_are_scipys_ties_included():
    from scipy.stats import pearsonr, spearmanr

    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, 12).tolist()
    y = (rng.integers(0, 4, 12) + np.array(x)).tolist()
    found = Correlation.of(x, y)
    assert found.pearson == pytest.approx(pearsonr(x, y)[0])
    assert found.spearman == pytest.approx(spearmanr(x, y)[0])
    assert found.n == 12


def test_too_few_points_have_no_correlation():
    assert Correlation.of([1, 2], [3, 4]).pearson is None
    assert Correlation.of([1, 1, 1], [3, 4, 5]).spearman is None
    assert Correlation.of([1, 2], [3, 4]).n == 2


def test_the_interval_of_groups_leaves_out_one_language_at_a_time():
    """A jackknife over groups on Fisher's z, in plain NumPy."""
    draw = np.random.default_rng(3)
    x = draw.standard_normal(18)
    y = x + draw.standard_normal(18)
    groups = np.repeat(list("abcdef"), 3)
    found = GroupedCorrelation.of(x.tolist(), y.tolist(), groups.tolist())
    rs = [np.corrcoef(x[groups != g], y[groups != g])[0, 1] for g in "abcdef"]
    zs = np.arctanh(rs)
    half = 2.570582 * np.sqrt(5 / 6 * np.sum((zs - zs.mean()) ** 2))  # t of 5 degrees
    ends = np.tanh(np.arctanh(found.found.pearson) + np.array([-half, half]))
    assert found.interval == pytest.approx(tuple(ends), abs=1e-6)
    assert (found.groups, found.found.n) == (6, 18)
    assert GroupedCorrelation.of([1, 2, 3], [1, 2, 4], list("aab")).interval is None
    alone = GroupedCorrelation.of([1, 1, 1, 5], [1, 2, 4, 8], list("abcd"))
    assert alone.interval is None  # without d nothing varies
