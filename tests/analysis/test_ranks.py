"""Tests of ranks: intervals and groups by hand, and that no interval leaves its rank out."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from raxalign.report.compared import Rank, groups, ranks

VALUES = st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True)


def test_where_nothing_differs_any_rank_is_possible():
    assert ranks([3.0, 1.0, 2.0], set()) == [Rank(1, 1, 3), Rank(3, 1, 3), Rank(2, 1, 3)]
    assert groups([3.0, 1.0, 2.0], set()) == [[0, 2, 1]]


def test_where_all_differ_each_rank_is_certain():
    apart = {(0, 1), (1, 2), (0, 2)}
    assert ranks([3.0, 1.0, 2.0], apart) == [Rank(1, 1, 1), Rank(3, 3, 3), Rank(2, 2, 2)]
    assert groups([3.0, 1.0, 2.0], apart) == []


def test_groups_overlap_where_the_ends_of_a_chain_differ():
    assert groups([3.0, 2.0, 1.0], {(0, 2)}) == [[0, 1], [1, 2]]
    assert ranks([3.0, 2.0, 1.0], {(2, 0)}) == [Rank(1, 1, 2), Rank(2, 1, 3), Rank(3, 2, 3)]


@given(VALUES, st.data())
def test_an_interval_holds_the_rank_and_narrows_with_what_is_found(values, data):
    pairs = list(combinations(range(len(values)), 2))
    apart = data.draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    found = ranks(values, apart)
    assert all(one.best <= one.rank <= one.worst for one in found)
    # each pair that is not told apart widens two intervals by one rank
    assert sum(one.worst - one.best for one in found) == 2 * (len(pairs) - len(apart))
