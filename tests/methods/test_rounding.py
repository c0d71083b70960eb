"""Differences that are rounding, and those that are not."""

from __future__ import annotations

import torch

from raxalign.methods.objectives.rounding import real_gap


def test_a_difference_is_itself_and_rounding_is_nothing():
    reference = torch.tensor([[1.0, -2.0, 0.5], [4.0, 0.0, 1.0]])
    offset = torch.tensor(
        [[1e-3, 1e-6, -1e-3], [0.0, 4e-5, 6e-5]]
    )  # the limits are 100 x 2^-23 x 2 = 2.4e-5, and 4.8e-5
    vectors = (reference + offset).requires_grad_()
    gap = real_gap(vectors, reference)
    expected = torch.where(
        torch.tensor([[True, False, True], [False, False, True]]), vectors.detach() - reference, 0.0
    )
    assert torch.equal(gap.detach(), expected)
    gap.sum().backward()
    assert vectors.grad is not None
    assert torch.equal(vectors.grad, (expected != 0).float())


def test_in_float64_next_to_nothing_is_rounding():
    reference = torch.ones(1, 2, dtype=torch.float64)
    assert (
        real_gap(reference + 1e-12, reference).tolist()
        == ((reference + 1e-12) - reference).tolist()
    )


def test_what_is_no_number_stays_so():
    gap = real_gap(torch.tensor([[torch.nan, 1.0]]), torch.tensor([[1.0, 1.0]]))
    assert torch.isnan(gap[0, 0])
    assert torch.isnan(real_gap(torch.tensor([[2.0]]), torch.tensor([[torch.inf]]) * 0)).all()
