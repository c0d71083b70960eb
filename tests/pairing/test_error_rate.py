"""Scores of links against links made by hand."""

import pytest

from raxalign.pairing.aligners.base import Links
from raxalign.pairing.gold import count_links


def scores(found, sure, possible=None):
    return count_links(*(part and Links.of(part) for part in (found, sure, possible))).scores()


def test_scores_by_hand_by_sentence_pair_and_together():
    """Of the first pair 3 found, 2 of them right and 1 sure; of the second 1, which is sure. Sure
    links are possible ones, whether or not these repeat them.
    """
    found, sure = [{(0, 0), (1, 1), (2, 0)}, {(0, 0)}], [{(0, 0), (3, 3)}, {(0, 0)}]
    for possible in ([{(1, 1)}, set()], [{(1, 1), (0, 0)}, {(0, 0)}]):
        counts = count_links(*map(Links.of, (found, sure, possible)))
        assert counts.found.tolist() == [3, 1]
        assert counts.right.tolist() == [2, 1]
        assert counts.right_sure.tolist() == [1, 1]
        assert counts.sure.tolist() == [2, 1]
        assert counts.wrong.tolist() == [3 + 2 - 2 - 1, 0]
        assert counts.scores() == pytest.approx(
            {
                "precision": 3 / 4,
                "recall": 2 / 3,
                "f1": 2 * (3 / 4) * (2 / 3) / (3 / 4 + 2 / 3),
                "alignment_error_rate": 1 - (3 + 2) / (4 + 3),
            }
        )
    assert scores([{(0, 0)}], [{(0, 0), (1, 1)}])["alignment_error_rate"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("found", "sure", "expected"), [(set(), set(), 0), (set(), {(0, 0)}, 1), ({(0, 0)}, set(), 1)]
)
def test_nothing_found_is_wrong_only_where_something_was_to_be_found(found, sure, expected):
    assert scores([found], [sure])["alignment_error_rate"] == expected


def test_links_of_other_numbers_of_sentence_pairs_are_refused():
    with pytest.raises(ValueError, match="different numbers"):
        scores([set()], [set(), set()])
