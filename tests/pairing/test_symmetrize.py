"""Links of two directions as one, and what is left of them."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raxalign.errors import RaxalignError
from raxalign.pairing.build import first_of_neighbours, one_to_one, thin
from raxalign.pairing.links import HEURISTICS, Links

ORDER = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
links = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


def symmetrize(forward, reverse, heuristic):
    """The links of one sentence pair."""
    return Links.symmetrized(Links.of([forward]), Links.of([reverse]), heuristic).pair(0)


def test_sentence_pairs_worked_by_hand():
    """Koehn's growing takes (1, 0) and (3, 2) and their diagonal neighbours. Final-and adds links
    between free words only, final those with one free word. Atools asks each missing link in turn,
    so that (0, 1) takes the word that (1, 1) requires.
    """
    forward, reverse = {(0, 0), (1, 0), (2, 2), (4, 3)}, {(0, 0), (2, 2), (3, 2), (0, 3), (4, 1)}
    grown = {(0, 0), (1, 0), (2, 2), (3, 2), (4, 1), (4, 3)}
    free = {(0, 0), (3, 0)}, {(0, 0), (5, 5)}
    turns = {(1, 2), (1, 1)}, {(1, 2), (0, 1)}
    for sides, heuristic, expected in (
        ((forward, reverse), "forward", forward),
        ((forward, reverse), "reverse", reverse),
        ((forward, reverse), "intersection", {(0, 0), (2, 2)}),
        ((forward, reverse), "union", forward | reverse),
        ((forward, reverse), "grow-diag", grown),
        ((forward, reverse), "grow-diag-final-and", grown),
        (free, "atools-grow-diag", {(0, 0)}),
        (free, "atools-grow-diag-final-and", {(0, 0), (5, 5)}),
        (free, "atools-grow-diag-final", {(0, 0), (3, 0), (5, 5)}),
        (turns, "grow-diag", {(1, 2), (1, 1), (0, 1)}),
        (turns, "atools-grow-diag", {(1, 2), (0, 1)}),
    ):
        assert symmetrize(*sides, heuristic) == expected, heuristic


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


@settings(max_examples=40)
@given(links, links, st.sampled_from(GROWING))
def test_growing_equals_the_published_pseudo_code_or_the_scan_of_atools(forward, reverse, name):
    assert symmetrize(forward, reverse, name) == reference(forward, reverse, name)


@settings(max_examples=25)
@given(st.lists(st.tuples(links, links), max_size=5), st.sampled_from(HEURISTICS))
def test_many_sentence_pairs_are_each_symmetrized_alone(pairs, heuristic):
    forward, reverse = Links.of(f for f, _ in pairs), Links.of(r for _, r in pairs)
    together = Links.symmetrized(forward, reverse, heuristic)
    assert len(together) == len(pairs)
    for i, (f, r) in enumerate(pairs):
        assert together.pair(i) == symmetrize(f, r, heuristic)
    assert (np.diff(together.codes()) > 0).all()


def test_order_and_repetition_of_links_do_not_matter():
    messy = Links(np.array([0, 3]), np.array([1, 0, 1], np.int32), np.array([1, 0, 1], np.int32))
    for heuristic in HEURISTICS:
        tidy = Links.symmetrized(messy, messy, heuristic)
        assert (tidy.src.tolist(), tidy.tgt.tolist()) == ([0, 1], [0, 1])


def test_links_of_different_numbers_of_sentence_pairs_and_unknown_heuristics_are_refused():
    with pytest.raises(ValueError, match="1 sentence pairs, reverse links of 2"):
        Links.symmetrized(Links.of([set()]), Links.of([set(), set()]), "union")
    with pytest.raises(RaxalignError, match=r"'grow'; one of intersection, union, grow-diag"):
        symmetrize(set(), set(), "grow")


pairs = st.lists(links, max_size=5)


@settings(max_examples=25)
@given(pairs)
def test_the_filter_is_what_its_definition_says(links):
    kept = one_to_one(Links.of(links))
    for i, pair in enumerate(links):
        sources, targets = Counter(s for s, _ in pair), Counter(t for _, t in pair)
        assert kept.pair(i) == {(s, t) for s, t in pair if sources[s] == targets[t] == 1}


def test_the_order_of_what_is_kept_is_that_of_the_links_and_sentence_pairs_are_apart():
    kept = first_of_neighbours(Links.of([{(0, 3), (1, 1)}, set(), {(0, 3)}]))
    assert kept.offsets.tolist() == [0, 2, 2, 3]
    assert (kept.src.tolist(), kept.tgt.tolist()) == ([0, 1, 0], [3, 1, 3])
    links = {(0, 0), (1, 1), (1, 2)}
    kinds = {False: links, True: {(0, 0)}, "first": {(0, 0), (1, 1)}}
    assert {kind: thin(Links.of([links]), kind).pair(0) for kind in kinds} == kinds


@settings(max_examples=25)
@given(pairs)
def test_first_of_neighbours_is_a_scan_of_each_sentence_pair(links):
    kept = first_of_neighbours(Links.of(links))
    for i, pair in enumerate(links):
        scanned = []
        for t, s in sorted((t, s) for s, t in pair):
            if not scanned or (scanned[-1][0] != s and scanned[-1][1] != t):
                scanned.append((s, t))
        assert kept.pair(i) == set(scanned)
