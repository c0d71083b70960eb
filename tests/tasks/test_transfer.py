"""What is evaluated where a language lacks a split, which epoch is, means, and hashes of rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raxalign.corpora.readers.hub import MissingSplit
from raxalign.tasks.base import Score
from raxalign.tasks.transfer.rows import among
from raxalign.tasks.transfer.outcome import (
    best_epoch,
    kept,
    means,
    missing_splits,
    read_given,
    readers,
    select,
)

GIVEN = {"en": ("dev", "test"), "th": ("test",), "xx": ()}


def read(split, lang):
    if split not in GIVEN[lang]:
        raise MissingSplit(f"hub:set/{lang}", f"has no split {split}")
    return f"{lang}-{split}"


def test_a_split_that_a_language_lacks_is_left_out_and_told():
    found = read_given(
        read, ["dev", "test"], ["en", "th"], readers("pivot-dev", ["en", "th"], "en")
    )
    assert found == {("en", "dev"): "en-dev", ("en", "test"): "en-test", ("th", "test"): "th-test"}
    assert missing_splits(found, ["dev", "test"], ["en", "th"]) == {"missing_splits": ["th/dev"]}
    assert missing_splits(found, ["dev", "test"], ["en"]) == {}


@pytest.mark.parametrize(
    ("selection", "pivot"), [("target-dev", "en"), ("mean-dev", "en"), ("pivot-dev", "th")]
)
def test_a_development_set_that_chooses_has_to_be_there(selection, pivot):
    with pytest.raises(MissingSplit, match="set/th: has no split dev"):
        read_given(read, ["dev", "test"], ["en", "th"], readers(selection, ["en", "th"], pivot))
    assert ("th", "test") in read_given(
        read, ["dev", "test"], ["en", "th"], readers("last", ["en", "th"], pivot)
    )


def test_a_language_without_any_split_is_an_error():
    with pytest.raises(MissingSplit, match="set/xx"):
        read_given(read, ["dev", "test"], ["en", "xx"])
    with pytest.raises(MissingSplit, match="set/th"):
        read_given(read, ["dev"], ["th"])


def test_there_is_no_mean_over_languages_of_a_split_that_one_lacks():
    scores = [
        Score("en", "f1", "dev", 0.5),
        Score("en", "f1", "test", 0.5),
        Score("th", "f1", "test", 0.25),
    ]
    assert means(scores, ["en", "th"], "en") == [
        Score("avg", "f1", "test", 0.375),
        Score("avg_zero_shot", "f1", "test", 0.25),
    ]


def test_the_mean_of_no_scores_is_no_score():
    assert means([], ["de-en"]) == means([]) == []
    assert means([Score("de-en", "mrr_pairs", "test", 4.0)], metrics=["mrr"]) == []


def test_a_mean_without_named_languages_is_over_all_that_have_a_score():
    scores = [
        Score("de-en", "mrr", "test", 0.25),
        Score("fr-en", "mrr", "test", 0.75),
        Score("fr-en", "mrr", "dev", 0.5),
    ]
    assert means(scores) == [Score("avg", "mrr", "test", 0.5)]


ACCURACIES = {"en": [0.6, 0.8, 0.7], "de": [0.5, 0.4, 0.6], "fr": [0.9, 0.4, 0.4]}


def test_mean_dev_picks_one_epoch_by_the_mean():
    assert select("mean-dev", ACCURACIES) == dict.fromkeys(ACCURACIES, 0)  # 2.0, 1.6, 1.7 over 3


def test_target_dev_picks_an_epoch_a_language():
    assert select("target-dev", ACCURACIES) == {"en": 1, "de": 2, "fr": 0}


def test_rules_that_know_their_epoch_keep_one():
    for rule in ("pivot-dev", "last"):
        assert kept(rule) == rule
        assert set(select(rule, ACCURACIES).values()) == {0}
    assert kept("mean-dev") == kept("target-dev") == "every"


def test_the_earlier_of_equal_epochs_is_picked():
    assert best_epoch([0.5, 0.7, 0.7]) == 1


HASHES = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), max_size=8)


@given(HASHES, HASHES)
def test_a_hash_is_found_among_those_that_are_known_in_any_order(found, known):
    asked = np.array(found, np.int64)
    expected = [entry in known for entry in found]
    assert among(asked, np.array(known, np.int64)).tolist() == expected
    assert among(asked, np.array(sorted(known), np.int64)).tolist() == expected


@pytest.mark.parametrize("entry", [5, 2**63 - 1])
def test_what_is_larger_than_all_that_is_known_is_not_found(entry):
    assert among(np.array([entry]), np.array([1, 4])).tolist() == [False]
