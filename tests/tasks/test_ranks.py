"""Ranks with ties, all worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from raxalign.tasks.vectors import dictionary_words as _ranks
from raxalign.tasks.vectors.dictionary_words import best_gold_ranks


def angle(*degrees: float) -> torch.Tensor:
    """Unit vectors in the plane."""
    radians = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([radians.cos(), radians.sin()], dim=1).float()


def ranks(
    queries: torch.Tensor,
    candidates: torch.Tensor,
    gold: list[tuple[int, int]],
    measure: str = "cosine",
    k: int = 10,
) -> _ranks.Ranks:
    pairs = np.array(gold, dtype=np.int64).reshape(-1, 2)
    return best_gold_ranks(queries, candidates, pairs, measure=measure, k=k)


def test_the_best_of_several_right_answers_counts() -> None:
    found = ranks(angle(0), angle(50, 10, 30, 20), [(0, 0), (0, 2)])
    assert found.rank.tolist() == [3]  # 10 and 20 are nearer than 30
    assert found.gold.tolist() == [2]
    assert found.found.tolist() == [1]


def test_ties_take_their_average_rank() -> None:
    """One nearer candidate; three of one vector share the ranks 2, 3 and 4: 3. Two of these right:
    the better of two out of three places is 1 + 4/3 on average. All three right: rank 2 whatever
    the order.
    """
    candidates = angle(40, 10, 40, 80, 40)
    assert ranks(angle(0), candidates, [(0, 2)]).rank.tolist() == [3]
    assert ranks(angle(0), candidates, [(0, 2), (0, 0)]).rank.tolist() == pytest.approx([1 + 4 / 3])
    assert ranks(angle(0), candidates, [(0, 4), (0, 2), (0, 0)]).rank.tolist() == [2]


def test_candidates_of_one_vector_tie_whatever_a_product_rounds() -> None:
    generator = torch.Generator().manual_seed(0)
    word = torch.randn(1, 300, generator=generator)
    found = ranks(
        torch.randn(40, 300, generator=generator),
        word.repeat(37, 1),
        [(q, q % 37) for q in range(40)],
    )
    assert found.rank.tolist() == [19] * 40  # the mean of 1 to 37
    assert set(found.found.tolist()) == {0}


def test_queries_without_a_right_answer_have_no_rank_and_lengths_do_not_matter() -> None:
    found = ranks(angle(0, 90) * 5, angle(80, 20) * 0.1, [(1, 0)])
    assert math.isnan(found.rank[0])
    assert found.rank[1] == 1
    assert found.gold.tolist() == [-1, 0]
    assert found.found.tolist() == [1, 0]


def test_csls_takes_off_how_near_a_candidate_is_to_all_queries() -> None:
    """Queries at 0 and 40 degrees, candidates at 25 (a hub) and -30. By cosine the hub is nearer to
    the query at 0.

    With k = 1 the hub's own nearness is cos 15, the other's cos 30: 2 cos 25 - cos 15 = .847 < 2
    cos 30 - cos 30 = .866.
    """
    queries, candidates = angle(0, 40), angle(25, -30)
    assert ranks(queries, candidates, [(0, 1)]).rank.tolist()[0] == 2
    assert ranks(queries, candidates, [(0, 1)], "csls", k=1).rank.tolist()[0] == 1
    # With k = 2, the mean over both queries: hub (cos 25 + cos 15)/2, other (cos 30 + cos 70)/2.
    c = {d: math.cos(math.radians(d)) for d in (15, 25, 30, 70)}
    expected = 1 if 2 * c[30] - (c[30] + c[70]) / 2 > 2 * c[25] - (c[25] + c[15]) / 2 else 2
    assert ranks(queries, candidates, [(0, 1)], "csls", k=9).rank.tolist()[0] == expected == 1


@pytest.mark.parametrize("measure", ["cosine", "csls", "dot", "euclidean"])
def test_blocks_change_nothing_and_ranks_are_those_of_sorting(
    measure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(1)
    queries, candidates = (
        torch.randn(23, 5, generator=generator).double(),
        torch.randn(31, 5, generator=generator).double(),
    )
    gold = [
        (q, c) for q in range(23) for c in torch.randperm(31, generator=generator)[: q % 3].tolist()
    ]
    whole = ranks(queries, candidates, gold, measure, k=3)
    monkeypatch.setattr(_ranks, "ROWS", 4)
    blocks = ranks(queries, candidates, gold, measure, k=3)
    assert np.array_equal(whole.rank, blocks.rank, equal_nan=True)
    assert np.array_equal(whole.found, blocks.found)
    scores = torch.nn.functional.cosine_similarity(queries[:, None], candidates[None], dim=-1)
    if measure == "dot":
        scores = queries @ candidates.T
    if measure == "euclidean":
        scores = -torch.cdist(queries, candidates)
    if measure == "csls":
        scores = 2 * scores - scores.topk(3, dim=0).values.mean(0)
    for q in range(23):
        right = [c for query, c in gold if query == q]
        order = scores[q].argsort(descending=True).tolist()
        if right:
            assert whole.rank[q] == 1 + min(order.index(c) for c in right)
        assert whole.found[q] == order[0]
