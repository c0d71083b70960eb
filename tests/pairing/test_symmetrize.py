from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raxalign.errors import RaxalignError
from raxalign.pairing.aligners.base import Links
from raxalign.pairing.symmetrize import HEURISTICS, symmetrize, symmetrize_links

# Koehn's pseudo-code worked by hand: five source and four target words; two certain links, a
# diagonal neighbour each way, and far-off links.
FORWARD = {(0, 0), (1, 0), (2, 2), (4, 3)}
REVERSE = {(0, 0), (2, 2), (3, 2), (0, 3), (4, 1)}

ORDER = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
links = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@pytest.mark.parametrize(
    ("heuristic", "expected"),
    [
        ("forward", FORWARD),
        ("reverse", REVERSE),
        ("intersection", {(0, 0), (2, 2)}),
        ("union", FORWARD | REVERSE),
        # (0,0) takes (1,0); (2,2) takes (3,2); (3,2) takes its diagonal neighbours (4,1), both of
        # whose words are free, and (4,3), whose target word still is. (0,3) is not a neighbour of
        # any link.
        ("grow-diag", {(0, 0), (1, 0), (2, 2), (3, 2), (4, 1), (4, 3)}),
        # final-and: both words of (0,3) are taken.
        ("grow-diag-final-and", {(0, 0), (1, 0), (2, 2), (3, 2), (4, 1), (4, 3)}),
    ],
)
def test_a_sentence_pair_worked_by_hand(heuristic, expected):
    assert symmetrize(FORWARD, REVERSE, heuristic) == expected


def test_final_and_adds_links_between_free_words_only():
    # (0,0) is certain; (2,3) is far from it with both words free; (3,3) comes later and finds word
    # 3 taken; (0,4) has a taken source word.
    found = symmetrize({(0, 0), (2, 3)}, {(0, 0), (3, 3), (0, 4)}, "grow-diag-final-and")
    assert found == {(0, 0), (2, 3)}


def test_atools_asks_each_missing_link_in_turn_and_so_finds_fewer():
    # (1, 2) is certain. From it, (1, 1) comes before (0, 1) in the order of neighbours, and either
    # still has a free word. Asked in turn, (0, 1) comes first and takes target word 1, so that (1,
    # 1) has no free word left.
    assert symmetrize({(1, 2), (1, 1)}, {(1, 2), (0, 1)}, "grow-diag") == {(1, 2), (1, 1), (0, 1)}
    assert symmetrize({(1, 2), (1, 1)}, {(1, 2), (0, 1)}, "atools-grow-diag") == {(1, 2), (0, 1)}


def test_final_adds_links_with_one_free_word_and_final_and_those_with_two():
    # (3, 0) and (5, 5) touch no link. Target word 0 is taken by the certain (0, 0).
    forward, reverse = {(0, 0), (3, 0)}, {(0, 0), (5, 5)}
    assert symmetrize(forward, reverse, "atools-grow-diag") == {(0, 0)}
    assert symmetrize(forward, reverse, "atools-grow-diag-final-and") == {(0, 0), (5, 5)}
    assert symmetrize(forward, reverse, "atools-grow-diag-final") == {(0, 0), (3, 0), (5, 5)}


def reference(forward, reverse, heuristic, size=6):
    """The published pseudo-code, scanning every cell of the matrix; and as the program atools
    grows, over the cells of the union that are not linked. Passes are made until one links none.
    """
    grown, union = forward & reverse, forward | reverse
    cells = [(s, t) for s in range(size) for t in range(size)]

    def free(s, t, both):
        taken = [any(a == s for a, _ in grown), any(b == t for _, b in grown)]
        return not any(taken) if both else not all(taken)

    before = -1
    while before != len(grown):
        before = len(grown)
        for s, t in cells:
            if heuristic.startswith("atools"):
                touches = any(max(abs(a - s), abs(b - t)) == 1 for a, b in grown)
                additions = [(s, t)] if touches else []
            else:
                additions = [(s + ds, t + dt) for ds, dt in ORDER] if (s, t) in grown else []
            for near in additions:
                if near in union - grown and free(*near, both=False):
                    grown.add(near)
    for direction in (forward, reverse) if "-final" in heuristic else ():
        for cell in cells:
            if cell in direction and free(*cell, both=heuristic.endswith("-and")):
                grown.add(cell)
    return grown


GROWING = [name for name in HEURISTICS if "grow" in name]


@given(links, links, st.sampled_from(GROWING))
def test_growing_equals_the_published_pseudo_code_or_the_scan_of_atools(forward, reverse, name):
    assert symmetrize(forward, reverse, name) == reference(forward, reverse, name)


@given(st.lists(st.tuples(links, links), max_size=5), st.sampled_from(HEURISTICS))
def test_many_sentence_pairs_are_each_symmetrized_alone(pairs, heuristic):
    forward, reverse = Links.of(f for f, _ in pairs), Links.of(r for _, r in pairs)
    together = symmetrize_links(forward, reverse, heuristic)
    assert len(together) == len(pairs)
    for i, (f, r) in enumerate(pairs):
        assert together.pair(i) == symmetrize(f, r, heuristic)
    assert (np.diff(together.codes()) > 0).all()


def test_order_and_repetition_of_links_do_not_matter():
    messy = Links(np.array([0, 3]), np.array([1, 0, 1], np.int32), np.array([1, 0, 1], np.int32))
    for heuristic in HEURISTICS:
        tidy = symmetrize_links(messy, messy, heuristic)
        assert (tidy.src.tolist(), tidy.tgt.tolist()) == ([0, 1], [0, 1])


def test_links_of_different_numbers_of_sentence_pairs_are_refused():
    with pytest.raises(ValueError, match="1 sentence pairs, reverse links of 2"):
        symmetrize_links(Links.of([set()]), Links.of([set(), set()]), "union")


def test_an_unknown_heuristic_is_named_with_those_there_are():
    with pytest.raises(RaxalignError, match=r"'grow'; one of intersection, union, grow-diag"):
        symmetrize(set(), set(), "grow")
