"""What is evaluated where a language lacks a split, and the means over languages."""

from __future__ import annotations

import pytest

from raxalign.corpora.readers.hub import MissingSplit
from raxalign.tasks.base import Score
from raxalign.tasks.transfer.outcome import means, missing_splits, read_given
from raxalign.tasks.transfer.selection import readers

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
