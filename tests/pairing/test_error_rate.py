from __future__ import annotations

import pytest

from raxalign.pairing.aligners.base import Links
from raxalign.pairing.error_rate import count_links, score_links


def test_scores_by_hand():
    # A = 4 links, S = 3 sure, P = S and 2 more; A & S = 2, A & P = 3: AER = 1 - (2 + 3) / (4 + 3).
    found = Links.of([{(0, 0), (1, 1)}, {(0, 0), (5, 5)}])
    sure = Links.of([{(0, 0), (2, 2)}, {(0, 0)}])
    possible = Links.of([{(1, 1)}, {(0, 1)}])
    scores = score_links(found, sure, possible)
    assert scores.error_rate == pytest.approx(1 - 5 / 7)
    assert scores.precision == pytest.approx(3 / 4)
    assert scores.recall == pytest.approx(2 / 3)


def test_sure_links_repeated_among_the_possible_ones_change_nothing():
    found, sure = Links.of([{(0, 0), (1, 1)}]), Links.of([{(0, 0)}])
    assert score_links(found, sure, Links.of([{(1, 1)}])) == score_links(
        found, sure, Links.of([{(0, 0), (1, 1)}])
    )


def test_without_possible_links_the_sure_ones_are_all():
    assert score_links(
        Links.of([{(0, 0), (1, 1)}]), Links.of([{(0, 0)}])
    ).error_rate == pytest.approx(1 / 3)


def test_nothing_found_and_nothing_to_find():
    nothing, something = Links.of([set()]), Links.of([{(0, 0)}])
    assert score_links(nothing, nothing).error_rate == 0
    assert score_links(nothing, something).error_rate == 1
    assert score_links(something, nothing).error_rate == 1


def test_different_numbers_of_sentence_pairs_are_refused():
    with pytest.raises(ValueError, match="different numbers"):
        score_links(Links.of([set()]), Links.of([set(), set()]))


def test_counts_by_sentence_pair():
    found, sure, possible = (
        Links.of([{(0, 0), (1, 1)}, {(0, 0), (5, 5)}]),
        Links.of([{(0, 0), (2, 2)}, {(0, 0)}]),
        Links.of([{(1, 1)}, {(0, 1)}]),
    )
    counts = count_links(found, sure, possible)
    assert [
        part.tolist() for part in (counts.found, counts.right, counts.right_sure, counts.sure)
    ] == [[2, 2], [2, 1], [1, 1], [2, 1]]
    # The error rate is 1 - (|A & S| + |A & P|) / (|A| + |S|), and so what is wrong over |A| + |S|.
    assert counts.wrong.tolist() == [1, 1]
    assert counts.scores().error_rate == pytest.approx(2 / 7)
    assert counts.scores().f1 == pytest.approx(2 * (3 / 4) * (2 / 3) / (3 / 4 + 2 / 3))
