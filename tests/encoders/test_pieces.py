from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from raxalign.encoders.models.pieces import share, token_batches
from raxalign.encoders.models.transformer import TransformerEncoder


def test_a_sentence_stands_between_cls_and_sep_and_words_are_counted_from_nought(
    encoder: TransformerEncoder,
) -> None:
    (row,) = encoder.pieces([["the", "playing", "dogs"]], "en")
    assert encoder.tokenizer.convert_ids_to_tokens(row.ids) == [
        "[CLS]",
        "the",
        "play",
        "##ing",
        "dogs",
        "[SEP]",
    ]
    assert row.words.tolist() == [-1, 0, 1, 1, 2, -1]
    assert row.n_words == 3


def test_a_word_of_only_control_characters_has_no_piece(encoder: TransformerEncoder) -> None:
    (row,) = encoder.pieces([["the", "\u00ad", "\u0007", "dogs"]], "en")
    assert row.words.tolist() == [-1, 0, 3, -1]
    assert row.n_words == 4


def test_a_special_piece_written_in_the_text_is_text(encoder: TransformerEncoder) -> None:
    (row,) = encoder.pieces([["the", "[SEP]", "dogs"]], "en")
    assert row.ids.tolist().count(encoder.tokenizer.sep_token_id) == 1
    assert set(row.words.tolist()) == {-1, 0, 1, 2}


def test_pairs_number_words_and_segments_and_languages_through(encoder: TransformerEncoder) -> None:
    rows = encoder.pieces([["der", "Hund"]], "de", [["the", "dogs"]], "en")
    batch = encoder.collate(rows)
    assert batch.languages == ("de", "en")
    assert batch.words_BT.tolist() == [[-1, 0, 1, -1, 2, 3, -1]]
    assert batch.segments_BT.tolist() == [[0, 0, 0, 0, 1, 1, 1]]
    assert batch.langs_BT.tolist() == [[0, 0, 0, 0, 1, 1, 1]]


def test_rows_of_several_languages_share_a_batch_and_padding_has_no_language(
    encoder: TransformerEncoder,
) -> None:
    rows = (
        encoder.pieces([["der"]], "de")
        + encoder.pieces([["the", "cat"]], "en")
        + encoder.pieces([["a"]], "en", [["das"]], "de")
    )
    batch = encoder.collate(rows)
    assert batch.languages == ("de", "en")
    assert batch.langs_BT.tolist() == [[0, 0, 0, -1, -1], [1, 1, 1, 1, -1], [1, 1, 1, 0, 0]]
    assert batch.mask_BT.sum(1).tolist() == [3, 4, 5]
    assert batch.ids_BT.dtype == batch.mask_BT.dtype == batch.words_BT.dtype == torch.int64


def test_a_word_that_truncation_cuts_in_two_is_no_word(encoder: TransformerEncoder) -> None:
    words = ["the"] * (encoder.max_positions - 3) + ["playing", "dogs"]
    (row,) = encoder.pieces([words], "en")
    assert len(row) == encoder.max_positions
    assert row.words[-2] == -1
    assert encoder.tokenizer.convert_ids_to_tokens(row.ids[-2:]) == ["play", "[SEP]"]
    assert row.words.max() == encoder.max_positions - 4


def test_a_pair_that_is_too_long_loses_the_longer_side_first_and_word_numbers_stay(
    encoder: TransformerEncoder,
) -> None:
    (row,) = encoder.pieces([["the"] * 60], "en", [["der"] * 3], "de")
    assert len(row) == encoder.max_positions
    assert row.words[row.first :].tolist() == [60, 61, 62, -1]


def test_truncation_switched_on_by_others_does_not_leak_in(encoder: TransformerEncoder) -> None:
    encoder.tokenizer(["the dogs"], truncation=True, max_length=3, padding="max_length")
    assert [len(row) for row in encoder.pieces([["the"], ["the", "cat", "sleeps"]], "en")] == [3, 5]


def test_two_lists_of_different_lengths_are_refused(encoder: TransformerEncoder) -> None:
    with pytest.raises(ValueError, match="2 sentences, but 1"):
        encoder.pieces([["a"], ["a"]], "en", [["der"]], "de")


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 40))
def test_shares_fill_the_room_and_only_the_longer_side_is_cut_while_it_is_longer(
    first: int, second: int, room: int
) -> None:
    a, b = share(first, second, room)
    assert 0 <= a <= first
    assert 0 <= b <= second
    assert a + b == min(room, first + second)
    if a < first and b < second:
        assert abs(a - b) <= 1
    elif a < first:
        assert a >= b - 1
    elif b < second:
        assert b >= a - 1


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 100))
def test_batches_hold_every_row_once_longest_first_within_the_budget(
    lengths: list[int], budget: int
) -> None:
    batches = list(token_batches(lengths, budget))
    order = np.concatenate(batches).tolist() if batches else []
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[i] for i in order] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget
