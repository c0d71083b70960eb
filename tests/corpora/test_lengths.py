"""Training pairs that are chosen by their number of pieces, or of BERT's basic tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raxalign.corpora.text.bitext import write_heldout, write_training
from raxalign.corpora.text.cleaning import (
    BitextOptions,
    PieceFilter,
    SplitCorpus,
    basic_tokens,
)
from raxalign.corpora.text.dataset import read_table


def letters(words, lang):
    """Each letter is a piece."""
    return sum(map(len, words))


FROM_START = BitextOptions(training_from="start", shortage="use-all")
SOURCE = ["a", "bbb", "c" * 6, "dd", "ee", "ff", "gg gg", "test"]
TARGET = ["a", "bb", "c" * 6, "d", "ee", "fff", "ggg", "test"]


def ids_and_counts(made, folder, sentences, options):
    corpus, inputs = made
    source = SplitCorpus(corpus, inputs, "de", "en", (1, 0))
    notes = write_training(source, sentences, options, folder)
    return read_table(folder / "data").column("id").to_pylist(), notes["counts"]["training"]


def test_the_first_pairs_that_have_the_pieces_are_taken_and_the_others_counted(moses, tmp_path):
    pieces = PieceFilter(letters, min_pieces=2, max_pieces=7)
    made, options = moses(SOURCE, TARGET), replace(FROM_START, pieces=pieces)
    ids, counts = ids_and_counts(made, tmp_path / "some", 2, options)
    assert ids == [1, 4]  # 0 and 3 have one piece on a side, 2 has twelve in all
    assert (counts["few_pieces"], counts["many_pieces"], counts["kept"]) == (2, 1, 2)
    assert counts["read"] == 5
    ids, counts = ids_and_counts(made, tmp_path / "all", 9, options)
    assert ids == [1, 4, 5, 6]
    assert (counts["few_pieces"], counts["many_pieces"], counts["kept"]) == (2, 1, 4)


def test_training_that_runs_backwards_takes_the_last_pairs_that_have_the_pieces(moses, tmp_path):
    pieces = PieceFilter(letters, min_pieces=3)
    options = BitextOptions(pieces=pieces)
    ids, counts = ids_and_counts(moses(SOURCE, TARGET), tmp_path, 2, options)
    assert ids == [6, 2]
    assert (counts["few_pieces"], counts["many_pieces"]) == (3, 0)


def test_without_limits_no_pieces_are_counted(moses, tmp_path):
    _, counts = ids_and_counts(moses(SOURCE, TARGET), tmp_path, 2, FROM_START)
    assert {"few_pieces", "many_pieces"}.isdisjoint(counts)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("Three mice", 2),
        ("Don't go -- now!", 8),
        ("東京 2020.", 4),
        ("ศูนย์กลาง", 1),
    ],
)
def test_basic_tokens_are_words_punctuation_marks_and_chinese_characters(text, tokens):
    assert basic_tokens(text) == tokens


def test_basic_tokens_are_those_of_bert_s_own_tokeniser():
    from transformers.models.bert.tokenization_bert_legacy import BasicTokenizer

    tokenizer = BasicTokenizer(do_lower_case=False)
    for text in ("Don't go -- 東京!", "l'été à 3,5 %", "¿Qué?\u00a0Sí…", "a_b (c/d) €5", "ไทย ไทย"):
        assert basic_tokens(text) == len(tokenizer.tokenize(text))


def test_sides_of_more_basic_tokens_are_over_long_in_training_and_stay_in_tests(moses, tmp_path):
    marks = ["x . . ."] * 3
    made = moses(["x", "y y", *marks, "x ..."], ["x"] * 6)
    options = replace(FROM_START, overlap="keep", max_basic_tokens=3)
    ids, counts = ids_and_counts(made, tmp_path / "training", 5, options)
    assert ids == [0, 1]
    assert counts["overlong"] == 3
    corpus, inputs = made
    source = SplitCorpus(corpus, inputs, "de", "en", (2, 1))
    notes = write_heldout(source, options, tmp_path / "heldout")
    assert notes["counts"]["test"] == {"lines": 2, "blank": 0, "kept": 2}
