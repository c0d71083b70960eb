from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from raxalign.pairing.aligners.base import Links
from raxalign.pairing.filters import first_of_neighbours, one_to_one, thin

pairs = st.lists(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=10), max_size=5)


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


@given(pairs)
def test_first_of_neighbours_is_a_scan_of_each_sentence_pair(links):
    kept = first_of_neighbours(Links.of(links))
    for i, pair in enumerate(links):
        scanned: list[tuple[int, int]] = []
        for t, s in sorted((t, s) for s, t in pair):
            if not scanned or (scanned[-1][0] != s and scanned[-1][1] != t):
                scanned.append((s, t))
        assert kept.pair(i) == set(scanned)


def test_each_value_of_the_option_has_its_own_links():
    links = Links.of([{(0, 0), (1, 1), (1, 2)}])
    assert thin(links, False).pair(0) == {(0, 0), (1, 1), (1, 2)}
    assert thin(links, True).pair(0) == {(0, 0)}
    assert thin(links, "first").pair(0) == {(0, 0), (1, 1)}
