"""The k largest similarities of every row and column, block by block, against a full sort."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from raxalign.similarity import Tiling, hubness, hubness_terms, largest
from raxalign.similarity.best import first_twin
from raxalign.similarity.tiling import Factored


def crowds(x, y, k, tiling):
    return hubness_terms.both_crowds(Factored(x, None), Factored(y, None), k, tiling)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 60),
    m=st.integers(1, 60),
    k=st.integers(1, 70),
    seed=st.integers(0, 10_000),
    tiling=st.builds(
        Tiling,
        block_bytes=st.integers(1, 20_000),
        peak_group=st.integers(1, 20),
        peak_bytes=st.sampled_from([100, 2**20]),
        row_group=st.integers(1, 8),
        column_group=st.integers(1, 8),
    ),
)
def test_hubness_is_that_of_all_similarities_with_many_ties(n, m, k, seed, tiling):
    """Small whole numbers: many similarities are equal, and their sums are exact."""
    g = torch.Generator().manual_seed(seed)
    x, y = (torch.randint(-2, 3, (size, 3), generator=g).double() for size in (n, m))
    for found, expected in zip(
        crowds(x, y, k, tiling), (hubness(x, y, k), hubness(y, x, k)), strict=True
    ):
        torch.testing.assert_close(found.hubness(), expected, rtol=0, atol=1e-12)


def test_peaks_are_the_largest_of_each_group():
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(50, 4, generator=g), torch.randn(70, 4, generator=g)
    tiling = Tiling(block_bytes=2048, peak_group=8, row_group=4, column_group=4)
    rows, columns = crowds(x, y, 3, tiling)
    for crowd, s in ((rows, x @ y.T), (columns, y @ x.T)):
        groups = [part.amax(1) for part in torch.split(s, crowd.group, dim=1)]
        torch.testing.assert_close(crowd.peaks, torch.stack(groups))


@pytest.mark.parametrize("seen", [[3.0, 1.0], [9.0, 7.0]])
def test_a_floor_is_the_second_largest_maximum_or_what_is_known(seen):
    """k = 2: of groups with the maxima 5, 2, 4 and 1 two similarities reach 4."""
    running = largest.Largest(1, 2, torch.zeros(0))
    running.insert(0, found([0, 0], [0, 1], seen), 0)
    floors = running.raise_floors(0, (torch.tensor([[5.0, 2.0, 4.0, 1.0]]),))
    assert floors.tolist() == [max(4.0, seen[1])]
    running.insert(0, found([0], [3], [5.0]), 10)
    known = {value: place for place, value in enumerate(seen)} | {5.0: 13, 4.0: -1}
    expected = sorted(known)[-2:]
    assert sorted(running.values[0].tolist()) == expected
    assert sorted(running.others[0].tolist()) == sorted(known[value] for value in expected)


def found(vectors, others, similarities):
    return largest.Found(
        torch.tensor(vectors), torch.tensor(others), torch.tensor(similarities, dtype=torch.float32)
    )


def test_only_similarities_above_the_floor_are_found():
    """Rows [0 .. 7] and [8 .. 15], in groups of 2: 5, 6 and 7 are above 4, none is above 15."""
    block = torch.arange(16.0).view(2, 8)
    floors = torch.tensor([4.0, 15.0])
    sides = (
        largest.above_in_rows(block, block.view(2, 4, 2).amax(2), 0, floors),
        largest.above_in_columns(block.T.contiguous(), block.view(2, 4, 2).amax(2).T, 0, floors),
    )
    for side in sides:
        assert side.vectors.tolist() == [0, 0, 0]
        pairs = zip(side.others.tolist(), side.similarities.tolist(), strict=True)
        assert sorted(pairs) == [(5, 5.0), (6, 6.0), (7, 7.0)]


def test_the_second_row_alone_is_counted_from_itself():
    block = torch.arange(16.0).view(2, 8)
    rows = largest.above_in_rows(block, block.view(2, 4, 2).amax(2), 1, torch.tensor([14.0]))
    assert (rows.vectors.tolist(), rows.others.tolist()) == ([0], [7])


def test_parts_of_rows_and_columns_give_the_same(monkeypatch):
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(90, 4, generator=g), torch.randn(70, 4, generator=g)
    tiling = Tiling(block_bytes=9000, peak_group=8, row_group=4, column_group=4)
    whole = crowds(x, y, 3, tiling)
    monkeypatch.setattr(largest, "VECTORS", 7)
    for parts, expected in zip(crowds(x, y, 3, tiling), whole, strict=True):
        torch.testing.assert_close(parts.hubness(), expected.hubness())


def test_rows_that_begin_alike_are_not_identical():
    begin = torch.ones(1, 20)
    vectors = torch.cat([begin, torch.cat([begin[:, :19], begin[:, 19:] * 2], 1), begin, begin * 3])
    assert first_twin(vectors).tolist() == [0, 1, 0, 3]
    assert first_twin(vectors.flip(0)).tolist() == [0, 1, 2, 1]


def test_the_best_groups_are_those_with_the_largest_maxima(monkeypatch):
    """Rows [0 .. 7] and [15 .. 8], in groups of 2, of which 2 are the best: 2 * 2 / 2."""
    monkeypatch.setattr(largest, "_BEST", 2)
    block = torch.stack([torch.arange(8.0), torch.arange(15.0, 7.0, -1)])
    peaks = block.view(2, 4, 2).amax(2)
    expected = [[4.0, 5.0, 6.0, 7.0], [12.0, 13.0, 14.0, 15.0]]
    assert largest.best_in_rows(block, peaks, 2).sort(1).values.tolist() == expected
    assert largest.best_in_columns(block.T, peaks.T, 2).sort(1).values.tolist() == expected
    assert (
        largest.best_in_rows(block, peaks, 9).sort(1).values.tolist() == block.sort(1)[0].tolist()
    )


def test_vectors_are_crowded_where_twice_k_groups_exceed_their_floors():
    peaks = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    assert largest.crowded(peaks, torch.tensor([1.5]), 1)
    assert not largest.crowded(peaks, torch.tensor([2.0]), 1)
    assert not largest.crowded(peaks, torch.tensor([0.0]), 2)


def test_few_similarities_are_kept_of_vectors_that_are_nearly_equal(monkeypatch):
    """12 times 16 vectors, of which the maxima of larger groups show one. Without a look at the
    best groups, a floor is the maximum of a third such group, and two groups of 16 are above it.
    """
    g = torch.Generator().manual_seed(0)
    middles = torch.randn(12, 6, generator=g, dtype=torch.float64).repeat_interleave(16, 0)
    x, y = (middles + 1e-3 * torch.randn(middles.shape, generator=g) for _ in range(2))
    kept = []
    insert = largest.Largest.insert

    def noted(self, first, found, other):
        kept.append(len(found.vectors))
        insert(self, first, found, other)

    monkeypatch.setattr(largest.Largest, "insert", noted)
    tiling = Tiling(peak_group=16, row_group=4, column_group=4)
    for crowd, expected in zip(
        crowds(x, y, 3, tiling), (hubness(x, y, 3), hubness(y, x, 3)), strict=True
    ):
        torch.testing.assert_close(crowd.hubness(), expected, rtol=0, atol=1e-12)
        assert (crowd.places >= 0).sum() > 0
    assert sum(kept) < 5 * (len(x) + len(y))
