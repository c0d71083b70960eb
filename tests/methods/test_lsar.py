from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from raxalign.errors import RaxalignError
from raxalign.methods.lsar import Lsar, language_subspace
from raxalign.train.runtime import Runtime
from tests.methods.planted import TableEncoder, applied, normal, planted_inputs, rotation


def as_printed(means_HL: torch.Tensor, rank: int) -> torch.Tensor:
    """Both fits of Xie et al. (2022, Algorithm 1): the basis about the mean, then μ by the
    pseudo-inverse, then the basis about μ.
    """
    ones = torch.ones(means_HL.shape[1], 1, dtype=means_HL.dtype)
    first = means_HL.mean(1, keepdim=True)
    left, strength, right = torch.linalg.svd(means_HL - first @ ones.T, full_matrices=False)
    fitted = first @ ones.T + left[:, :rank] @ torch.diag(strength[:rank]) @ right[:rank]
    dual = torch.linalg.pinv(fitted.T, rtol=1e-10) @ ones
    center = dual / (dual.T @ dual)
    basis = torch.linalg.svd(fitted - center @ ones.T, full_matrices=False).U[:, :rank]
    assert (center.T @ basis).abs().max() < 1e-8
    return basis


@given(st.integers(2, 5), st.data())
def test_the_subspace_is_that_of_the_printed_algorithm(languages, data):
    rank, seed = data.draw(st.integers(1, languages - 1)), data.draw(st.integers(0, 20))
    means = normal(8, languages, seed=seed) + 3
    found, printed = language_subspace(means, rank), as_printed(means, rank)
    assert (found @ found.T - printed @ printed.T).abs().max() < 1e-7


def test_of_two_languages_the_line_between_their_means_is_taken_out():
    basis = language_subspace(torch.tensor([[1.0, 4], [2, 6]], dtype=torch.float64), 1)
    assert torch.allclose(
        basis @ basis.T, torch.tensor([[9.0, 12], [12, 16]], dtype=torch.float64) / 25, atol=1e-12
    )


def test_what_does_not_differ_is_not_taken_out():
    assert language_subspace(torch.ones(3, 4, dtype=torch.float64), 3).shape == (3, 0)
    line = torch.tensor([[1.0, 2, 3], [0, 0, 0], [5, 5, 5]], dtype=torch.float64)
    assert language_subspace(line, 2).shape == (3, 1)


def test_exactly_the_planted_subspace_of_languages_is_removed(tmp_path):
    basis, languages = rotation(6), ("de", "fr", "en")
    content = normal(20, 4) @ basis[2:] + 1
    content -= content @ basis[:2].T @ basis[:2]
    offsets = dict(zip(languages, normal(3, 2, seed=5) * 4 @ basis[:2], strict=True))
    tables = {lang: (content + offset).float() for lang, offset in offsets.items()}
    aligned = Lsar(Lsar.Params()).align(
        TableEncoder(tables), planted_inputs(tmp_path, 20, ("de", "fr")), Runtime()
    )
    for lang, table in tables.items():
        assert (applied(aligned.transforms, lang, table) - content).abs().max() < 1e-5


def test_a_rank_beyond_the_languages_is_refused(tmp_path):
    tables = dict.fromkeys(("de", "en"), torch.ones(2, 3))
    with pytest.raises(RaxalignError, match=r"rank 2 .* at most 1"):
        Lsar(Lsar.Params(rank=2)).align(
            TableEncoder(tables), planted_inputs(tmp_path, 2), Runtime()
        )
