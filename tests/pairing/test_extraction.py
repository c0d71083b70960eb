"""Links from similarities, checked on matrices small enough to solve by hand."""

from __future__ import annotations

import math

import pytest
import torch

from raxalign.pairing.extraction import cosine_similarities, distorted, extract

# Row 0 and column 0 choose each other. Rows 1 and 2 both choose column 0; column 1 chooses row 0,
# column 2 chooses row 2.
SIMILARITIES = [
    [0.90, 0.80, 0.10],
    [0.70, 0.60, 0.20],
    [0.72, 0.30, 0.50],
]


def links(matrix, extraction, padding=0):
    """The links of one matrix, alone or in a larger batch that is filled up."""
    S, T = len(matrix), len(matrix[0])
    batch = torch.full((2, S + padding, T + padding), -torch.inf)
    batch[0, :S, :T] = torch.tensor(matrix)
    batch[1, 0, 0] = 0.5
    found = extract(batch, extraction)
    assert found[1].nonzero().tolist() == [[0, 0]], "the other sentence pair has its own link"
    return {tuple(link) for link in found[0].nonzero().tolist()}


@pytest.mark.parametrize("padding", [0, 2])
def test_argmax_links_words_that_choose_each_other(padding):
    assert links(SIMILARITIES, "argmax", padding) == {(0, 0)}


@pytest.mark.parametrize("padding", [0, 2])
def test_itermax_links_the_words_left_over_at_once_and_the_others_at_nine_tenths(padding):
    # Second pass: row 0 and column 0 times 0.9, their own cell left out.
    #   -    0.72  0.09    row 0 chooses column 1, row 1 column 0 (0.63 over 0.60),
    #  0.63  0.60  0.20    row 2 column 0 (0.648); column 0 chooses row 2, column 1 row 0,
    #  0.648 0.30  0.50    column 2 row 2.
    assert links(SIMILARITIES, "itermax", padding) == {(0, 0), (0, 1), (2, 0)}


def test_itermax_prefers_a_free_word_to_a_linked_one_that_is_hardly_nearer():
    # 0.62 * 0.9 = 0.558 is below 0.60: row 1 goes to column 1. Without the factor it would not.
    matrix = [[0.90, 0.50, 0.10], [0.62, 0.60, 0.20], [0.10, 0.20, 0.30]]
    assert links(matrix, "argmax") == {(0, 0), (1, 1), (2, 2)} - {(1, 1)}
    assert links(matrix, "itermax") == {(0, 0), (1, 1), (2, 2)}


@pytest.mark.parametrize("padding", [0, 2])
def test_match_takes_the_largest_sum_over_all_words(padding):
    # 0.90 + 0.60 + 0.50 = 2.00; the next best, 0.80 + 0.70 + 0.50, is 2.00 too but for 0.001.
    matrix = [[0.90, 0.80, 0.10], [0.701, 0.60, 0.20], [0.72, 0.30, 0.50]]
    assert links(matrix, "match", padding) == {(0, 1), (1, 0), (2, 2)}


def test_match_gives_every_word_of_the_shorter_sentence_one_link():
    assert links([[0.9, 0.8, 0.7]], "match") == {(0, 0)}
    assert links([[0.9], [0.95], [0.1]], "match") == {(1, 0)}


@pytest.mark.parametrize("extraction", ["argmax", "itermax", "match"])
def test_a_word_without_a_vector_has_no_link(extraction):
    missing = [[0.9, -math.inf, 0.1], [-math.inf] * 3, [0.2, -math.inf, 0.8]]
    assert links(missing, extraction) == {(0, 0), (2, 2)}
    assert links([[-math.inf]], extraction) == set()


def test_similarities_run_from_zero_to_one_and_leave_zero_vectors_out():
    src = torch.tensor([[[2.0, 0.0], [0.0, 0.0]]])
    tgt = torch.tensor([[[3.0, 0.0], [-1.0, 0.0], [0.0, 5.0]]])
    assert cosine_similarities(src, tgt)[0].tolist() == [[1.0, 0.0, 0.5], [-math.inf] * 3]


def test_distortion_lowers_similarities_by_the_squared_distance_of_relative_positions():
    # Two source and four target words: (1/2 - 1/4)² = 1/16 times κ = 0.5.
    ones = torch.ones(1, 2, 4)
    found = distorted(ones, torch.tensor([2]), torch.tensor([4]), 0.5)[0]
    assert found[0].tolist() == [1 - 0.5 / 16, 1.0, 1 - 0.5 / 16, 1 - 0.5 / 4]
    assert torch.equal(distorted(ones, torch.tensor([2]), torch.tensor([4]), 0.0), ones)


def test_distortion_counts_the_words_of_the_sentence_and_not_of_the_longest_one():
    padded = torch.full((1, 3, 5), -torch.inf)
    padded[0, :2, :4] = 1.0
    found = distorted(padded, torch.tensor([2]), torch.tensor([4]), 0.5)[0]
    assert found[0, :4].tolist() == [1 - 0.5 / 16, 1.0, 1 - 0.5 / 16, 1 - 0.5 / 4]
    assert (found[2] == -torch.inf).all()
    assert (found[:, 4] == -torch.inf).all()
