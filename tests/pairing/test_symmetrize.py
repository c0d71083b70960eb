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


def test_final_and_goes_through_forward_links_before_reverse_ones():
    assert symmetrize({(3, 3)}, {(0, 3)}, "grow-diag-final-and") == {(3, 3)}
    assert symmetrize({(0, 3)}, {(3, 3)}, "grow-diag-final-and") == {(0, 3)}


def test_growing_takes_a_neighbour_with_one_free_word_but_not_with_none():
    # (0,1) and (1,0) touch the certain links (0,0) and (1,1) and have no free word.
    certain = {(0, 0), (1, 1)}
    assert symmetrize(certain | {(0, 1)}, certain | {(1, 0)}, "grow-diag") == certain
    assert symmetrize({(0, 0), (0, 1)}, {(0, 0)}, "grow-diag") == {(0, 0), (0, 1)}


def test_growing_reaches_links_behind_the_scan_in_a_later_pass():
    # From (3,3) backwards to (0,0): each is found from the one after it.
    diagonal = {(i, i) for i in range(4)}
    assert symmetrize(diagonal, {(3, 3)}, "grow-diag") == diagonal


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


def dense_reference(forward, reverse, heuristic, size=6):
    """The published pseudo-code, scanning every cell of the matrix."""
    grown, union = forward & reverse, forward | reverse

    def free(s, t, both):
        taken = [any(a == s for a, _ in grown), any(b == t for _, b in grown)]
        return not any(taken) if both else not all(taken)

    before = -1
    while before != len(grown):
        before = len(grown)
        for s in range(size):
            for t in range(size):
                if (s, t) in grown:
                    for ds, dt in ORDER:
                        near = (s + ds, t + dt)
                        if near in union and free(*near, both=False):
                            grown.add(near)
    return finished(grown, forward, reverse, heuristic, free, size)


def finished(grown, forward, reverse, heuristic, free, size):
    """The final step, scanning every cell of each direction's matrix."""
    if "-final" in heuristic:
        for direction in (forward, reverse):
            for s in range(size):
                for t in range(size):
                    if (s, t) in direction and free(s, t, both=heuristic.endswith("-and")):
                        grown.add((s, t))
    return grown


def atools_reference(forward, reverse, heuristic, size=6):
    """As the program atools grows: over the cells of the union that are not linked, until a pass
    links none.
    """
    grown, waiting = forward & reverse, (forward | reverse) - (forward & reverse)

    def free(s, t, both):
        taken = [any(a == s for a, _ in grown), any(b == t for _, b in grown)]
        return not any(taken) if both else not all(taken)

    before = -1
    while before != len(grown):
        before = len(grown)
        for s in range(size):
            for t in range(size):
                touches = any(max(abs(a - s), abs(b - t)) == 1 for a, b in grown)
                if (s, t) in waiting - grown and touches and free(s, t, both=False):
                    grown.add((s, t))
    return finished(grown, forward, reverse, heuristic, free, size)


@given(links, links, st.sampled_from(["grow-diag", "grow-diag-final-and"]))
def test_growing_equals_the_published_pseudo_code(forward, reverse, heuristic):
    assert symmetrize(forward, reverse, heuristic) == dense_reference(forward, reverse, heuristic)


@given(
    links,
    links,
    st.sampled_from(["atools-grow-diag", "atools-grow-diag-final", "atools-grow-diag-final-and"]),
)
def test_growing_as_atools_equals_a_scan_over_the_links_that_are_missing(
    forward, reverse, heuristic
):
    assert symmetrize(forward, reverse, heuristic) == atools_reference(forward, reverse, heuristic)


@given(links, links)
def test_heuristics_lie_between_intersection_and_union(forward, reverse):
    found = {heuristic: symmetrize(forward, reverse, heuristic) for heuristic in HEURISTICS}
    assert found["grow-diag"] <= found["grow-diag-final-and"]
    for heuristic in HEURISTICS:
        assert found["intersection"] <= found[heuristic] <= found["union"]


@given(links, st.sampled_from(HEURISTICS))
def test_equal_directions_stay_as_they_are(both, heuristic):
    assert symmetrize(both, both, heuristic) == both


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
