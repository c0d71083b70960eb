from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from raxalign.pairing.words import Words, words_type

sentences = st.lists(st.lists(st.text(max_size=4), max_size=4), max_size=6)


def decode(words: Words) -> list[list[str]]:
    flat = words.vocabulary.take(pa.array(words.codes)).to_pylist()
    bounds = words.offsets.tolist()
    return [flat[a:b] for a, b in pairwise(bounds)]


@given(sentences, sentences)
def test_numbers_stand_for_the_words_over_several_chunks(first, second):
    words = Words.join([Words.of(first), Words.of(second)])
    assert decode(words) == first + second == [list(sentence) for sentence in words]
    assert len(words.vocabulary) == len({word for sentence in first + second for word in sentence})


def test_a_slice_of_a_column_is_numbered_alone():
    column = pa.chunked_array([pa.array([["a"], ["b", "c"], ["d"]], words_type())]).slice(1, 1)
    words = Words(column)
    assert decode(words) == [["b", "c"]]
    assert words.offsets.tolist() == [0, 2]
    assert words[0] == ["b", "c"]


def test_folding_joins_words_that_differ_in_case():
    words = Words.of([["Der", "der", "DAS"], ["das", "É", "é"]])
    codes, size = words.folded(lowercase=True)
    assert (codes.tolist(), size) == ([0, 0, 1, 1, 2, 2], 3)
    codes, size = words.folded(lowercase=False)
    assert (codes.tolist(), size) == ([0, 1, 2, 3, 4, 5], 6)


def test_columns_are_not_copied_into_columns_again():
    words = Words.of([["a"]])
    assert Words.of(words) is words
