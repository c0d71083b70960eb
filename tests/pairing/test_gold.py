"""Links made by hand, in both formats, and scores of links against them."""

import numpy as np
import pytest

from raxalign.errors import DataError
from raxalign.pairing.gold import GoldLinks, LinkCounts
from raxalign.pairing.links import Links


def written(tmp_path, text):
    path = tmp_path / "gold"
    path.write_text(text, encoding="utf-8")
    return path


def test_pharaoh_sure_links_are_possible_ones_too(tmp_path):
    gold = GoldLinks.read(written(tmp_path, "0-0 1p2\n\n2-1\n"), "pharaoh")
    assert gold.rows.tolist() == [0, 1, 2]
    assert [gold.sure.pair(i) for i in range(3)] == [{(0, 0)}, set(), {(2, 1)}]
    assert [gold.possible.pair(i) for i in range(3)] == [{(0, 0), (1, 2)}, set(), {(2, 1)}]


def test_positions_from_one_and_swapped_sides(tmp_path):
    gold = GoldLinks.read(written(tmp_path, "1-1 2p3\n"), "pharaoh", first=1, swap=True)
    assert gold.possible.pair(0) == {(0, 0), (2, 1)}
    assert gold.sure.pair(0) == {(0, 0)}
    told = "gold:1: a link has position 0, although words are declared to count"
    with pytest.raises(DataError, match=told):
        GoldLinks.read(written(tmp_path, "0-1\n"), "pharaoh", first=1)


def test_naacl_annotates_the_sentences_that_it_names(tmp_path):
    """The null word's link is passed over, and a link that is sure and possible is sure."""
    text = "0001 1 1 S\n0001 2 3 P\n0001 2 2\n0001 1 1 P\n"
    text += "0003 1 2 p 0.7\n0003 4 4 1.0 S\n0003 0 5 S\n"
    gold = GoldLinks.read(written(tmp_path, text), "naacl")
    assert gold.rows.tolist() == [0, 2]
    assert [gold.sure.pair(i) for i in range(2)] == [{(0, 0), (1, 1)}, {(3, 3)}]
    assert [gold.possible.pair(i) for i in range(2)] == [{(0, 0), (1, 2), (1, 1)}, {(0, 1), (3, 3)}]


NAACL, PER_LINK = "in NAACL format", "has one line per link"


@pytest.mark.parametrize(
    ("text", "format_", "message"),
    [
        ("0001 1 1 S\n", "pharaoh", f"gold:1: {PER_LINK}, as {NAACL}. Read it as `naacl`"),
        ("1 1 1\n1-1 2-2\n", "naacl", f"gold:2: '1-1 2-2' is not a link {NAACL}.*i-j is `pharaoh`"),
        ("0 1 1 S\n", "naacl", "gold:1: '0 1 1 S' is not a link in NAACL format"),
        ("0-0\n1:1\n", "pharaoh", "gold:2: '1:1' is not a link"),
        ("\n\n", "pharaoh", "gold: has no links"),
    ],
)
def test_what_is_not_a_link_is_named_with_its_line(tmp_path, text, format_, message):
    with pytest.raises(DataError, match=message):
        GoldLinks.read(written(tmp_path, text), format_)


def test_links_beyond_their_sentences_are_refused(tmp_path):
    gold = GoldLinks.read(written(tmp_path, "0-0\n0-0 1-4\n"), "pharaoh")
    gold.require_inside(np.array([1, 2]), np.array([1, 5]))
    told = "sentence pair 2 has a link of word 2 with word 5, and the text has 2 and 4 words"
    with pytest.raises(DataError, match=told):
        gold.require_inside(np.array([1, 2]), np.array([1, 4]))


def scores(found, sure, possible=None):
    return LinkCounts.of(*(part and Links.of(part) for part in (found, sure, possible))).scores()


def test_scores_by_hand_by_sentence_pair_and_together():
    """Of the first pair 3 found, 2 of them right and 1 sure; of the second 1, which is sure. Sure
    links are possible ones, whether or not these repeat them.
    """
    found, sure = [{(0, 0), (1, 1), (2, 0)}, {(0, 0)}], [{(0, 0), (3, 3)}, {(0, 0)}]
    for possible in ([{(1, 1)}, set()], [{(1, 1), (0, 0)}, {(0, 0)}]):
        counts = LinkCounts.of(*map(Links.of, (found, sure, possible)))
        assert counts.found.tolist() == [3, 1]
        assert counts.right.tolist() == [2, 1]
        assert counts.right_sure.tolist() == [1, 1]
        assert counts.sure.tolist() == [2, 1]
        assert counts.wrong.tolist() == [3 + 2 - 2 - 1, 0]
        precision, recall = 3 / 4, 2 / 3
        expected = {"precision": precision, "recall": recall}
        expected["f1"] = 2 * precision * recall / (precision + recall)
        expected["alignment_error_rate"] = 1 - (3 + 2) / (4 + 3)
        assert counts.scores() == pytest.approx(expected)
    assert scores([{(0, 0)}], [{(0, 0), (1, 1)}])["alignment_error_rate"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("found", "sure", "expected"), [(set(), set(), 0), (set(), {(0, 0)}, 1), ({(0, 0)}, set(), 1)]
)
def test_nothing_found_is_wrong_only_where_something_was_to_be_found(found, sure, expected):
    assert scores([found], [sure])["alignment_error_rate"] == expected


def test_links_of_other_numbers_of_sentence_pairs_are_refused():
    with pytest.raises(ValueError, match="different numbers"):
        scores([set()], [set(), set()])
