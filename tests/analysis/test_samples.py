"""Predictions taken apart: each sample's value is the metric that the task reports."""

import numpy as np
import pyarrow as pa
import pytest

from raxalign.analysis.samples import sample


def table(**columns):
    n = len(next(iter(columns.values())))
    return pa.table({"lang": ["de"] * n, "split": ["test"] * n, **columns})


def test_accuracy_of_labels():
    found = sample(table(id=[0, 1, 2, 3], label=list("abca"), predicted=list("abcc")), "de", "accuracy", "test")
    assert (found.value, found.units.tolist()) == (0.75, [0, 1, 2, 3])


def test_premises_are_the_units_where_they_are_known():
    found = sample(table(id=[0, 1, 2], premise=["x", "x", "y"], label=list("aaa"), predicted=list("aba")), "de", "accuracy", "test")
    assert len(found.units) == 2
    assert found.value == pytest.approx(2 / 3)


def test_word_pairs_are_counted_by_sentence_and_averaged_over_directions():
    flags = {"identical": [False] * 4 + [True], "unseen": [True, True, True, False, True]}
    first = {"first": [True, False, True, True, False], "first_unseen": [True, False, True, False, False]}
    pairs = table(direction=["to_pivot"] * 3 + ["from_pivot"] * 2, id=[7, 7, 8, 7, 8], correct=[True, False, True, True, True], **flags, **first)
    assert sample(pairs, "de", "contextual_accuracy", "test").value == pytest.approx(2 / 3)  # to_pivot alone has unseen pairs
    every = sample(pairs, "de", "contextual_accuracy_all", "test")
    assert (every.value, every.units.tolist()) == (pytest.approx((2 / 3 + 1) / 2), [7, 8])
    assert sample(pairs, "de", "noncontextual_accuracy", "test").value == 1.0
    assert sample(pairs, "de", "contextual_accuracy_all_to_pivot", "test").value == pytest.approx(2 / 3)
    assert sample(pairs, "de", "contextual_accuracy_pairs", "test") is None


def test_entity_scores_are_ratios_of_sums():
    counts = table(id=[0, 1], n_gold=[3, 1], n_predicted=[2, 2], n_right=[2, 0], n_tokens=[5, 5], n_tokens_right=[4, 3])
    assert sample(counts, "de", "f1", "test").value == pytest.approx(2 * 2 / (4 + 4))
    assert sample(counts, "de", "precision", "test").value == pytest.approx(2 / 4)
    assert sample(counts, "de", "accuracy", "test").value == pytest.approx(7 / 10)


def test_questions_on_one_context_are_one_unit():
    found = sample(table(id=["q1", "q2", "q3"], context=[4, 4, 9], f1=[1.0, 0.5, 0.0]), "de", "f1", "test")
    assert (found.value, found.units.tolist()) == (0.5, [4, 9])


def test_ranks_of_both_directions():
    ranks = table(direction=["to_pivot", "to_pivot", "from_pivot"], query=["a", "b", "a"], rank=[1.0, 4.0, 2.0], correct=[True, False, False])
    assert sample(ranks, "de", "mrr", "test").value == pytest.approx(((1 + 0.25) / 2 + 0.5) / 2)
    assert sample(ranks, "de", "precision_at_1", "test").value == pytest.approx(0.25)
    assert len(sample(ranks, "de", "mrr", "test").units) == 3  # a word of one language is not the same word of the other


def test_several_models_of_the_pivot_are_parts():
    found = sample(table(toward=["de", "de", "fr"], id=[0, 1, 0], label=list("aaa"), predicted=list("aba")), "de", "accuracy", "test")
    assert found.value == pytest.approx((0.5 + 1.0) / 2)


def test_what_cannot_be_taken_apart_is_left():
    assert sample(table(id=[0], bleu=[1.0]), "de", "rouge", "test") is None
    assert sample(table(id=[0], f1=[1.0]), "fr", "f1", "test") is None
    assert sample(pa.table({"x": np.arange(3)}), "de", "f1", "test") is None
