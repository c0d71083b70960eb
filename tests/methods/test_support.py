"""What a map that is fitted on pairs rests on."""

from __future__ import annotations

import torch

from raxalign.methods.statistics.procrustes import numerical_rank, support


def diagonal(*values: float) -> torch.Tensor:
    return torch.diag(torch.tensor(values, dtype=torch.float64))


def test_the_rank_counts_singular_values_that_are_not_rounding():
    assert numerical_rank(diagonal(2.0, 1e-9, 1e-11, 0.0)) == 2
    assert numerical_rank(diagonal(2.0, 1e-9, 1e-11, 0.0), tolerance=1e-12) == 3
    assert numerical_rank(diagonal(0.0, 0.0)) == 0


def test_the_layer_with_the_smallest_rank_is_warned_of():
    assert support(1200, [diagonal(1, 1, 1, 0), diagonal(1, 1, 0, 0)]) == {
        "dimensions": 4,
        "rank": [3, 2],
        "warning": "1,200 pairs for 4 dimensions: the map is arbitrary in 2 of them",
    }


def test_one_missing_dimension_is_that_of_a_centred_layer_normalisation():
    assert support(9, [diagonal(1, 1, 0)]) == {"dimensions": 3, "rank": [2]}


def test_the_warning_says_what_the_pairs_are_and_what_the_map_does_otherwise():
    facts = support(2, [diagonal(1, 1, 0, 0)], otherwise="is zero", unit="sentence pairs")
    assert facts["warning"] == ("2 sentence pairs for 4 dimensions: the map is zero in 2 of them")


def test_a_rotation_whose_pairs_vary_together_in_few_directions_is_warned_of():
    whole, few = diagonal(*[1.0] * 96), diagonal(1.0, 1.0, *[1e-6] * 94)
    facts = support(5000, [whole, few], centred=[whole, few])
    assert facts["effective_rank"] == [96.0, 2.0]
    assert facts["warning"] == (
        "5,000 pairs vary together in 2.0 of 96 directions: in the others the map is arbitrary, or"
        " nearly so"
    )
    enough = diagonal(1.0, 1.0, 1.0, *[1e-6] * 93)
    assert "warning" not in support(5000, [enough], centred=[enough])


def test_pairs_that_leave_dimensions_open_are_warned_of_once():
    one = diagonal(1.0, *[0.0] * 95)
    assert support(1, [one], centred=[one])["warning"] == (
        "1 pairs for 96 dimensions: the map is arbitrary in 95 of them"
    )
