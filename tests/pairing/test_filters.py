from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from raxalign.pairing.aligners.base import Links
from raxalign.pairing.filters import one_to_one

pairs = st.lists(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=10), max_size=5)


def test_a_word_with_two_links_loses_both():
    kept = one_to_one(Links.of([{(0, 0), (1, 1), (1, 2), (3, 4)}, {(0, 0), (2, 0), (1, 1)}, set()]))
    assert [kept.pair(i) for i in range(3)] == [{(0, 0), (3, 4)}, {(1, 1)}, set()]


def test_links_of_other_sentence_pairs_do_not_count():
    both = Links.of([{(0, 0)}, {(0, 1)}])
    assert one_to_one(both).codes().tolist() == both.codes().tolist()


def test_filtering_is_not_repeated_on_what_is_left():
    # (0,0) and (1,0) share a target, (1,0) and (1,1) a source: all three fall, though (0,0) would
    # be alone after the first.
    assert one_to_one(Links.of([{(0, 0), (1, 0), (1, 1)}])).pair(0) == set()


@given(pairs)
def test_the_filter_is_what_its_definition_says(links):
    kept = one_to_one(Links.of(links))
    for i, pair in enumerate(links):
        sources, targets = Counter(s for s, _ in pair), Counter(t for _, t in pair)
        assert kept.pair(i) == {(s, t) for s, t in pair if sources[s] == targets[t] == 1}
