"""Predictions taken apart: each sample's value is the metric that the task reports."""

import numpy as np
import pyarrow as pa
import pytest

from raxalign.analysis.samples import sample
from raxalign.analysis.significance import compare, examples_interval, stack


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


def test_link_scores_are_ratios_of_sums_of_sure_and_possible_links():
    counts = table(id=[0, 1], n_gold=[2, 1], n_predicted=[2, 2], n_right=[2, 1], n_right_sure=[1, 1], n_wrong=[1, 1])
    assert sample(counts, "de", "precision", "test").value == pytest.approx(3 / 4)
    assert sample(counts, "de", "recall", "test").value == pytest.approx(2 / 3)
    assert sample(counts, "de", "alignment_error_rate", "test").value == pytest.approx(1 - 5 / 7)


def test_questions_on_one_context_are_one_unit():
    found = sample(table(id=["q1", "q2", "q3"], context=[4, 4, 9], f1=[1.0, 0.5, 0.0]), "de", "f1", "test")
    assert (found.value, found.units.tolist()) == (0.5, [4, 9])


def test_ranks_of_both_directions():
    ranks = table(direction=["to_pivot", "to_pivot", "from_pivot"], query=["a", "b", "a"], rank=[1.0, 4.0, 2.0], correct=[True, False, False])
    assert sample(ranks, "de", "mrr", "test").value == pytest.approx(((1 + 0.25) / 2 + 0.5) / 2)
    assert sample(ranks, "de", "precision_at_1", "test").value == pytest.approx(0.25)
    assert len(sample(ranks, "de", "mrr", "test").units) == 3  # a word of one language is not the same word of the other


def dictionary(*rows):
    """(direction, query, gold, rank) a row."""
    names = ("direction", "query", "gold", "rank")
    return table(**{name: [row[i] for row in rows] for i, name in enumerate(names)}, correct=[row[3] <= 1 for row in rows])


ONE_TO_ONE = [
    ("to_pivot", "hund", "dog", 1.0),
    ("from_pivot", "dog", "hund", 2.0),
    ("to_pivot", "rom", "rom", 1.0),
    ("from_pivot", "rom", "rom", 1.0),
]
HOUSES = [("to_pivot", "haus", "house", 1.0), ("from_pivot", "house", "haus", 1.0), ("to_pivot", "heim", "home", 4.0)]
HOME, HEIM = ("from_pivot", "home", "haus", 1.0), ("from_pivot", "home", "heim", 2.0)


def test_the_directions_of_a_dictionary_entry_are_one_unit():
    """dog-hund and rom-rom are pairs; where home is best translated by haus, it joins house and heim to it: three units of eight queries."""
    found = sample(dictionary(*ONE_TO_ONE, *HOUSES, HOME), "de", "mrr", "test")
    assert found.value == pytest.approx(((1 + 1 + 1 + 1 / 4) / 4 + (1 / 2 + 1 + 1 + 1) / 4) / 2)
    assert (len(found.units), compare(found, found).units) == (8, 3)
    pairs = sample(dictionary(*ONE_TO_ONE), "de", "precision_at_1", "test")
    assert compare(pairs, pairs).units == 2
    assert examples_interval(pairs) == (0.5, 1.0)  # each draw is dog twice, rom twice or both; words alone could give 0.25 and 0.75 too
    one_way = sample(dictionary(*HOUSES, HOME), "de", "mrr_to_pivot", "test")
    assert (len(one_way.units), compare(one_way, one_way).units) == (2, 1)  # haus and heim hang together by the other direction


def test_methods_with_other_best_translations_are_compared_over_all_that_either_links():
    first, second = (sample(dictionary(*ONE_TO_ONE, *HOUSES, home), "de", "mrr", "test") for home in (HOME, HEIM))
    assert [compare(one, one).units for one in (first, second)] == [3, 4]
    assert first.units.tolist() == second.units.tolist()
    found = compare(first, second)
    assert (found.units, found.difference) == (3, pytest.approx(second.value - first.value))
    assert compare(second, first).units == compare(stack([second, second]), stack([first, second])).units == 3
    assert stack([first, second]).value == pytest.approx((first.value + second.value) / 2)


def test_equal_methods_that_are_right_both_ways_or_not_at_all_are_seldom_told_apart():
    """Both tests together reject 3 % at the level of 0.05; with words as independent units they would reject 13 %."""
    rng, n, trials = np.random.default_rng(0), 60, 300
    rejected = 0
    for _ in range(trials):
        both = []
        for right in rng.random((2, n)) < 0.5:
            rows = [
                (way, f"{way[0]}{i}", f"{'ft'[way[0] == 'f']}{i}", 1.0 if right[i] else 2.0) for i in range(n) for way in ("to_pivot", "from_pivot")
            ]
            both.append(sample(dictionary(*rows), "de", "precision_at_1", "test"))
        rejected += max((found := compare(*both, rounds=200)).p_bootstrap, found.p_randomisation) < 0.05
    assert rejected / trials < 0.07


def test_several_models_of_the_pivot_are_parts():
    found = sample(table(toward=["de", "de", "fr"], id=[0, 1, 0], label=list("aaa"), predicted=list("aba")), "de", "accuracy", "test")
    assert found.value == pytest.approx((0.5 + 1.0) / 2)


def test_what_cannot_be_taken_apart_is_left():
    assert sample(table(id=[0], bleu=[1.0]), "de", "rouge", "test") is None
    assert sample(table(id=[0], f1=[1.0]), "fr", "f1", "test") is None
    assert sample(pa.table({"x": np.arange(3)}), "de", "f1", "test") is None
