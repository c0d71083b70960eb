"""Readouts that are fitted on text, by hand, on planted vectors and against their printed forms."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from raxalign.encoders.models.transforms import Affine, Unit
from raxalign.errors import RaxalignError
from raxalign.methods.base import MethodInputs
from raxalign.methods.families.word_vectors import TextMoments, WordReading
from raxalign.methods.iterative_normalization import stepped
from raxalign.methods.leace import erasure
from raxalign.methods.lir import without_directions
from raxalign.methods.lsar import language_subspace
from tests.methods.planted import (
    TableEncoder,
    applied,
    fitted,
    method,
    normal,
    one_word_each,
    planted_inputs,
    rotation,
    write_text,
)


def tables(n=40):
    return {"de": normal(n, 5).float() + 2, "en": normal(n, 5, seed=1).float() - 1}


def exact(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_centring_subtracts_the_mean_that_is_computed_by_hand(tmp_path):
    by_hand = {"de": torch.tensor([[1.0, 2], [3, 6]]), "en": torch.tensor([[0.0, 0], [0, 8]])}
    found = fitted("centering", tmp_path, by_hand)
    centers = {t.lang: t.steps[0].center.tolist() for t in found.transforms}
    assert centers == {"de": [2.0, 4.0], "en": [0.0, 4.0]}
    words = found.words([["w1", "?"]], "de").vectors_NLH[:, 0]
    assert words.tolist() == [[1.0, 2.0], [0.0, 0.0]]


def test_the_first_sentences_count_where_they_are_limited(tmp_path):
    table = torch.arange(80, dtype=torch.float32).reshape(40, 2)
    found = fitted("centering", tmp_path, {"de": table, "en": table}, max_sentences=3)
    assert found.notes["de"] == {"words": 6}
    assert found.transforms[0].steps[0].center.tolist() == [5.0, 6.0]


def test_text_without_words_is_an_error_that_names_the_language(tmp_path):
    table, whole = torch.ones(2, 2), write_text(tmp_path / "whole", one_word_each(2))
    text = {"de": whole, "en": write_text(tmp_path / "empty", [["?"], []])}
    inputs = MethodInputs(("de",), "en", text=text)
    with pytest.raises(RaxalignError, match="text of en has no word"):
        fitted("centering", tmp_path, {"de": table, "en": table}, inputs)


def test_standard_values_are_those_by_hand_and_a_constant_coordinate_is_only_shifted(tmp_path):
    by_hand = {"de": torch.tensor([[1.0, 7], [5, 7]]), "en": torch.tensor([[0.0, 0], [0, 8]])}
    found = fitted("znorm", tmp_path, by_hand)
    assert applied(found.transforms, "de", torch.tensor([[9.0, 8]])).tolist() == [[3.0, 1.0]]
    assert applied(found.transforms, "en", torch.tensor([[2.0, 8]])).tolist() == [[2.0, 1.0]]


@given(st.integers(1, 4), st.integers(0, 9))
def test_lir_is_the_projection_that_the_singular_vectors_give(rank, seed):
    x = normal(12, 5, seed=seed) + 1
    weight, directions = without_directions(x.T @ x, rank), torch.linalg.svd(x).Vh[:rank].T
    assert (weight - (torch.eye(5) - directions @ directions.T)).abs().max() < 1e-9
    plane = without_directions(exact([9, 0], [0, 1]), 1)
    assert (plane - exact([0, 0], [0, 1])).abs().max() < 1e-12


def test_lir_removes_a_planted_direction_and_nothing_else(tmp_path):
    basis, signs = rotation(4), exact(1, -1, 1, -1)[:, None]
    content = exact([1, 0, 0], [1, 0, 0], [0, 2, 0], [0, 2, 0]) @ basis[1:]
    planted = {
        lang: (content + k * signs * basis[:1]).float() for lang, k in (("de", 50), ("en", -20))
    }
    found = fitted("lir", tmp_path, planted)
    for lang, table in planted.items():
        assert (applied(found.transforms, lang, table) - content).abs().max() < 2e-5


def as_printed(means_HL, rank):
    """Both fits of Xie et al. (2022, Algorithm 1): the basis about the mean, then μ by the
    pseudo-inverse, then the basis about μ.
    """
    ones = torch.ones(means_HL.shape[1], 1, dtype=means_HL.dtype)
    first = means_HL.mean(1, keepdim=True)
    left, strength, right = torch.linalg.svd(means_HL - first @ ones.T, full_matrices=False)
    fit = first @ ones.T + left[:, :rank] @ torch.diag(strength[:rank]) @ right[:rank]
    dual = torch.linalg.pinv(fit.T, rtol=1e-10) @ ones
    center = dual / (dual.T @ dual)
    basis = torch.linalg.svd(fit - center @ ones.T, full_matrices=False).U[:, :rank]
    assert (center.T @ basis).abs().max() < 1e-8
    return basis


@given(st.integers(2, 5), st.data())
def test_the_subspace_of_languages_is_that_of_the_printed_algorithm(languages, data):
    rank, seed = data.draw(st.integers(1, languages - 1)), data.draw(st.integers(0, 20))
    means = normal(8, languages, seed=seed) + 3
    found, printed = language_subspace(means, rank), as_printed(means, rank)
    assert (found @ found.T - printed @ printed.T).abs().max() < 1e-7


def test_of_two_languages_the_line_between_their_means_is_taken_out_and_nothing_that_is_equal():
    basis = language_subspace(exact([1, 4], [2, 6]), 1)
    assert torch.allclose(basis @ basis.T, exact([9, 12], [12, 16]) / 25, atol=1e-12)
    assert language_subspace(torch.ones(3, 4, dtype=torch.float64), 3).shape == (3, 0)
    assert language_subspace(exact([1, 2, 3], [0, 0, 0], [5, 5, 5]), 2).shape == (3, 1)


def test_exactly_the_planted_subspace_of_languages_is_removed(tmp_path):
    basis, languages = rotation(6), ("de", "fr", "en")
    content = normal(20, 4) @ basis[2:] + 1
    content -= content @ basis[:2].T @ basis[:2]
    offsets = dict(zip(languages, normal(3, 2, seed=5) * 4 @ basis[:2], strict=True))
    planted = {lang: (content + offset).float() for lang, offset in offsets.items()}
    found = fitted("lsar", tmp_path, planted)
    for lang, table in planted.items():
        assert (applied(found.transforms, lang, table) - content).abs().max() < 1e-5


def closed_form(tables):
    """The map of Belrose et al. (2023, Theorem 4.3) in NumPy, as it is printed: on columns, by the
    square root of the covariance and its pseudo-inverse, with one label column per language.
    """
    x = np.concatenate(list(tables.values())).T.astype(np.float64)
    z = np.repeat(np.eye(len(tables)), [len(table) for table in tables.values()], axis=0).T
    mean = x.mean(1, keepdims=True)
    sigma = (x - mean) @ (x - mean).T / x.shape[1]
    cross = (x - mean) @ (z - z.mean(1, keepdims=True)).T / x.shape[1]
    values, vectors = np.linalg.eigh(sigma)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    whiten = np.linalg.pinv(root, rcond=1e-6)
    white = whiten @ cross
    project = white @ np.linalg.pinv(white, rcond=1e-8)
    return lambda table: (
        (table.T - np.linalg.pinv(whiten, rcond=1e-6) @ project @ whiten @ (table.T - mean)).T
    )


def test_leace_is_the_printed_closed_form_and_leaves_all_languages_one_mean(tmp_path):
    planted = {
        lang: (normal(40, 6, seed=i) @ normal(6, 6, seed=i + 9) + 3 * normal(1, 6, seed=i)).float()
        for i, lang in enumerate(("de", "fr", "en"))
    }
    found = fitted("leace", tmp_path, planted)
    printed = closed_form({lang: table.numpy() for lang, table in planted.items()})
    means = []
    for lang, table in planted.items():
        moved = applied(found.transforms, lang, table)
        assert np.abs(moved.numpy() - printed(table.numpy().astype(np.float64))).max() < 1e-4
        means.append(moved.mean(0))
    assert (torch.stack(means) - means[0]).abs().max() < 1e-4


def test_leace_leaves_directions_without_variance_and_equal_means_alone():
    spread = torch.diag(exact(4, 1, 0))
    erased = erasure(spread, exact([1, 0, 0], [-1, 0, 0]))
    assert torch.allclose(erased, torch.diag(exact(0, 1, 1)), atol=1e-12)
    assert torch.equal(erasure(spread, exact([0, 0, 0], [0, 0, 0])), torch.diag(exact(1, 1, 1)))


@pytest.mark.parametrize(
    ("kind", "rank", "says"), [("lir", 3, "rank 3"), ("lsar", 2, r"rank 2 .* at most 1")]
)
def test_a_rank_that_is_too_high_is_refused(kind, rank, says, tmp_path):
    with pytest.raises(RaxalignError, match=says):
        fitted(kind, tmp_path, dict.fromkeys(("de", "en"), torch.ones(2, 3)), rank=rank)


def unit(x):
    return x / x.norm(dim=1, keepdim=True)


def test_iterative_steps_are_those_of_rounds_over_the_whole_matrix_whatever_the_lengths(tmp_path):
    kind = "iterative_normalization"
    made, x = fitted(kind, tmp_path / "plain", tables()), tables()["de"].double()
    for _ in range(5):
        x = unit(x) - unit(x).mean(0)
    moved = applied(made.transforms, "de", tables()["de"])
    assert (moved - unit(x)).abs().max() < 1e-6
    longer = {k: t * (1 + normal(40, 1, seed=5).float().abs() * 9) for k, t in tables().items()}
    again = fitted(kind, tmp_path, longer)
    assert torch.allclose(applied(again.transforms, "de", longer["de"]), moved, atol=1e-5)


@pytest.mark.parametrize("direction", ["to-pivot", "to-other"])
def test_with_rotation_pairs_that_were_only_turned_and_stretched_coincide(tmp_path, direction):
    other = normal(40, 5) + 1
    turned = other @ rotation(5) * (1 + normal(40, 1, seed=3).abs())
    vectors = {"de": other.float(), "en": turned.float()}
    options = {"rotate": True, "direction": direction}
    assert method("iterative_normalization", **options).needs().links
    found = fitted("iterative_normalization", tmp_path, vectors, **options)
    de, en = (applied(found.transforms, lang, table) for lang, table in vectors.items())
    assert torch.allclose(de, en, atol=1e-5)
    assert 1 < found.notes["de"].pop("effective_rank")[0] < 5
    assert found.notes["de"] == {"words": 40, "pairs": 40, "dimensions": 5, "rank": [5]}


def test_means_deviations_and_second_moments_are_those_of_the_whole_matrix(tmp_path):
    x = normal(11, 3) * 5 + 2
    reading = WordReading(TableEncoder({"de": x, "en": x}), (0,), "last")
    moments = reading.text_moments(planted_inputs(tmp_path, 11), "de", gram=True)
    assert moments.count == 11
    assert (moments.means()[0] - x.mean(0)).abs().max() < 1e-9
    assert (moments.deviations()[0] - x.std(0, correction=0)).abs().max() < 1e-9
    assert (moments.gram_LHH[0] - x.T @ x).abs().max() < 1e-9


def test_steps_come_before_the_sums_each_layer_having_its_own(tmp_path):
    reading = WordReading(TableEncoder({"de": exact([3, 4], [0, 2])}), (0, 0), "last")
    steps = [(Unit(), Affine(exact(1, 0))), ()]
    before = partial(stepped, chains=steps)
    moments = reading.text_moments(planted_inputs(tmp_path, 2), "de", before=before)
    assert torch.allclose(moments.means(), exact([-0.7, 0.9], [1.5, 3.0]), atol=1e-12)


@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 5))
def test_sums_do_not_depend_on_how_the_vectors_are_divided(n, cut, seed):
    x = normal(n, 2, 3, seed=seed)
    whole, parts = TextMoments.empty(2, 3, gram=True), TextMoments.empty(2, 3, gram=True)
    whole.add(x)
    parts.add(x[cut:])
    parts.add(x[:cut])
    assert whole.count == parts.count
    for name in ("sum_LH", "square_LH", "gram_LHH"):
        assert torch.allclose(getattr(whole, name), getattr(parts, name), atol=1e-9)


def test_a_coordinate_that_never_changes_has_the_deviation_one():
    moments = TextMoments.empty(1, 2)
    moments.add(torch.tensor([[[0.1, 1.0]]] * 3 + [[[0.1, 2.0]]]))
    assert moments.deviations()[0, 0] == 1
    assert abs(float(moments.deviations()[0, 1]) - 3**0.5 / 4) < 1e-12
