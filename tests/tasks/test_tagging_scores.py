"""Entity scores against a count written from conlleval's rules, and against seqeval's figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raxalign.tasks.tagging.scheme import count, entities_of, values

TAGS = ["O", "B-x", "I-x", "B-y", "I-y"]


def entities_by_hand(tags):
    """{(type, begin, end)}: an entity begins at a B-, or at an I- that does not go on with the type
    before it.
    """
    found, open_ = set(), None
    for i, tag in enumerate([*tags, "O"]):
        goes_on = open_ is not None and tag.startswith("I-") and tag[2:] == open_[0]
        if open_ is not None and not goes_on:
            found.add((open_[0], open_[1], i))
            open_ = None
        if tag != "O" and not goes_on:
            open_ = (tag[2:], i)
    return found


def by_hand(gold, predicted):
    pairs = [
        (entities_by_hand(a), entities_by_hand(b)) for a, b in zip(gold, predicted, strict=True)
    ]
    right = sum(len(a & b) for a, b in pairs)
    there, found = sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs)
    precision, recall = (right / found if found else 0.0), (right / there if there else 0.0)
    return precision, recall, 2 * precision * recall / (precision + recall) if right else 0.0


def test_a_small_example_by_hand():
    gold = [["B-x", "I-x", "O", "B-y"], ["O", "B-x"]]
    predicted = [["B-x", "I-x", "O", "B-x"], ["I-x", "I-x"]]
    # given x(0-1) y(3) x(1); found x(0-1) x(3) x(0-1): one of three is right on either side; three
    # of six words are
    scores = values(count(gold, predicted, entities=True))
    assert scores == {
        "accuracy": pytest.approx(3 / 6),
        "precision": pytest.approx(1 / 3),
        "recall": pytest.approx(1 / 3),
        "f1": pytest.approx(1 / 3),
    }


def test_an_inside_tag_begins_an_entity_as_in_conlleval():
    gold, predicted = [["O", "B-x", "I-x"]], [["O", "I-x", "I-x"]]
    assert values(count(gold, predicted, entities=True))["f1"] == 1.0


sentences = st.lists(
    st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=8),
    min_size=1,
    max_size=5,
)


@given(sentences)
@settings(max_examples=40)
def test_scores_are_those_of_the_count_by_hand(rows):
    gold, predicted = [[a for a, _ in row] for row in rows], [[b for _, b in row] for row in rows]
    scores = values(count(gold, predicted, entities=True))
    precision, recall, f1 = by_hand(gold, predicted)
    assert (scores["precision"], scores["recall"], scores["f1"]) == pytest.approx(
        (precision, recall, f1), abs=1e-12
    )


def test_scores_are_those_of_seqeval():
    """The figures are those that seqeval 1.2.2 found."""
    rng = np.random.default_rng(0)
    gold, predicted = ([list(rng.choice(TAGS, 9)) for _ in range(40)] for _ in range(2))
    sides = [[entities_of(row) for row in rows] for rows in (gold, predicted)]
    assert [sum(map(len, side)) for side in sides] == [234, 236]
    assert sum(len(a & b) for a, b in zip(*sides, strict=True)) == 53
    scores = values(count(gold, predicted, entities=True))
    assert (scores["f1"], scores["precision"], scores["recall"]) == (
        0.225531914893617,
        0.2245762711864407,
        0.2264957264957265,
    )


def test_without_entities_there_is_accuracy_alone():
    assert values(count([["NOUN", "VERB"]], [["NOUN", "_"]], entities=False)) == {"accuracy": 0.5}
    assert values(count([["O"]], [["O"]], entities=True))["f1"] == 0.0
